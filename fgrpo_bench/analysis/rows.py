"""Row classes and frames: the attributes of a row class are the columns of its frame.

Here are the rows that most views read: cells, estimates and comparisons. That of another frame
stands beside what computes it; fgrpo_bench.analysis.analyse.FRAMES has all.

`cell` is the key of every frame that is about cells: `base`, or e.g. `grpo-n8-g0.5`. `column` is a
benchmark or the name of an average of several. Values of pass@k and their differences are
fractions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import polars as pl

from fgrpo_bench.specs import Cell
from fgrpo_bench.specs.cell import from_columns, to_columns


@dataclass(frozen=True, kw_only=True)
class CellRow:
    """One setting of the method over all seeds: a row of every table. Base models first, then in
    the order of the plan."""

    cell: str
    """Its name, e.g. `grpo-n8-g0.5`; `base` for the base models."""
    method: str
    """GRPO, F-GRPO, ...; Base for the base models."""
    algorithm: str | None
    """Null for the base models, likewise group_size and focal_gamma."""
    group_size: int | None
    focal_gamma: float | None
    learning_rate_factor: float = 1.0
    """Times the experiment's learning rate; 1 for the base models too."""
    step: int
    """Rollout batches behind the checkpoint that stands for every run; 0 for a base model."""
    n_planned: int
    """Training seeds that the plan has."""

    @property
    def is_base(self) -> bool:
        """Whether these are the base models, before reinforcement learning."""
        return self.algorithm is None

    @cached_property
    def setting(self) -> Cell | None:
        """The cell without the checkpoint; None for the base models."""
        return from_columns(vars(self))

    @property
    def label(self) -> str:
        """`Cell.label`; `Base` for the base models."""
        return self.method if self.setting is None else self.setting.label

    @property
    def short(self) -> str:
        """`Cell.short`; `Base` for the base models."""
        return self.method if self.setting is None else self.setting.short


def key_of_cell(cell: Cell | None) -> str:
    """The key of a cell, also in addresses of the dashboard. None: the base models."""
    return "base" if cell is None else cell.name


def make_cell(cell: Cell | None, *, step: int, n_planned: int) -> CellRow:
    """The row of a cell. None: the base models."""
    return CellRow(
        cell=key_of_cell(cell),
        method="Base" if cell is None else cell.method,
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
    """Of the 95% interval, like high; null also with fewer than two problems."""
    high: float | None
    standard_error: float | None
    """Over problems and seeds; null like low."""
    degrees: float | None
    """Degrees of freedom of its Student's t."""
    seeds: tuple[int, ...]
    """Training seeds with results, rising; of an average those that all its benchmarks have."""
    by_seed: tuple[float, ...]
    """The mean over the same problems of each seed; empty where mean is null."""
    n_problems: int
    """Problems with a value for every seed; only these count."""
    n_samples: int | None
    """Draws a problem, the fewest over seeds and benchmarks; of a design that stops the most."""
    n_draws: float | None
    """Mean draws that were made of a problem, up to where it stopped."""
    designs: tuple[str, ...]
    """How many draws problems make, in words, each design of its seeds once; empty where all make
    a fixed number."""
    is_redesigned: bool
    """Whether the design was changed when draws of a seed were there already: pass@k is exact for
    a design that was chosen before its draws were looked at."""
    unscored: float
    """Share of the draws that the grader could not judge."""
    all_wrong: float | None
    """The mean were all those draws wrong; null where a problem has no such value."""
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
    seeds: tuple[int, ...]
    """Those that both cells have; the same seed is the same base model."""
    by_seed: tuple[float, ...]
    n_problems: int
    family: str | None
    """Name of the family that the p-values are corrected over; null outside it, like p_holm."""
    p_holm: float | None
    """p corrected over the family (Holm), its comparisons that are not there yet counted as 1."""
    p_bh: float | None
    """Likewise, for the share of false discoveries (Benjamini and Hochberg)."""
    verdict: str
    """`robust`: holds after Holm's correction in its family; `suggestive`: the interval is without
    0; `open`: neither."""

    @property
    def agreeing(self) -> int:
        """Seeds whose own difference has the sign of the mean."""
        return sum(one * self.difference > 0 for one in self.by_seed)


_TYPES = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
Row = TypeVar("Row")


@cache
def schema(row: type) -> pl.Schema:
    """Columns of the frame of a row class."""
    return pl.Schema({name: _type(hint) for name, hint in get_type_hints(row).items()})


def _type(hint: Any) -> Any:
    first = get_args(hint)[0] if get_args(hint) else hint  # of `float | None` the float
    return pl.List(_TYPES[first]) if get_origin(hint) is tuple else _TYPES[first]


def to_frame(row: type, rows: Iterable[Any]) -> pl.DataFrame:
    """Rows of one class as a frame."""
    values = attrgetter(*(field.name for field in fields(row)))  # astuple would copy each deeply
    return pl.DataFrame([values(each) for each in rows], schema=schema(row), orient="row")


def from_frame(row: type[Row], frame: pl.DataFrame) -> list[Row]:
    """The rows of a frame of this class."""
    names = [field.name for field in fields(row)]  # type: ignore[arg-type]
    return [
        row(
            **{
                n: tuple(v) if isinstance(v, list) else v
                for n, v in zip(names, values, strict=True)
            }
        )
        for values in frame.select(names).iter_rows()
    ]
