"""What is stored of the groups of a training run's rollouts, and how success rates are binned.

In: nothing; `fgrpo-bench groups` counts and writes it (evaluators/groups.py). Out: records, which
fgrpo_bench.report.tables.rollouts and the dashboard show.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fgrpo_bench.command.runs import default_root
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.files.paths import stored_groups
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_json, read_record, write_json
from fgrpo_bench.specs import check_name

STORE_ANEW = "remove it, and run `fgrpo-bench groups DUMP --name ...` again"
"""What helps where a stored file is damaged."""

BINS = ("all wrong", "<=20%", "<=40%", "<60%", "<80%", "<100%", "all right")
"""Success rates of a group, each from the end of the one before; right and wrong are treated alike,
as 20% and 80% are both in the bin next to a uniform group's."""


def success_rate_bin(
    n_correct: NDArray[np.int64], group_size: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The place in BINS of groups; [groups] in and out. In whole numbers, so that no rounding moves
    a group."""
    fifths = 5 * n_correct
    return np.select(
        [
            n_correct == 0,
            n_correct == group_size,
            fifths <= group_size,
            fifths <= 2 * group_size,
            fifths < 3 * group_size,
            fifths < 4 * group_size,
        ],
        [0, 6, 1, 2, 3, 4],
        5,
    )


@dataclass(frozen=True, kw_only=True)
class GroupCounts(Record):
    """Groups of a step, or of the whole dump."""

    step: int | None
    """None: of all steps, or the dump tells none."""
    n_groups: int
    n_rollouts: int
    n_correct: int
    """Rollouts."""
    wrong_repeated: int
    """Groups that are all wrong with one response throughout, letter by letter."""
    wrong_different: int
    """All wrong with different responses."""
    right_repeated: int
    right_different: int
    without_gradient: int
    """Groups whose rewards are all equal: under GRPO nothing is learned from them."""

    @property
    def all_wrong(self) -> int:
        """Groups without a right rollout."""
        return self.wrong_repeated + self.wrong_different

    @property
    def all_right(self) -> int:
        """Groups without a wrong one."""
        return self.right_repeated + self.right_different


@dataclass(frozen=True, kw_only=True)
class GradientOfMethod(Record):
    """Where a method would have put its gradient."""

    method: str
    """As it is written for the command, e.g. `grpo@0.5`."""
    label: str
    reads: str
    """`rewards` as the dump has them, or `right and wrong`."""
    n_groups: int
    """That it trains on: all but those a filter drops, and of a size that it is defined for."""
    n_rollouts: int
    """Of these."""
    with_gradient: int
    """Groups with an advantage that is not 0."""
    by_bin: tuple[float, ...]
    """Sum of |A| over the rollouts of the groups of each of BINS."""

    @property
    def total(self) -> float:
        """Sum of |A| over all."""
        return sum(self.by_bin)

    @property
    def shares(self) -> tuple[float, ...] | None:
        """Of the total, by bin; None where that is 0."""
        return tuple(part / self.total for part in self.by_bin) if self.total else None


@dataclass(frozen=True, kw_only=True)
class GroupsOfCount(Record):
    """Groups of one size with one number of right rollouts."""

    group_size: int
    n_correct: int
    n_groups: int
    sums: dict[str, float]
    """Sum of |A| over them by method; a method that does not train on them is left out."""


@dataclass(frozen=True, kw_only=True)
class NearestMethod(Record):
    """The methods whose advantages are nearest to those that stand in the dump."""

    labels: tuple[str, ...]
    """Several where they are equally near."""
    largest_difference: float
    largest_advantage: float
    """The largest |A| of the dump, to judge the difference by."""


@dataclass(frozen=True, kw_only=True)
class RolloutSummary(Record):
    """The groups of a dump."""

    source: str
    """What was read, e.g. the name of its file or folder."""
    remarks: tuple[str, ...]
    """How groups were told, what was left out, what counts as right."""
    group_sizes: dict[str, int]
    """Number of groups by size."""
    bins: tuple[str, ...]
    in_bins: tuple[int, ...]
    """Number of groups by bin."""
    total: GroupCounts
    steps: tuple[GroupCounts, ...]
    """By step; empty where the dump tells none."""
    methods: tuple[GradientOfMethod, ...]
    by_count: tuple[GroupsOfCount, ...]
    nearest: NearestMethod | None = None
    """None where the dump has no advantages."""

    def gradients(self) -> pl.DataFrame:
        """A row a method and bin: the sum of |A| and its share of the method's total."""
        rows = []
        for method in self.methods:
            for name, part in zip(self.bins, method.by_bin, strict=True):
                share = part / method.total if method.total else None
                row = {"method": method.label, "success_rate": name, "sum": part, "share": share}
                rows.append(row)
        return pl.DataFrame(
            rows,
            schema={"method": pl.String, "success_rate": pl.String}
            | {"sum": pl.Float64, "share": pl.Float64},
        )

    def by_step(self) -> pl.DataFrame:
        """A row a step: shares of its groups."""
        return pl.DataFrame(
            [
                {
                    "step": step.step,
                    "all_wrong": step.all_wrong / step.n_groups,
                    "all_right": step.all_right / step.n_groups,
                    "all_rewards_equal": step.without_gradient / step.n_groups,
                }
                for step in self.steps
            ],
            schema={"step": pl.Int64, "all_wrong": pl.Float64}
            | {"all_right": pl.Float64, "all_rewards_equal": pl.Float64},
        )


def group_names(root: Path) -> list[str]:
    """Of the summaries that were stored under a root, sorted."""
    return sorted(path.stem for path in stored_groups(root).glob("*.json"))


def load_groups(name: str, *, root: Path | None = None) -> RolloutSummary:
    """A stored summary; FileNotFoundError where the root lists none of that name, ValueError for a
    damaged one. root: None is the usual folder of all runs."""
    root = root or default_root()
    names = group_names(root)
    if name not in names:
        raise FileNotFoundError(
            f"no groups {name!r}{suggestion(name, names)} under {root}: store them with "
            f"`fgrpo-bench groups DUMP --name {name}`; there are {', '.join(names) or 'none'}"
        )
    path = stored_groups(root) / f"{name}.json"
    of = read_record(path, RolloutSummary, STORE_ANEW)
    sizes = {len(of.bins), len(of.in_bins), *(len(method.by_bin) for method in of.methods)}
    counts = [of.total, *of.steps]
    if len(sizes) > 1 or any(part.n_groups < 1 or part.n_rollouts < 1 for part in counts):
        raise ValueError(f"{path} has no groups, or other bins than numbers: {STORE_ANEW}")
    return of


def store_groups(summary: RolloutSummary, name: str, *, root: Path | None = None) -> Path:
    """Store a summary under a name, for the dashboard; ValueError where another one has it."""
    check_name("--name", name)
    path = stored_groups(root or default_root()) / f"{name}.json"
    if path.exists() and read_json(path, STORE_ANEW) != summary.as_json():
        raise ValueError(f"--name {name}: {path} has the groups of another dump; take another name")
    write_json(path, summary.as_json())
    return path
