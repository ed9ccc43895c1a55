"""Compares an estimator with the vectors of an advantage, and groups with what they went in as.

In: functions of rewards [groups, N] that give advantages of that shape. Out: verdicts. Rewards go
in as float64 and as float32, because equal rewards must give 0 in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.conformance.vectors import Case, Floats, Vectors, read_vectors, written

EQUAL, CONSTANT, EPSILON = "equal", "equal up to a constant", "equal up to an epsilon"
BOTH = "equal up to a constant and an epsilon"
DIFFERS, NOT_COMPARABLE = "differs", "not comparable"
EQUAL_REWARDS, WHOLE_GROUPS = ", equal rewards", ", groups stay whole"
"""What the names of verdicts end on that are of one of the two."""
TOLERANCES = {"float64": 1e-9, "float32": 1e-5}
"""Of a value, relative to the largest exact advantage of its group."""
ZERO = 1e-6
"""Of an advantage that must be 0, relative to the group's largest reward, or 1: rounding of the
rewards themselves passes, and what is divided by a deviation of rounding does not."""
LARGEST_EPSILON = 1e-3
"""A larger one beside a divisor changes what the formula does."""
Function = Callable[..., Any]
DIVISORS: Mapping[str, Callable[[Floats], Floats]] = {
    "grpo": lambda rewards: np.std(rewards, axis=1, ddof=1, keepdims=True),
    "maxrl_coded": lambda rewards: rewards.mean(1, keepdims=True),
}
"""`Vectors.divisor` of rewards [groups, N]; [groups, 1]."""


@dataclass(frozen=True)
class Estimator:
    """A function of somebody else's and the advantage that it is to be."""

    name: str
    advantage: str
    function: Function | None
    """None for one that is not comparable."""
    settings: tuple[Mapping[str, Any], ...] = ({},)
    """Parameters of the advantage that it is compared under; the function gets `keywords`."""
    passes: bool = False
    """Whether the function takes those parameters as keywords."""
    why: str = ""
    """Why it is not comparable."""
    binary: bool = False
    """Whether it takes rewards of 0 and 1 alone."""
    dtypes: tuple[str, ...] = ("float64", "float32")
    where: str = ""
    """The line of the formula in a trainer's source."""


@dataclass(frozen=True)
class Worst:
    """The group that differs most."""

    rewards: tuple[float, ...]
    expected: tuple[float, ...]
    given: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """Of one estimator under one setting, or of the groups of a trainer."""

    name: str
    advantage: str
    setting: str
    kind: str
    detail: str = ""
    constants: Mapping[int, float] = field(default_factory=dict)
    """By group size, of a verdict up to a constant: the estimator's advantages in the paper's."""
    epsilon: float | None = None
    worst: Worst | None = None
    curve: Mapping[float, tuple[float, float]] = field(default_factory=dict)
    """By success rate where it differs: the paper's expected weight, and the estimator's, at
    `curve_size` rollouts a group."""
    curve_size: int | None = None
    n_groups: int = 0
    """Compared, all orders counted."""
    where: str = ""
    """`Estimator.where`."""

    @property
    def is_equal(self) -> bool:
        """A constant factor or an epsilon counts as equal."""
        return self.kind in (EQUAL, CONSTANT, EPSILON, BOTH)


def check_estimator(estimator: Estimator) -> list[Verdict]:
    """A verdict a setting, and where the exact advantages of equal rewards are 0, one on these.

    ValueError for advantages of another shape, and for what the function raises.
    """
    if estimator.function is None:
        return [Verdict(estimator.name, estimator.advantage, "", NOT_COMPARABLE, estimator.why)]
    verdicts, vectors = [], read_vectors(estimator.advantage)
    for parameters in estimator.settings:
        cases = vectors.cases_with(parameters)
        runs = [
            _run(estimator, case, parameters, dtype) for dtype in estimator.dtypes for case in cases
        ]
        name = estimator.name, estimator.advantage, written(parameters) if parameters else ""
        verdicts.append(_verdict(name, runs, vectors))
        if any(run.equal.any() for run in runs):
            verdicts.append(_equal_rewards_verdict(name, runs))
    return [replace(verdict, where=estimator.where) for verdict in verdicts]


