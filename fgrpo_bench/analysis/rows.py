"""The columns of every frame: a row class each, its attributes the columns; FRAMES has all.

In: rows, made by comparisons.py, by_value.py, checkpoints.py, coverage.py and other_scores.py. Out:
frames of them, and rows of frames (`Rows`). Next: frames.py, which computes those that are asked
for.

`cell` is the key of every frame that is about cells: `base`, or e.g. `grpo-n8-g0.5`. `column` is a
benchmark or the name of an average of several. Values of pass@k and their differences are
fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.specs import Cell
from fgrpo_bench.specs.cell import BASE, cell_key, from_columns, method_or_label, to_columns
from fgrpo_bench.stages.tables import UNFINISHED

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """One setting of the method, or one label of checkpoints from elsewhere, over all seeds: a row
    of every table. Base models first, then in the order of the plan, or as they were given."""

    cell: str
    """Its name, e.g. `grpo-n8-g0.5`; `base` for the base models; else the label."""
    method: str
    """GRPO, F-GRPO, ...; Base for the base models of a sweep; without a setting what it was called
    by."""
    algorithm: str | None
    """Null for the base models and without a setting, likewise group_size and focal_gamma."""
    group_size: int | None
    focal_gamma: float | None
    learning_rate_factor: float = 1.0
    """Times the experiment's learning rate; 1 for the base models too."""
    prompts_per_step: int | None = None
    """Prompts of a rollout batch; null where the experiment's budget says them."""
    step: int
    """Rollout batches behind the checkpoint that stands for every run; 0 for a base model."""
    n_planned: int
    """Training seeds that the plan has, or that were given."""

    @property
    def is_base(self) -> bool:
        """Whether these are the base models, before reinforcement learning."""
        return self.cell == BASE

    @cached_property
    def setting(self) -> Cell | None:
        """The cell without the checkpoint; None for the base models, and without a sweep."""
        return from_columns(vars(self))

    @property
    def label(self) -> str:
        """`Cell.label`; without a setting the method: `Base`, or the label."""
        return self.method if self.setting is None else self.setting.label

    @property
    def short(self) -> str:
        """`Cell.short`; without a setting the method likewise."""
        return self.method if self.setting is None else self.setting.short


