"""From the rewards of groups to their advantages, with the focal weight.

Both engines read ADVANTAGES; to add one: a function of rewards [groups, group_size] that gives
advantages of that shape, and a line there, as OfBinary where only rewards of 0 and 1 have a
meaning, as OfPositiveMean where the mean of a group must be above 0. Its keyword arguments with
plain values are parameters of an algorithm; one that takes `log_probs` and `n_tokens` gets those of
the rollouts under the policy that sampled them, [groups, group_size]: the sum over the response,
and its tokens. One that learns from the steps before too is Stateful (objectives.across_steps).
Nothing is imported to load the table: the functions take tensors and NumPy arrays alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from fgrpo_bench.core import registry
from fgrpo_bench.core.seeds import uniforms
from fgrpo_bench.objectives import across_steps, by_count, by_order, by_rewards
from fgrpo_bench.objectives.across_steps import State, Stateful
from fgrpo_bench.objectives.by_rewards import (
    ByCount,
    ByCountOrOrder,
    Key,
    OfBinary,
    OfPositiveMean,
    Restricted,
    cache_key,
    check_positive,
    is_number,
)
from fgrpo_bench.objectives.focal import focal_weight

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

ROLLOUT_STATISTICS = ("log_probs", "n_tokens")
"""What an advantage may read beside the rewards."""


def success_rate(correct: Tensor) -> Tensor:
    """Share of correct rollouts; [groups, group_size], 1 where correct, else 0 -> [groups]."""
    return correct.mean(1)


Advantage = Callable[..., Any]
ADVANTAGES: dict[str, Advantage] = {
    "grpo": by_rewards.grpo,
    "dr_grpo": by_rewards.dr_grpo,
    "rloo": by_rewards.rloo,
    "maxrl": ByCount(by_count.maxrl),
    "maxrl_coded": OfPositiveMean(by_rewards.maxrl_coded),
    "pkpo": ByCountOrOrder(ByCount(by_count.pkpo), by_order.pkpo),
    "passk": ByCount(by_count.passk),
    "psr": ByCount(by_count.psr),
    "nsr": ByCount(by_count.nsr),
    "w_reinforce": ByCount(by_count.w_reinforce),
    "rs_grpo": by_rewards.rs_grpo,
    "ds_grpo": OfBinary(by_rewards.ds_grpo),
    "unlikeliness": by_rewards.unlikeliness,
    "tailrl": by_order.tailrl,
    "max_at_k": by_order.max_at_k,
    "mmpo": ByCountOrOrder(ByCount(by_count.mmpo), by_order.mmpo),
    "curverl": Stateful(OfBinary(across_steps.curverl), across_steps.no_groups),
}


def default_parameters(advantage: str) -> dict[str, Any]:
    """Parameters of an advantage and their defaults; Parameter.empty: it must be given."""
    return {
        name: parameter.default
        for name, parameter in _keywords(advantage).items()
        if name not in (*ROLLOUT_STATISTICS, "state")
    }


def reads_log_probs(advantage: str) -> bool:
    """Whether it needs the log-probabilities of the rollouts."""
    return "log_probs" in _keywords(advantage)


def carries_state(advantage: str) -> bool:
    """Whether it has a state that goes from step to step."""
    return isinstance(registry.entry("advantages", advantage), Stateful)


def reads_rewards_only(advantage: str) -> bool:
    """Whether it is a function of the rewards of a group, and of nothing else."""
    return not (reads_log_probs(advantage) or carries_state(advantage))


def first_state(advantage: str, group_size: int, parameters: Mapping[str, Any]) -> State:
    """The state before the first step; empty for an advantage that carries none."""
    entry = registry.entry("advantages", advantage)
    return entry.begin(group_size, **parameters) if isinstance(entry, Stateful) else {}


def restricted(advantage: str) -> Restricted | None:
    """The rule for rewards of an advantage that has one."""
    entry = registry.entry("advantages", advantage)
    entry = entry.step if isinstance(entry, Stateful) else entry
    return entry if isinstance(entry, Restricted) else None


def _keywords(advantage: str) -> dict[str, Parameter]:
    return {
        name: parameter
        for name, parameter in signature(_function(advantage)).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


def _function(advantage: str) -> Callable[..., Any]:
    """The formula of an entry of the table."""
    return _unrestricted(registry.entry("advantages", advantage))


def _unrestricted(entry: Advantage) -> Advantage:
    if isinstance(entry, Restricted | ByCountOrOrder | Stateful):
        return entry.function
    return entry


def check_parameters(advantage: str, group_size: int, parameters: Mapping[str, Any]) -> None:
    """ValueError for a parameter that the advantage does not have, one that it lacks, and values
    that it is not defined for at this group size or that leave nothing to learn from."""
    defaults = default_parameters(advantage)
    for name in parameters:
        if name not in defaults:
            takes = f"takes {', '.join(defaults)}" if defaults else "has no parameters"
            raise ValueError(f"{name}={parameters[name]!r}: the advantage {advantage} {takes}")
        if isinstance(defaults[name], float) and not is_number(parameters[name]):
            raise ValueError(f"{name}={parameters[name]!r} of {advantage}: must be a finite number")
    missing = [n for n, default in defaults.items() if default is Parameter.empty]
    for name in missing:
        if name not in parameters:
            raise ValueError(f"the advantage {advantage} needs its parameter {name}")
    if "beta" in parameters:
        check_positive(advantage, parameters["beta"])
    first_state(advantage, group_size, parameters)
    if _is_exact(advantage) and not any(map(any, right_wrong(advantage, group_size, **parameters))):
        given = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        raise ValueError(
            f"{given} of {advantage}: with group_size={group_size} every advantage is 0 and "
            "nothing would be learned; take a smaller one"
        )


def _is_exact(advantage: str) -> bool:
    """Whether `right_wrong` has it: those of this package that are functions of rewards."""
    homes = [module.__name__ for module in (by_rewards, by_count, by_order)]
    is_ours = _function(advantage).__module__ in homes
    return is_ours and reads_rewards_only(advantage)


def right_wrong(advantage: str, group_size: int, **parameters: Any) -> list[by_count.RightWrong]:
    """Advantage of a right and of a wrong rollout for every number of correct ones, [N + 1]; 0 for
    a kind that a group does not have. Exact where the formula is rational, else floats with
    grpo's epsilon left out. ValueError for one that reads anything else, or carries a state."""
    if not reads_rewards_only(advantage):
        raise ValueError(f"the advantage {advantage} is no function of the rewards alone")
    return [
        *_right_wrong(registry.entry("advantages", advantage), group_size, cache_key(parameters))
    ]