@dataclass(frozen=True)
class _Run:
    """What a function gave for a case."""

    case: Case
    dtype: str
    rewards: Floats
    exact: Floats
    given: Floats
    divisor: Floats | None
    """[groups, 1], or None for a formula that divides by none."""

    @property
    def equal(self) -> NDArray[np.bool_]:
        """Which groups have equal rewards and nothing to learn; [groups]."""
        alike = (self.rewards == self.rewards[:, :1]).all(1)
        is_zero: NDArray[np.bool_] = alike & (self.exact == 0).all(1)
        return is_zero

    @property
    def scale(self) -> Floats:
        """[groups, 1], what a difference is relative to."""
        largest: Floats = np.abs(self.exact).max(1, keepdims=True)
        return np.where(largest > 0, largest, 1.0)


def _run(estimator: Estimator, case: Case, parameters: Mapping[str, Any], dtype: str) -> _Run:
    assert estimator.function is not None
    rewards, exact = case.in_every_order(binary=estimator.binary)
    keywords = dict(parameters) if estimator.passes else {}
    before = rewards.astype(dtype)
    try:
        values = estimator.function(before.copy(), **keywords)
    except Exception as error:
        raise ValueError(
            f"{estimator.name} raised {type(error).__name__} for {len(rewards)} groups of "
            f"{case.group_size} rewards ({error}): mend it, or leave out groups of rewards other "
            "than 0 and 1 with --binary"
        ) from error
    values = values.detach().cpu() if hasattr(values, "detach") else values
    given = np.asarray(values, dtype=float)
    if given.shape != rewards.shape:
        raise ValueError(
            f"{estimator.name} gave advantages of shape {list(given.shape)} for rewards of shape "
            f"{list(rewards.shape)}: return one for each reward, [groups, N]"
        )
    divisor = DIVISORS.get(estimator.advantage)
    return _Run(case, dtype, rewards, exact, given, None if divisor is None else divisor(rewards))


def _verdict(name: tuple[str, str, str], runs: Sequence[_Run], vectors: Vectors) -> Verdict:
    """Equal as it is, else up to a constant a group size, else up to an epsilon too."""
    n_groups = sum(len(run.rewards) for run in runs)
    teaching = [run for run in runs if not run.equal.all()]
    worst, distance = _worst(teaching, {}, {})
    if worst is None:
        return Verdict(*name, EQUAL, n_groups=n_groups)
    # of float64 where the function takes it: its constants are good to more digits
    first = [run for run in teaching if run.dtype == runs[0].dtype]
    constants = {run.case.group_size: _factor(run) for run in first}
    tries: list[tuple[dict[int, float], dict[int, float]]] = [(constants, {})]
    if vectors.divisor is not None:
        factors, epsilons = _regressed(first)
        tries += [({}, epsilons), (factors, epsilons)]
    for factors, epsilons in tries:
        if _worst(teaching, factors, epsilons)[0] is None:
            middle = float(np.median([*epsilons.values()])) if epsilons else None
            kind = BOTH if factors else EPSILON
            if middle is None:
                kind = CONSTANT
            detail = _described(factors, middle, vectors)
            return Verdict(*name, kind, detail, factors, middle, n_groups=n_groups)
    size, curve = _curve(teaching, vectors)
    detail = f"by {distance:.2g} of the group's largest advantage"
    return Verdict(
        *name, DIFFERS, detail, worst=worst, curve=curve, curve_size=size, n_groups=n_groups
    )


def _equal_rewards_verdict(name: tuple[str, str, str], runs: Sequence[_Run]) -> Verdict:
    name = f"{name[0]}{EQUAL_REWARDS}", *name[1:]
    worst, largest, n_groups = None, ZERO, 0
    for run in runs:
        rows = np.flatnonzero(run.equal)
        n_groups += len(rows)
        size = np.maximum(1.0, np.abs(run.rewards[rows]).max(1, initial=0))
        given = _finite(run.given[rows])
        off = np.abs(given).max(1, initial=0) / size
        if len(rows) and off.max() > largest:
            row = rows[off.argmax()]
            largest, worst = float(off.max()), _group_values(run, row)
    if worst is None:
        return Verdict(*name, EQUAL, "0", n_groups=n_groups)
    return Verdict(*name, DIFFERS, f"{largest:.2g} instead of 0", worst=worst, n_groups=n_groups)