def make_cell(
    cell: Cell | None,
    *,
    label: str | None = None,
    title: str | None = None,
    step: int,
    n_planned: int,
) -> CellRow:
    """The row of a cell. None: the base models, or whatever `label` says. label: None is the cell's
    own name. title: what tables call it; None is by the cell and the label."""
    label = cell_key(cell) if label is None else label
    return CellRow(
        cell=label,
        method=title or method_or_label(cell, label),
        **to_columns(cell),
        step=step,
        n_planned=n_planned,
    )


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """pass@k of a cell at a checkpoint. Every evaluated checkpoint has rows."""

    column: str
    cell: str
    step: int
    is_chosen: bool
    """Whether this checkpoint stands for the cell, by the rule."""
    k: int
    mean: float | None
    """Over problems and seeds; null where no problem has a value for every seed."""
    low: float | None
    """Of the 95% interval; null also with fewer than two problems."""
    high: float | None
    standard_error: float | None
    """Over problems and seeds; null like low."""
    degrees: float | None
    """Degrees of freedom of its Student's t."""
    seeds: tuple[int | None, ...]
    """Training seeds with results, rising; of an average those that all its benchmarks have. One
    null where it was not told."""
    by_seed: tuple[float, ...]
    """The mean over the same problems of each seed; empty where mean is null."""
    n_problems: int
    """Problems with a value for every seed; only these count."""
    n_samples: int | None
    """Draws per problem, the fewest over seeds and benchmarks; of a design that stops the most."""
    n_draws: float | None
    """Mean draws that were made of a problem, up to where it stopped."""
    designs: tuple[str, ...]
    """How many draws problems make, in words, each design of its seeds once; empty where all make
    a fixed number."""
    is_redesigned: bool
    """Whether the design was changed when draws of a seed were there already: pass@k is exact for
    a design that was chosen before its draws were looked at."""
    unscored: float
    """Share of the draws up to where problems stopped that the grader could not judge; the next
    ones are of the same draws."""
    cut_off: float | None
    """Share of the draws that ended at the longest response (finish_reason `length`). Null: not
    known, as of imported draws without one."""
    correct_cut_off: float | None
    """Share of the correct draws that were cut off; null likewise, and without a correct one."""
    correct_by_place: float | None
    """Share of the correct draws whose answer was found by nothing but its place in the text, by no
    box, tag or sentence (the grade's reason ends so); null without a correct one."""
    all_wrong: float | None
    """The mean were all unscored draws wrong; null where a problem has no such value."""
    all_right: float | None
    """The mean were all of them right."""
    lacks: tuple[str, ...]
    """What there is less of than was planned, e.g. `2 of 3 seeds`, over its benchmarks."""
    published: float | None
    """The paper's figure of the same model, cell, benchmark or average and k."""

    @property
    def n_seeds(self) -> int:
        """Seeds behind the value."""
        return len(self.seeds)

    @property
    def open_part(self) -> tuple[float | None, tuple[float, float] | None]:
        """As the function `open_part`."""
        return open_part(self.unscored, self.all_wrong, self.all_right)

    @property
    def unfinished(self) -> tuple[float | None, float | None, float | None]:
        """The shares of unfinished text."""
        return self.cut_off, self.correct_cut_off, self.correct_by_place

    @property
    def is_incomplete(self) -> bool:
        """Whether there is a value, and it is of less than was planned."""
        return self.mean is not None and bool(self.lacks)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A difference in pass@k between two cells, new minus old, paired over problems and seeds."""

    column: str
    k: int
    group: str | None
    """What the pair belongs to, e.g. `GRPO N=8, focal weight against none`; null for a pair that
    no question asks for."""
    name: str | None
    """Which one of the group, e.g. `gamma=0.5`; null likewise."""
    new: str
    """Cell."""
    new_step: int
    old: str
    """Cell."""
    old_step: int
    difference: float
    low: float | None
    """Of the 95% interval; null, like the rest up to p, with fewer than two problems."""
    high: float | None
    standard_error: float | None
    """Over problems and seeds."""
    degrees: float | None
    """Degrees of freedom of its Student's t."""
    p: float | None
    """Two-sided, of no difference, over problems and seeds; goes with the interval."""
    p_draws: float | None
    """Two-sided, of the draws alone, these models and problems given; null where 2k > n, of draws
    that stop where 2k is above the last stage: their variance cannot be estimated then."""
    seeds: tuple[int | None, ...]
    """Those that both cells have; the same seed is the same base model. One null where neither has
    one."""
    by_seed: tuple[float, ...]
    n_problems: int
    family: str | None
    """Name of the family that the p-values are corrected over; null outside it, like p_holm."""
    p_holm: float | None
    """p corrected over the family (Holm), its comparisons that are not there yet counted as 1."""
    p_bh: float | None
    """Likewise, for the share of false discoveries (Benjamini and Hochberg)."""
    verdict: str
    """`significant`: holds after Holm's correction in its family; `suggestive`: the interval
    excludes 0; `inconclusive`: neither."""
    repeats: float | None
    """Chance that as many other seeds on the same problems give the same verdict in the same
    direction (fgrpo_bench.stats.repetition); null outside the family, and with one seed."""
    repeats_low: float | None
    """Of its range: where it lies in 80% of the worlds that may have led to these differences."""
    repeats_high: float | None

    @property
    def agreeing(self) -> int:
        """Seeds whose own difference has the sign of the mean."""
        return sum(difference * self.difference > 0 for difference in self.by_seed)


@dataclass(frozen=True, kw_only=True)
class ValueEstimate(Estimate):
    """pass@k of a cell over the problems that have one value in a column, e.g. level: `--by`, of
    SynLogic its tasks. `column` is the benchmark; at the checkpoint that stands for the cell."""

    by: str
    """The column of the problems."""
    value: str
    n_of_value: int
    """Problems with this value, judged or not."""


