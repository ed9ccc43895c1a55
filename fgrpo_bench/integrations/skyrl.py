"""An advantage of the table as `trainer.algorithm.advantage_estimator` of SkyRL.

SkyRL calls its estimators where it trains, so that `register` belongs into the program that starts
the trainer, as with its own example of a custom estimator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

try:
    from skyrl.backends.skyrl_train.utils.ppo_utils import register_advantage_estimator
except ImportError as error:
    raise ImportError(
        f"fgrpo_bench.integrations.skyrl cannot import SkyRL ({error}): pip install "
        "skyrl[skyrl-train]==0.3.0"
    ) from error

from torch import Tensor

from fgrpo_bench.integrations.groups import check_settings, token_advantages
from fgrpo_bench.objectives.advantages import reads_log_probs

PADDING = re.compile(r"pad\d+")
"""The uids of what SkyRL adds to fill a batch: copies of a rollout, of no group."""


def register(
    name: str,
    *,
    advantage: str = "grpo",
    focal_gamma: float = 0.0,
    parameters: Mapping[str, Any] | None = None,
    group_size: int,
) -> None:
    """Make `name` an estimator of SkyRL.

    group_size: `generator.n_samples_per_prompt`. ValueError for settings that the table does not
    allow, for an advantage that reads log-probabilities, which SkyRL passes to no estimator, and
    for a name that SkyRL has; at a step as `rollout_advantages`.
    """
    check_settings(advantage, group_size, focal_gamma, parameters or {})
    if reads_log_probs(advantage):
        raise ValueError(
            f"{advantage} reads the log-probabilities of rollouts, which SkyRL passes to no "
            "estimator: choose another advantage"
        )
    estimator = partial(_estimate, advantage, focal_gamma, dict(parameters or {}))
    register_advantage_estimator(name)(estimator)


def _estimate(
    advantage: str,
    focal_gamma: float,
    parameters: Mapping[str, Any],
    *,
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Sequence[Any],
    **_: Any,
) -> tuple[Tensor, Tensor]:
    uids = [None if PADDING.fullmatch(str(uid)) else uid for uid in index]
    return token_advantages(
        token_level_rewards, response_mask, uids, advantage, focal_gamma, parameters
    )