def _finite(values: Floats) -> Floats:
    """What is not finite is as far off as can be."""
    return np.where(np.isfinite(values), values, np.inf)


def _worst(
    runs: Sequence[_Run], factors: Mapping[int, float], epsilons: Mapping[int, float]
) -> tuple[Worst | None, float]:
    """The group that is furthest from the exact advantages times what is allowed for; None where
    all are within the tolerance."""
    worst, furthest = None, 0.0
    for run in runs:
        rows = np.flatnonzero(~run.equal)
        factor = factors.get(run.case.group_size, 1.0)
        epsilon = epsilons.get(run.case.group_size, 0.0)
        allowed = run.exact[rows] * factor * _damped(run, rows, epsilon)
        scale = run.scale[rows] * factor
        off = (np.abs(_finite(run.given[rows]) - allowed) / scale).max(1)
        if off.max() > max(TOLERANCES[run.dtype] * _rounding(run.rewards[rows]), furthest):
            furthest = float(off.max())
            worst = _group_values(run, rows[off.argmax()])
    return worst, furthest


def _rounding(rewards: Floats) -> float:
    """How much larger than their spread rewards are: what their own rounding becomes."""
    spread = np.ptp(rewards, axis=1)
    return float((np.abs(rewards).max(1)[spread > 0] / spread[spread > 0]).max(initial=1.0))


def _group_values(run: _Run, row: int) -> Worst:
    rewards, exact, given = (
        tuple(values[row].tolist()) for values in (run.rewards, run.exact, run.given)
    )
    return Worst(rewards, exact, given)


def _factor(run: _Run) -> float:
    """The constant that brings the exact advantages nearest to what was given; 1 where none above 0
    does."""
    given = _finite(run.given)
    if not np.isfinite(given).all() or not run.exact.any():
        return 1.0
    factor = float((given * run.exact).sum() / (run.exact**2).sum())
    return factor if factor > 0 else 1.0


def _damped(run: _Run, rows: NDArray[np.int64], epsilon: float) -> Floats:
    """What an epsilon beside the divisor leaves of an advantage; [rows, 1]."""
    if run.divisor is None or not epsilon:
        return np.ones((len(rows), 1))
    return run.divisor[rows] / (run.divisor[rows] + epsilon)


def _regressed(runs: Sequence[_Run]) -> tuple[dict[int, float], dict[int, float]]:
    """By group size, constant and epsilon of given = constant exact s / (s + epsilon), s: the
    divisor; without those sizes whose groups fit none.

    With r = given / exact it is 1 / r = 1 / constant + (epsilon / constant) / s, a line in 1 / s.
    """
    factors, epsilons = {}, {}
    for run in runs:
        rows = np.flatnonzero(~run.equal & np.isfinite(run.given).all(1))
        exact, given = run.exact[rows], run.given[rows]
        ratio = (given * exact).sum(1) / (exact**2).sum(1)
        assert run.divisor is not None
        inverse = 1 / run.divisor[rows][ratio > 0, 0]
        if len(np.unique(inverse.round(6))) < 2:
            continue
        slope, start = np.polyfit(inverse, 1 / ratio[ratio > 0], 1)
        if start > 0 and 0 <= slope / start <= LARGEST_EPSILON:
            factors[run.case.group_size] = float(1 / start)
            epsilons[run.case.group_size] = float(slope / start)
    return factors, epsilons


def _described(factors: Mapping[int, float], epsilon: float | None, vectors: Vectors) -> str:
    parts = []
    if factors:
        values = {size: f"{factor:.3g}" for size, factor in sorted(factors.items())}
        if len({*values.values()}) == 1:
            parts.append(f"{next(iter(values.values()))} times the paper's")
        else:
            by_size = ", ".join(f"{value} at N = {size}" for size, value in values.items())
            parts.append(f"times the paper's: {by_size}")
    if epsilon is not None and vectors.divisor is not None:
        parts.append(f"{epsilon:.2g} beside the {vectors.divisor.split()[0]}")
    return "; ".join(parts)