@dataclass(frozen=True, kw_only=True)
class ValueComparison(Comparison):
    """A difference in pass@k over the problems that have one value in a column. The family of a
    row is all values of its benchmark, pair and k."""

    by: str
    """The column of the problems."""
    value: str
    n_of_value: int
    """Problems with this value, judged or not."""


@dataclass(frozen=True, kw_only=True)
class EqualPassAt1(Comparison):
    """A difference in pass@k at the highest pass@1 that two cells both reach on their paths: the
    columns of `comparisons`, with the last evaluated checkpoint of each as its step, and no
    p_draws. Pairs whose ranges do not meet have no row."""

    pass_at_1: float
    """At which they are compared, mean over seeds."""
    pass_at_k: float
    """Of the new cell there, mean over seeds."""
    mean_difference: float
    """Mean of the difference over the range of pass@1 that both reach."""
    mean_low: float | None
    """Of its 95% interval."""
    mean_high: float | None
    mean_p: float | None
    """Two-sided, of no mean difference; corrected in no family."""


@dataclass(frozen=True, kw_only=True)
class PathRange:
    """The range of pass@1 that the paths of two cells both reach, and why there is none. Every pair
    of trained cells that a question asks for has one where its runs have several evaluated
    checkpoints."""

    column: str
    group: str
    """As in `comparisons`."""
    name: str
    new: str
    """Cell."""
    old: str
    """Cell."""
    seeds: tuple[int | None, ...]
    """With results of the base model and of every evaluated checkpoint of both."""
    low: float | None
    """pass@1 where the range begins, mean over seeds: that of the base models where there are
    some. Null without seeds, like high."""
    high: float | None
    """The highest pass@1 that both reach."""
    reason: str | None
    """Why the pair is inconclusive at equal pass@1; null where it is compared."""


@dataclass(frozen=True, kw_only=True)
class PathGap:
    """The difference of two cells along the range of pass@1 that the paths of all their seeds
    reach, at 11 places."""

    column: str
    new: str
    """Cell."""
    old: str
    """Cell."""
    k: int
    pass_at_1: float
    new_pass_at_k: float
    """Of the new cell there, mean over seeds."""
    difference: float
    low: float | None
    """Of the 95% interval at this pass@1 alone."""
    high: float | None


@dataclass(frozen=True, kw_only=True)
class EffectRow:
    """What a doubling of N, of the prompts per step, or their product does to pass@k, over a full
    grid of both: of an algorithm, gamma and learning rate. Paired over problems and seeds."""

    column: str
    algorithm: str
    focal_gamma: float
    learning_rate_factor: float
    effect: str
    """`group_size`: of a doubling of N, mean over prompts; `prompts_per_step`: of a doubling of
    these, mean over N; `product`: how much more the one does at a doubling of the other."""
    k: int
    pass_at_1: float | None
    """At which all cells are compared, the highest that all reach on their paths, mean over seeds;
    null: each at the checkpoint that stands for it."""
    change: float
    """A fraction a doubling; of the product a doubling of both."""
    low: float | None
    """Of the 95% interval; null, like the rest up to p, with fewer than two problems."""
    high: float | None
    standard_error: float | None
    degrees: float | None
    """Degrees of freedom of its Student's t."""
    p: float | None
    """Two-sided, of no effect, over problems and seeds; corrected over nothing."""
    seeds: tuple[int | None, ...]
    """Those that all cells of the grid have."""
    by_seed: tuple[float, ...]
    n_problems: int
    cells: tuple[str, ...]
    """Of the grid."""


@dataclass(frozen=True, kw_only=True)
class Band:
    """A difference over all k at once: in 95% the truth is within the band at every k together.

    Simultaneous over k, not over pairs of cells or columns. Every pair that a question asks for has
    one, computed at every k up to 16, from there at 8 a doubling and at the k of the evaluation;
    it ends where fewer than half of the problems have k judged draws."""

    column: str
    new: str
    """Cell."""
    old: str
    """Cell."""
    k: int
    difference: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class FirstLoss:
    """Where along k a cell falls behind another, by the band."""

    column: str
    new: str
    """Cell."""
    old: str
    """Cell."""
    low: int | None
    """First k whose band reaches below 0; null where none does: no loss at any k. Between the k of
    the band its ends are straight in log k."""
    high: int | None
    """First k whose band lies wholly below 0; null where none does: no loss is possible."""
    words: str
    """e.g. `better for k up to 4, undecided from 8 to 32, worse from 64`."""


