"""From the rewards of groups to their advantages, with the focal weight.

Both engines read ADVANTAGES; to add one: a function of rewards [groups, group_size] that gives
advantages of that shape, and a line there. Its keyword arguments with plain values are parameters
of an algorithm; one that takes `log_probs` and `n_tokens` gets those of the rollouts under the
policy that sampled them, [groups, group_size]: the sum over the response, and its tokens.
Nothing is imported to load the table: the functions take tensors and NumPy arrays alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from fgrpo_bench import doors
from fgrpo_bench.objectives import by_count
from fgrpo_bench.objectives.focal import focal_weight

if TYPE_CHECKING:
    from torch import Tensor

EPSILON = 1e-6
OF_ROLLOUTS = ("log_probs", "n_tokens")
"""What an advantage may read beside the rewards."""


def success_rate(rewards: Tensor) -> Tensor:
    """Share of correct rollouts; rewards [groups, group_size] of 0 and 1 -> [groups]."""
    return rewards.mean(1)


def grpo(rewards: Any) -> Any:
    """(R - mu) / (std + 1e-6) with the unbiased standard deviation over the group (GRPO, arXiv
    2402.03300, eq. 3)."""
    return dr_grpo(rewards) / (rewards.std(1, correction=1)[:, None] + EPSILON)


def dr_grpo(rewards: Any) -> Any:
    """R - mu (Dr. GRPO, arXiv 2503.20783); the method also sums tokens over a constant length,
    which is an aggregation of losses and no advantage."""
    return rewards - rewards.mean(1)[:, None]


def rloo(rewards: Any) -> Any:
    """N / (N - 1) (R - mu): each rollout against the mean of the others (RLOO, arXiv
    2402.14740)."""
    group_size = rewards.shape[1]
    return group_size * dr_grpo(rewards) / (group_size - 1)


def maxrl_coded(rewards: Any) -> Any:
    """(R - mu) / mu, 0 for a group without a right rollout: MaxRL as its authors' code has it,
    which optimises order N - 1 where the published estimator (`maxrl`) has order N."""
    mean = rewards.mean(1)[:, None]
    return dr_grpo(rewards) / (mean + (mean == 0))


def rs_grpo(rewards: Any, *, beta: float = 2.0) -> Any:
    """(e^(beta R) / mean(e^(beta R)) - 1) / beta: risk-sensitive (RS-GRPO, arXiv 2509.24261)."""
    _positive("rs_grpo", beta)
    raised = math.e ** (beta * rewards)
    return (raised / raised.mean(1)[:, None] - 1) / beta


def ds_grpo(rewards: Any, *, log_probs: Any, n_tokens: Any, beta: float = 0.05) -> Any:
    """GRPO's less beta log pi of a right rollout, plus it of a wrong one: differential smoothing
    (DS-GRPO, arXiv 2511.19942, eq. 6, as another project's code cites it; the equation itself was
    not read). log pi is the sum over the response."""
    _positive("ds_grpo", beta)
    return grpo(rewards) + beta * log_probs * (1 - 2 * rewards)


def unlikeliness(rewards: Any, *, log_probs: Any, n_tokens: Any, beta: float = 0.25) -> Any:
    """GRPO of R (1 - beta rank / N), where rank 0 is the rollout with the lowest log pi a token:
    likely answers earn less (arXiv 2506.02355, after its authors' code)."""
    _positive("unlikeliness", beta)
    rank = (log_probs / n_tokens).argsort(1).argsort(1)
    return grpo(rewards * (1 - beta * rank / rewards.shape[1]))


@dataclass(frozen=True)
class ByCount:
    """An advantage of fgrpo_bench.objectives.by_count for groups of rewards, by table lookup."""

    function: Callable[..., by_count.RightWrong]

    def __call__(self, rewards: Any, **parameters: Any) -> Any:
        """ValueError for rewards other than 0 and 1."""
        if not ((rewards == 0) | (rewards == 1)).all():
            raise ValueError(
                f"rewards of {self.function.__name__} must be 0 and 1, and some are not: take "
                "another advantage, or leave out what changes rewards (a length penalty)"
            )
        values = _table(self.function, rewards.shape[1], tuple(sorted(parameters.items())))
        table = rewards.new_tensor(values) if hasattr(rewards, "new_tensor") else _array(values)
        both = table[rewards.sum(1).round().astype(int) if hasattr(rewards, "astype")
                     else rewards.sum(1).round().long()]  # fmt: skip
        return rewards * both[:, :1] + (1 - rewards) * both[:, 1:]


@lru_cache(maxsize=64)
def _table(
    function: Callable[..., by_count.RightWrong],
    group_size: int,
    parameters: tuple[tuple[str, Any], ...],
) -> list[list[float]]:
    """[N + 1, 2], the advantages of right and wrong rollouts by number of correct ones."""
    rows = (function(c, group_size, **dict(parameters)) for c in range(group_size + 1))
    return [[float(right), float(wrong)] for right, wrong in rows]


def _array(values: list[list[float]]) -> Any:
    import numpy as np

    return np.asarray(values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _positive(name: str, beta: float) -> None:
    if not beta > 0:
        raise ValueError(f"beta={beta} of {name}: must be above 0")


Advantage = Callable[..., Any]
ADVANTAGES: dict[str, Advantage] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "rloo": rloo,
    "maxrl": ByCount(by_count.maxrl),
    "maxrl_coded": maxrl_coded,
    "pkpo": ByCount(by_count.pkpo),
    "passk": ByCount(by_count.passk),
    "psr": ByCount(by_count.psr),
    "nsr": ByCount(by_count.nsr),
    "w_reinforce": ByCount(by_count.w_reinforce),
    "rs_grpo": rs_grpo,
    "ds_grpo": ds_grpo,
    "unlikeliness": unlikeliness,
}


def parameters_of(advantage: str) -> dict[str, Any]:
    """Parameters of an advantage and their defaults; Parameter.empty: it must be given."""
    return {
        name: parameter.default
        for name, parameter in _keywords(advantage).items()
        if name not in OF_ROLLOUTS
    }


def reads_log_probs(advantage: str) -> bool:
    """Whether it needs the log-probabilities of the rollouts."""
    return "log_probs" in _keywords(advantage)


def needs_binary(advantage: str) -> bool:
    """Whether its formula is for rewards of 0 and 1 alone."""
    return isinstance(doors.entry("advantages", advantage), ByCount) or advantage == "ds_grpo"


def _keywords(advantage: str) -> dict[str, Parameter]:
    entry = doors.entry("advantages", advantage)
    function = entry.function if isinstance(entry, ByCount) else entry
    return {
        name: parameter
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is Parameter.KEYWORD_ONLY
    }


def check_parameters(advantage: str, group_size: int, parameters: Mapping[str, Any]) -> None:
    """ValueError for a parameter that the advantage does not have, one that it lacks, and values
    that it is not defined for at this group size."""
    known = parameters_of(advantage)
    for name in parameters:
        if name not in known:
            takes = f"takes {', '.join(known)}" if known else "has no parameters"
            raise ValueError(f"{name}={parameters[name]!r}: the advantage {advantage} {takes}")
        if isinstance(known[name], float) and not _is_number(parameters[name]):
            raise ValueError(f"{name}={parameters[name]!r} of {advantage}: must be a finite number")
    missing = [n for n, default in known.items() if default is Parameter.empty]
    for name in missing:
        if name not in parameters:
            raise ValueError(f"the advantage {advantage} needs {name}: give it in `parameters`")
    if "beta" in parameters:
        _positive(advantage, parameters["beta"])
    if _is_exact(advantage):
        right_wrong(advantage, group_size, **parameters)


def _is_exact(advantage: str) -> bool:
    """Whether `right_wrong` has it: those of this package that are functions of rewards."""
    entry = doors.entry("advantages", advantage)
    return entry.__module__ == __name__ and not reads_log_probs(advantage)


def right_wrong(advantage: str, group_size: int, **parameters: Any) -> list[by_count.RightWrong]:
    """Advantage of a right and of a wrong rollout for every number of correct ones, [N + 1]; 0 for
    a kind that a group does not have. Exact where the formula is rational, else floats with
    grpo's epsilon left out. ValueError for one that reads log-probabilities."""
    import numpy as np

    if reads_log_probs(advantage):
        raise ValueError(f"the advantage {advantage} is no function of the rewards alone")
    entry = doors.entry("advantages", advantage)
    if isinstance(entry, ByCount) or entry is grpo:
        function = entry.function if isinstance(entry, ByCount) else by_count.grpo
        return [function(c, group_size, **parameters) for c in range(group_size + 1)]
    groups = np.tri(group_size + 1, group_size, -1)  # the first c of row c are right
    exact = np.vectorize(Fraction, otypes=[object])(groups)
    made = entry(groups if "beta" in parameters_of(advantage) else exact, **parameters)
    return [(row[0] if c else 0, row[-1] if c < group_size else 0) for c, row in enumerate(made)]


def teaches_when_all_are_alike(
    advantage: str, group_size: int, parameters: Mapping[str, Any]
) -> bool:
    """Whether a group that is all right or all wrong has a gradient, focal weight apart."""
    if not _is_exact(advantage):
        return reads_log_probs(advantage)
    rows = right_wrong(advantage, group_size, **parameters)
    return bool(rows[0][1] != 0 or rows[-1][0] != 0)


def group_advantages(
    rewards: Tensor,
    focal_gamma: float,
    advantage: str = "grpo",
    parameters: Mapping[str, Any] | None = None,
    **of_rollouts: Tensor,
) -> Tensor:
    """Focal-weighted group-relative advantages; [groups, group_size] in and out.

    (1 - mu)^gamma times those of the table (weight of arXiv 2602.06717); at focal_gamma = 0 bitwise
    those. of_rollouts: OF_ROLLOUTS, for an advantage that reads them.
    """
    base: Tensor = doors.entry("advantages", advantage)(
        rewards, **(parameters or {}), **of_rollouts
    )
    weighted: Tensor = base * focal_weight(rewards.mean(1, keepdim=True), focal_gamma)
    return weighted


def is_active(rewards: Tensor) -> Tensor:
    """Which groups are neither all right nor all wrong, which is what dynamic sampling keeps; bool
    [groups]."""
    return (rewards != rewards[:, :1]).any(1)


def teaches(advantages: Tensor) -> Tensor:
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