@lru_cache(maxsize=256)
def _right_wrong(entry: Advantage, group_size: int, key: Key) -> tuple[by_count.RightWrong, ...]:
    import numpy as np

    parameters = {name: value for name, _, value in key}
    if isinstance(entry, ByCount | ByCountOrOrder) or entry is by_rewards.grpo:
        function = by_count.grpo if entry is by_rewards.grpo else _unrestricted(entry)
        return tuple(function(c, group_size, **parameters) for c in range(group_size + 1))
    function = _unrestricted(entry)
    takes_floats = "beta" in signature(function).parameters  # an exponential is no fraction
    pairs: list[by_count.RightWrong] = []
    for c in range(group_size + 1):
        rewards = [1] * c + [0] * (group_size - c)
        exact = [Fraction(reward) for reward in rewards]
        group = np.array([rewards], float) if takes_floats else np.array([exact], object)
        (row,) = function(group, **parameters)
        right = row[0] if c > 0 else 0
        wrong = row[-1] if c < group_size else 0
        pairs.append((right, wrong))
    return tuple(pairs)


def has_signal_when_all_are_alike(
    advantage: str, group_size: int, parameters: Mapping[str, Any]
) -> bool:
    """Whether a group that is all right or all wrong has a gradient, focal weight apart."""
    if not _is_exact(advantage):
        return reads_log_probs(advantage)
    rows = right_wrong(advantage, group_size, **parameters)
    return bool(rows[0][1] != 0 or rows[-1][0] != 0)


def group_advantages(
    rewards: Any,
    focal_gamma: float,
    advantage: str = "grpo",
    parameters: Mapping[str, Any] | None = None,
    correct: Any = None,
    **statistics: Any,
) -> Any:
    """Focal-weighted group-relative advantages; [groups, group_size] in and out, tensors and NumPy
    arrays alike.

    (1 - mu)^gamma times those of the table (weight of arXiv 2602.06717), mu the share of correct
    rollouts; at focal_gamma = 0 bitwise those. correct: 1 where correct, else 0; None: the rewards
    are that. statistics: ROLLOUT_STATISTICS, for an advantage that reads them. ValueError for one
    that carries a state, which `next_advantages` has.
    """
    base = registry.entry("advantages", advantage)(rewards, **(parameters or {}), **statistics)
    rate = (rewards if correct is None else correct).mean(1)[:, None]
    return base * focal_weight(rate, focal_gamma)


def next_advantages(
    state: State,
    rewards: Any,
    focal_gamma: float,
    advantage: str,
    parameters: Mapping[str, Any],
    correct: Any,
    **statistics: Any,
) -> tuple[State, Any]:
    """`group_advantages` of the whole batch of a step, with a state or without one, and the state
    of the next step. state: what this gave in the step before; in the first, `first_state`."""
    entry = registry.entry("advantages", advantage)
    if not isinstance(entry, Stateful):
        return state, group_advantages(
            rewards, focal_gamma, advantage, parameters, correct, **statistics
        )
    state, base = entry.step(rewards, state=state, **parameters, **statistics)
    return state, base * focal_weight(correct.mean(1)[:, None], focal_gamma)


def random_rewards(correct: NDArray[np.bool_], seeds: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rewards of 0 and 1 that say nothing of a rollout: each is 1 with the probability of its
    group's share of correct rollouts. [groups, group_size] all three; seeds: of every reward."""
    u = uniforms(seeds.ravel(), 1).reshape(seeds.shape)
    rewards: NDArray[np.float32] = (u < correct.mean(1, keepdims=True)).astype("float32")
    return rewards


def is_active(correct: Tensor) -> Tensor:
    """Which groups are neither all right nor all wrong, which is what dynamic sampling keeps; bool
    [groups]. correct: [groups, group_size]."""
    return (correct != correct[:, :1]).any(1)


def has_signal(advantages: Tensor) -> Tensor:
    """Which groups have a gradient: some advantage is not 0; bool [groups]. Under most advantages
    these are the groups of `is_active`."""
    has_gradient: Tensor = (advantages != 0).any(1)
    return has_gradient


def action_mask(tokens: Tensor, *, eos: int, pad: int) -> Tensor:
    """Which positions are actions: up to and including the first end or padding token.

    tokens: [sequences, length]; bool likewise. A sampled padding token is an action like any other:
    were it masked out, a policy could put probability there unseen and collapse.
    """
    ends = ((tokens == eos) | (tokens == pad)).long()
    before: Tensor = ends.cumsum(1) - ends
    return before == 0
