"""Every advantage of the table as an `algorithm.adv_estimator` of verl: fgrpo_<advantage>.

verl imports this module by the entry point that fgrpo-bench has in `verl.plugins`, or where
VERL_USE_EXTERNAL_MODULES names it. `algorithm.fgrpo` holds focal_gamma and the parameters of the
advantage, e.g. {focal_gamma: 0.5, k: 4}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

try:
    from verl import __version__ as verl_version
    from verl.trainer.ppo.core_algos import register_adv_est
except ImportError as error:
    raise ImportError(
        f"fgrpo_bench.integrations.verl cannot import verl ({error}): pip install verl==0.9.1"
    ) from error

from torch import Tensor

from fgrpo_bench.core import registry
from fgrpo_bench.integrations.groups import of_rollouts, rollout_advantages
from fgrpo_bench.objectives.advantages import reads_log_probs

PREFIX = "fgrpo_"
"""Of our estimators' names: verl has a `grpo` and an `rloo` of its own."""


def estimate(
    advantage: str,
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any] | None = None,
    config: Mapping[str, Any] | None = None,
    old_log_probs: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Advantages and returns [rollouts, tokens], alike: 0 where the response mask is.

    index: the uid of each rollout's prompt; rollouts of one uid are a group, in any order and
    number. A group without any response token is verl's padding and gets 0. config: verl's section
    `algorithm`. ValueError and FloatingPointError as `rollout_advantages`, and for what this verl
    does not pass or what would have no effect.
    """
    if index is None:
        raise ValueError(f"{PREFIX}{advantage} needs the uid of every rollout, and verl gave none")
    if not (config or {}).get("norm_adv_by_std_in_grpo", True):
        raise ValueError(
            f"norm_adv_by_std_in_grpo=False has no effect on {PREFIX}{advantage}: leave it out, or "
            f"choose {PREFIX}dr_grpo"
        )
    mask = response_mask.to(token_level_rewards.dtype)
    read = {}
    if reads_log_probs(advantage):
        if old_log_probs is None:
            raise ValueError(
                f"{PREFIX}{advantage} reads the log-probabilities of rollouts, which verl "
                f"{verl_version} passes to no estimator of others: choose another advantage"
            )
        read = of_rollouts(old_log_probs, mask)
    parameters = dict((config or {}).get("fgrpo") or {})
    focal_gamma = parameters.pop("focal_gamma", 0.0)
    answered = {
        uid for uid, any_token in zip(index, mask.any(-1).tolist(), strict=True) if any_token
    }
    groups = [uid if uid in answered else None for uid in index]
    rewards = token_level_rewards.sum(-1)
    by_rollout = rollout_advantages(rewards, groups, advantage, focal_gamma, parameters, read)
    advantages = by_rollout[:, None] * mask
    return advantages, advantages


for _name in registry.table("advantages"):
    register_adv_est(PREFIX + _name)(partial(estimate, _name))