@dataclass(frozen=True, kw_only=True)
class ParetoFront:
    """Whether a trained cell is on the front of the plane of pass@k at the smallest and the largest
    k: no other is significantly better at one of them and, by the point estimate, not worse at the
    other."""

    column: str
    cell: str
    is_on_front: bool | None
    """Null for a cell that the family compares with no other at either k."""
    dominated_by: tuple[str, ...]
    """Cells that are so; empty on the front."""


@dataclass(frozen=True, kw_only=True)
class CoverageRow:
    """Problems that a trained cell and the base models of its seeds have within reach at k, as
    expected numbers, mean over seeds. One that a model never solved is out of its reach."""

    column: str
    cell: str
    k: int
    retained: float
    lost: float
    gained: float
    neither: float
    surely_lost: float
    """Problems lost with a posterior probability of at least 0.95."""
    surely_gained: float
    lost_share: float | None
    """Mean over seeds of lost / (lost + retained); null where the base models reach nothing."""
    n_seeds: int
    n_problems: int


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a run of a cell cost up to a checkpoint, and what it trained on, as means over its
    finished runs; null where there is none."""

    cell: str
    step: int
    is_chosen: bool
    n_runs: int
    """Finished training runs."""
    rollouts: float | None
    tokens: float | None
    """Sampled in training."""
    optimizer_steps: float | None
    active_fraction: float | None
    """Share of the groups of a step that have an advantage that is not 0, mean over the steps."""
    entropy: float | None
    """Of the policy as it samples, nats per token, mean over the last tenth of the steps."""
    train_gpu_seconds: float | None
    """Seconds of all steps times the GPUs that they held; 0 on processors."""
    train_cpu_seconds: float | None
    """Of whole runs, so null at earlier checkpoints; like that of the evaluation of a stage's last
    attempt."""
    evaluate_cpu_seconds: float | None
    """Of evaluations that made all their draws; null where each took some from another one."""


@dataclass(frozen=True, kw_only=True)
class CheckpointRow:
    """A checkpoint that a rule may choose, of a cell whose finished runs have all evaluated it."""

    cell: str
    step: int
    is_chosen: bool
    rollouts: float
    """Mean over seeds."""
    pass_at_1: float
    """Mean over seeds and the benchmarks in domain (over all where none is), of the problems that
    the rule looks at."""
    budget: float | None
    """Rollouts that the chosen one may cost; null where nothing limits it."""


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """Delta NLL: mean rise of the negative log-likelihood of rare correct answers, in nats per
    token."""

    cell: str
    seeds: tuple[int, ...]
    by_seed: tuple[float, ...]
    mean: float
    n_rare: tuple[int, ...]
    """Answers, by seed."""
    published: str | None
    """The paper's figure of the same algorithm, N and gamma, as printed."""


@dataclass(frozen=True, kw_only=True)
class Completeness:
    """A checkpoint that was planned, or given, and a benchmark."""

    point_id: str
    """Its name; of a sweep its point_id."""
    cell: str
    seed: int | None
    """Null where it was not told."""
    benchmark: str
    has_results: bool
    lacks: str | None
    """What is missing, in words; null with results."""
    engine: str | None
    """Fingerprint of the engine that made the draws, in words, of several one after the other; null
    where none was recorded."""
    grader: str | None
    """Version of the grader; null without results."""


@dataclass(frozen=True, kw_only=True)
class OtherGrader:
    """pass@k of a cell by a grader that stands beside the benchmark's own."""

    benchmark: str
    grader: str
    """Its name."""
    versions: tuple[str, ...]
    """Of the grader, one where all results are by the same."""
    cell: str
    k: int
    pass_at_k: float | None
    """Mean over the problems that have a value for every seed, and over seeds."""
    n_seeds: int
    unscored: float
    """Share of the draws that it could not judge."""
    all_wrong: float | None
    """pass@k were all those draws wrong; null where a problem has no such value."""
    all_right: float | None
    """Were they all right."""

    @property
    def open_part(self) -> tuple[float | None, tuple[float, float] | None]:
        """As the function `open_part`."""
        return open_part(self.unscored, self.all_wrong, self.all_right)


