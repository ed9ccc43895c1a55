"""Advantages with a state that goes from step to step: (state, batch) -> (state, advantages).

A state is arrays by name whose shapes stay as they are: an engine saves it with the weights and the
counters, so that a killed run goes on with the same bits. Batches are [groups, group_size], whole,
as the step learns from them; tensors and NumPy arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fgrpo_bench.objectives.by_rewards import Restricted, dr_grpo, like

if TYPE_CHECKING:
    from numpy.typing import NDArray

State = Mapping[str, "NDArray[Any]"]


@dataclass(frozen=True)
class Stateful:
    """An advantage with a state across steps, as an entry of the table."""

    step: Callable[..., tuple[State, Any]]
    """Of rewards and, by keyword, `state` and the parameters; Restricted where its formula is not
    for all rewards."""
    begin: Callable[..., State]
    """The state before the first step, of a group size and the parameters; ValueError for some that
    the formula is not defined for."""

    @property
    def function(self) -> Callable[..., Any]:
        """The formula."""
        return self.step.function if isinstance(self.step, Restricted) else self.step

    def __call__(self, rewards: Any, **_: Any) -> Any:
        """ValueError, always: without the state of the steps before there are no advantages."""
        raise ValueError(
            f"the advantage {self.function.__name__} carries a state from step to step, which is "
            "not kept here: choose another one, or train with an engine that keeps it (embedded)"
        )


def no_groups(group_size: int, *, window: int = 10) -> State:
    """curverl's state before the first step: counts int64 [window, N + 1], the newest last."""
    import numpy as np

    if not isinstance(window, int) or window < 1:
        raise ValueError(f"window={window!r} of curverl: must be a whole number of at least 1")
    return {"counts": np.zeros((window, group_size + 1), np.int64)}


def curverl(rewards: Any, *, state: State, window: int = 10) -> tuple[State, Any]:
    """CurveRL (arXiv 2605.24331, algorithm 1, after its authors' code), with a state across steps.

    Formula: `f(c) / F(c) (R - m)`: of the groups of the last `window` batches that are neither all
    right nor all wrong, f(c) have c right rollouts and F(c) at most as many; of the batch itself
    where these have none, as in the first step; 0 for a c that they do not have
    Weight: by the batches before; f / F is 1 for the fewest right rollouts that they have
    Uniform groups: none
    """
    import numpy as np

    group_size = rewards.shape[1]
    sums = rewards.sum(1)
    n_correct = np.asarray(sums.cpu() if hasattr(sums, "cpu") else sums).round().astype(np.int64)
    is_mixed = (n_correct > 0) & (n_correct < group_size)
    counts = np.bincount(n_correct[is_mixed], minlength=group_size + 1)
    before = state["counts"]
    reference = before.sum(0) if before.any() else counts
    weights = reference / np.maximum(reference.cumsum(), 1)
    advantages = dr_grpo(rewards) * like(rewards, weights[n_correct])[:, None]
    return {"counts": np.vstack([before[1:], counts])}, advantages
