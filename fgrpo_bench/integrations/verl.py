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
from fgrpo_bench.integrations.groups import token_advantages
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
    """`token_advantages`, as verl calls it.

    index: the uid of each rollout's prompt; without any response token it is verl's padding.
    config: verl's section `algorithm`. ValueError also for what this verl does not pass or what
    would have no effect.
    """
    if index is None:
        raise ValueError(f"{PREFIX}{advantage} needs the uid of every rollout, and verl gave none")
    if not (config or {}).get("norm_adv_by_std_in_grpo", True):
        raise ValueError(
            f"norm_adv_by_std_in_grpo=False has no effect on {PREFIX}{advantage}: leave it out, or "
            f"choose {PREFIX}dr_grpo"
        )
    if reads_log_probs(advantage) and old_log_probs is None:
        raise ValueError(
            f"{PREFIX}{advantage} reads the log-probabilities of rollouts, which verl "
            f"{verl_version} passes to no estimator of others: choose another advantage"
        )
    log_probs = old_log_probs if reads_log_probs(advantage) else None
    parameters = dict((config or {}).get("fgrpo") or {})
    focal_gamma = parameters.pop("focal_gamma", 0.0)
    return token_advantages(
        token_level_rewards, response_mask, index, advantage, focal_gamma, parameters, log_probs
    )


for _name in registry.table("advantages"):
    register_adv_est(PREFIX + _name)(partial(estimate, _name))