ALL, SEVERAL = "all", "several"
"""Values of `ReadingRow.problems`."""


@dataclass(frozen=True, kw_only=True)
class ReadingRow:
    """Another reading of the draws that pass@k is computed from, of a cell at the checkpoint that
    stands for it. Computed from the stored grades whenever somebody asks, and kept nowhere; a cell
    whose grades are not there has no row. Of draws that stop it is of their first stage."""

    benchmark: str
    cell: str
    reading: str
    """`pass^k`, `maj@k` (up to k = 8), `best@k` of graders that give more than right or wrong,
    `distinct@k`, `share@k`; `gini`, `cover@0.5`; or what became of the base models' draws of right
    solutions: `kept`, `moved`, `lost`, which `base` has of one half of its draws under the other.
    """
    k: int | None
    """Null where there is none."""
    problems: str
    """`all`, or `several`: those with more than one solution, where a task enumerates them."""
    mean: float | None
    """A fraction, of distinct@k a number of solutions, of best@k a reward; null for bounds."""
    low: float | None
    """Of the 95% interval; null with fewer than two problems."""
    high: float | None
    is_bounds: bool
    """Whether low and high bound the value over these problems and seeds, and are no interval."""
    seeds: tuple[int | None, ...]
    """Training seeds with grades, rising."""
    by_seed: tuple[float, ...]
    """The mean of each seed; empty for bounds."""
    n_problems: int
    """Problems with a value for every seed."""


@dataclass(frozen=True, kw_only=True)
class ProblemRow:
    """Counts of one problem and checkpoint, that which stands for its run."""

    benchmark: str
    problem_id: str
    cluster: str | None
    """What it shares with other problems of the benchmark; null: nothing."""
    cell: str
    seed: int | None
    """Null where it was not told."""
    n_drawn: int | None
    """Draws up to where the problem stopped, judged or not; null where its judgements ask for draws
    that are missing."""
    n_scored: int
    """Judged draws; 0 where none was."""
    n_correct: int
    success_rate: float | None
    """pass@1: of a fixed number of draws n_correct / n_scored, which would be too high where
    correct draws stop a problem. Null where there is no estimate."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What pass@k of some draws rests on; the columns of these names of Estimate."""

    unscored: float
    cut_off: float | None
    correct_cut_off: float | None
    correct_by_place: float | None

    @property
    def unfinished(self) -> tuple[float | None, float | None, float | None]:
        """Those of unfinished text."""
        return self.cut_off, self.correct_cut_off, self.correct_by_place


def shares(*, n_drawn: Ints, n_scored: Ints, n_correct: Ints, unfinished: Ints) -> Shares:
    """Of the draws up to where problems stopped. All by problem, of one shape [...]; n_drawn: 0
    where a problem has not stopped. unfinished: [3, ...], those of tables.UNFINISHED, below 0 where
    not known."""
    stopped = n_drawn > 0
    drawn, scored, correct = (int(n[stopped].sum()) for n in (n_drawn, n_scored, n_correct))
    cut_off, correct_cut_off, by_place = (
        None if (n < 0).any() else int(n.sum()) for n in unfinished[:, stopped]
    )
    return Shares(
        unscored=1 - scored / drawn if drawn else 0.0,
        cut_off=_share(cut_off, drawn),
        correct_cut_off=_share(correct_cut_off, correct),
        correct_by_place=_share(by_place, correct),
    )


def _share(n: int | None, total: int) -> float | None:
    return None if n is None or not total else n / total


def unfinished_of(table: pl.DataFrame) -> Ints:
    """[3, rows] of tables.PASSK, as `shares` takes them."""
    return np.stack([table[name].fill_null(-1).to_numpy() for name in UNFINISHED])