def _curve(
    runs: Sequence[_Run], vectors: Vectors
) -> tuple[int | None, dict[float, tuple[float, float]]]:
    """Expected weights of both at the largest group size whose numbers of right rollouts are all
    there: the mean of R_{j+1} - W_j over the number j of right ones among N - 1 others."""
    whole = []
    for run in runs:
        pairs = _right_wrong(run)
        if len(pairs) == run.case.group_size + 1:
            whole.append((run, pairs))
    if not whole:
        return None, {}
    run, pairs = max(whole, key=lambda case_pairs: case_pairs[0].case.group_size)
    n = run.case.group_size
    gains = [pairs[j + 1][0] - pairs[j][1] for j in range(n)]
    curve = {}
    for rate, weight in zip(vectors.success_rates, run.case.weights.tolist(), strict=True):
        chances = [comb(n - 1, j) * rate**j * (1 - rate) ** (n - 1 - j) for j in range(n)]
        measured = sum(chance * gain for chance, gain in zip(chances, gains, strict=True))
        curve[rate] = (weight, float(measured))
    return n, curve


def _right_wrong(run: _Run) -> dict[int, tuple[float, float]]:
    """By number of right rollouts, the mean advantage of a right and of a wrong one."""
    is_binary = ((run.rewards == 0) | (run.rewards == 1)).all(1)
    counts = run.rewards.sum(1)
    pairs = {}
    for count in np.unique(counts[is_binary]).tolist():
        rows = is_binary & (counts == count)
        right = run.rewards[rows] == 1
        given = run.given[rows]
        pairs[int(count)] = (
            float(given[right].mean()) if right.any() else 0.0,
            float(given[~right].mean()) if not right.all() else 0.0,
        )
    return pairs


def check_groups(
    name: str, parts: Sequence[Sequence[int]], *, n_groups: int, group_size: int
) -> Verdict:
    """Do groups come back as they went in: whole, unmixed, at most once?

    parts: the groups as the estimator gets them, each the numbers of its rollouts; rollout i of
    group g went in as g * group_size + i. Groups that do not come back are counted.
    """
    back: list[int] = []
    for part in parts:
        members = sorted(int(row) for row in part)
        groups = sorted({row // group_size for row in members})
        if members != [*range(groups[0] * group_size, (groups[0] + 1) * group_size)]:
            held = ", ".join(
                f"{sum(row // group_size == group for row in members)} of group {group}"
                for group in groups
            )
            detail = f"a group of {len(members)} holds {held}, of {group_size} each"
            return Verdict(f"{name}{WHOLE_GROUPS}", "", "", DIFFERS, detail)
        back += groups
    if len(set(back)) < len(back):
        twice = next(group for group in back if back.count(group) > 1)
        detail = f"group {twice} came back {back.count(twice)} times"
        return Verdict(f"{name}{WHOLE_GROUPS}", "", "", DIFFERS, detail)
    detail = f"{len(back)} of {n_groups} groups came back, {n_groups - len(back)} were left out"
    if not back:
        return Verdict(f"{name}{WHOLE_GROUPS}", "", "", DIFFERS, detail)
    return Verdict(f"{name}{WHOLE_GROUPS}", "", "", EQUAL, detail, n_groups=len(back))


def example_rewards(n_groups: int = 12, group_size: int = 4) -> Floats:
    """Rewards of a batch for `check_groups`, [groups, N]: every fourth group all wrong, every
    fourth all right, the others mixed."""
    rows = [[1.0 if i < (0, 1, group_size, 3)[g % 4] else 0.0 for i in range(group_size)]
            for g in range(n_groups)]  # fmt: skip
    return np.array(rows)


def is_conform(verdicts: Sequence[Verdict]) -> bool:
    """Whether something was compared and all of it is equal."""
    compared = [verdict for verdict in verdicts if verdict.kind != NOT_COMPARABLE]
    return bool(compared) and all(verdict.is_equal for verdict in compared)