OPEN_AND_CUT_OFF = (
    "unscored",
    "all_wrong",
    "all_right",
    "cut_off",
    "correct_cut_off",
    "correct_by_place",
)
"""Columns of Estimate that stand beside its pass@k, unrounded, wherever a program reads it."""
UNSCORED, BOUNDED = 0.01, 0.05
"""Shares of draws that the grader could not judge above which no pass@k stands without that share,
and without its bounds."""


def open_part(
    unscored: float, all_wrong: float | None, all_right: float | None
) -> tuple[float | None, tuple[float, float] | None]:
    """What stands beside a pass@k: the share unscored above UNSCORED, and the two bounds above
    BOUNDED; None of what does not."""
    if unscored <= UNSCORED:
        return None, None
    if unscored <= BOUNDED or all_wrong is None or all_right is None:
        return unscored, None
    return unscored, (all_wrong, all_right)


FRAMES: dict[str, type] = {
    "cells": CellRow,
    "estimates": Estimate,
    "comparisons": Comparison,
    "equal_budget": Comparison,
    "equal_pass_at_1": EqualPassAt1,
    "path_ranges": PathRange,
    "path_gaps": PathGap,
    "effects": EffectRow,
    "bands": Band,
    "first_loss": FirstLoss,
    "front": ParetoFront,
    "coverage": CoverageRow,
    "cost": Cost,
    "checkpoints": CheckpointRow,
    "likelihood": Likelihood,
    "completeness": Completeness,
    "other_graders": OtherGrader,
    "by_value": ValueEstimate,
    "by_value_comparisons": ValueComparison,
    "problems": ProblemRow,
    "readings": ReadingRow,
}
"""Row class of every frame, by name."""
ON_DEMAND = frozenset({"readings"})
"""Frames that are stored nowhere: they cost as much as all others together, and rest on grades,
which a copy of a run may lack."""
_TYPES = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
RowClass = TypeVar("RowClass")


@cache
def schema(row: type) -> pl.Schema:
    """Columns of the frame of a row class."""
    return pl.Schema({name: _type(hint) for name, hint in get_type_hints(row).items()})


def _type(hint: Any) -> Any:
    if get_origin(hint) is tuple:
        return pl.List(_type(get_args(hint)[0]))
    return _TYPES[get_args(hint)[0] if get_args(hint) else hint]  # of `float | None` the float


def to_frame(row: type, rows: Iterable[Any]) -> pl.DataFrame:
    """Rows of one class as a frame."""
    values = attrgetter(*(field.name for field in fields(row)))  # astuple would copy each deeply
    return pl.DataFrame([values(instance) for instance in rows], schema=schema(row), orient="row")


def from_frame(row: type[RowClass], frame: pl.DataFrame) -> list[RowClass]:
    """The rows of a frame of this class."""
    names = [field.name for field in fields(row)]  # type: ignore[arg-type]
    rows = []
    for values in frame.select(names).iter_rows():
        # Polars gives lists; rows are frozen, so that they hold tuples.
        frozen = [tuple(value) if isinstance(value, list) else value for value in values]
        rows.append(row(**dict(zip(names, frozen, strict=True))))
    return rows


class Rows(Generic[RowClass]):
    """Rows of one class, and the frame of them. Analysis and views have the rows; CSV, `load` and
    MLflow get the frame. Each is made when it is first asked for."""

    def __init__(
        self,
        row: type[RowClass],
        *,
        rows: Callable[[], Iterable[RowClass]] | None = None,
        frame: Callable[[], pl.DataFrame] | None = None,
    ) -> None:
        """One of the two is given, and gives the other."""
        assert (rows is None) != (frame is None)
        self._row, self._make_rows, self._make_frame = row, rows, frame

    @cached_property
    def rows(self) -> tuple[RowClass, ...]:
        if self._make_rows is not None:
            return tuple(self._make_rows())
        return tuple(from_frame(self._row, self.frame))

    @cached_property
    def frame(self) -> pl.DataFrame:
        return to_frame(self._row, self.rows) if self._make_frame is None else self._make_frame()
