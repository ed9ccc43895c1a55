"""Which cells are compared with which.

Five kinds of pairs, from the cells that are planned: the focal weight against gamma = 0 at each N;
control algorithms against what they control; group sizes at gamma = 0; focal weighting at its N
against the base algorithm at the largest N; and every trained cell against the base models. A
declaration may ask for a sixth, every method against GRPO, and name further pairs. Which of all
these it asks about stands in `sweep.family`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from fgrpo_bench.analysis.rows import CellRow

UNCONTROLLED = {"low_lr_gamma": None, "entropy_coef": 0.0, "kl_coef": 0.0}
"""Fields of an algorithm without a control."""
REFERENCE = "grpo"
"""The algorithm that methods are compared with."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two cells worth comparing; the difference is new minus old."""

    kind: str
    """One of KINDS, or BY_NAME."""
    group: str
    """What the comparison belongs to, e.g. `GRPO N=8, focal weight against none`."""
    name: str
    """Which one of the group, e.g. `gamma=0.5`."""
    new: CellRow
    old: CellRow


def pairs_of(cells: Sequence[CellRow], algorithms: Mapping[str, Mapping[str, Any]]) -> list[Pair]:
    """Every pair of planned cells. algorithms: declared ones by name (AlgorithmSpec as JSON)."""
    return [
        *focal(cells),
        *controls(cells, algorithms),
        *group_sizes(cells),
        *largest(cells),
        *base(cells),
    ]


def of_line(cell: CellRow) -> tuple[str, float] | None:
    """`Cell.line`; None for the base models."""
    return None if cell.setting is None else cell.setting.line


def focal(cells: Sequence[CellRow]) -> Iterator[Pair]:
    """gamma > 0 against gamma = 0, at each algorithm and N that have both."""
    plain = {cell.setting: cell for cell in cells if cell.focal_gamma == 0}
    for cell in cells:
        old = plain.get(cell.setting and cell.setting.unweighted)
        if cell.focal_gamma and old:
            yield Pair(
                kind="focal",
                group=f"{old.label}, focal weight against none",
                name=f"gamma={cell.focal_gamma:g}",
                new=cell,
                old=old,
            )


def base_method(
    cell: CellRow, cells: Sequence[CellRow], algorithms: Mapping[str, Mapping[str, Any]]
) -> CellRow | None:
    """What a cell's method adds to: for a focal weight the same cell without, for a control (lower
    learning rate, entropy bonus, KL penalty) the algorithm that differs in nothing else. None for
    the others and where it was not run.

    algorithms: declared ones by name (fgrpo_bench.specs.AlgorithmSpec as JSON).
    """
    setting = cell.setting
    if setting is None:
        return None
    names = {setting.algorithm}
    if not setting.focal_gamma:
        own = algorithms.get(setting.algorithm, {})
        plain = {**own, **UNCONTROLLED}
        if own == plain:
            return None
        names = {name for name, other in algorithms.items() if other == plain | {"name": name}}
    wanted = {replace(setting.unweighted, algorithm=name) for name in names}
    return next((other for other in cells if other.setting in wanted), None)


def controls(
    cells: Sequence[CellRow], algorithms: Mapping[str, Mapping[str, Any]]
) -> Iterator[Pair]:
    """Each control against the algorithm that it controls, at the same N."""
    for cell in cells:
        old = None if cell.focal_gamma else base_method(cell, cells, algorithms)
        if old is not None:
            yield Pair(
                kind="controls",
                group=f"{old.label}, controls against none",
                name=cell.method,
                new=cell,
                old=old,
            )


def group_sizes(cells: Sequence[CellRow]) -> Iterator[Pair]:
    """Group sizes at gamma = 0, for each algorithm with several: neighbours; the smallest and the
    largest N; and both of these against the N at which there are focal cells."""
    lines: dict[tuple[str, float] | None, list[CellRow]] = {}
    for cell in cells:
        if not cell.is_base:
            lines.setdefault(of_line(cell), []).append(cell)
    for own in lines.values():
        plain = [cell for cell in own if cell.focal_gamma == 0]
        line = {c.group_size: c for c in sorted(plain, key=lambda c: c.group_size or 0)}
        if len(line) < 2:
            continue
        sizes = list(line)
        focal_sizes = {c.group_size for c in own if c.focal_gamma and c.group_size in line}
        wanted = {*pairwise(sizes), (sizes[0], sizes[-1])}
        wanted |= {(sizes[0], size) for size in focal_sizes if size != sizes[0]}
        wanted |= {(size, sizes[-1]) for size in focal_sizes if size != sizes[-1]}
        place = {size: i for i, size in enumerate(sizes)}
        for low, high in sorted(wanted, key=lambda pair: (place[pair[0]], place[pair[1]])):
            yield Pair(
                kind="group_size",
                group=f"{line[low].method} without focal weight, group size",
                name=f"N={low} to {high}",
                new=line[high],
                old=line[low],
            )


def largest(cells: Sequence[CellRow]) -> Iterator[Pair]:
    """Focal cells against the base algorithm at its largest N, where that is another N."""
    tops: dict[tuple[str, float] | None, CellRow] = {}
    for cell in cells:
        top = tops.get(of_line(cell))
        if cell.focal_gamma == 0 and (
            top is None or (cell.group_size or 0) > (top.group_size or 0)
        ):
            tops[of_line(cell)] = cell
    for cell in cells:
        old = tops.get(of_line(cell))
        if cell.focal_gamma and old and old.group_size != cell.group_size:
            yield Pair(
                kind="largest",
                group=f"{cell.method} against {old.label}",
                name=cell.short,
                new=cell,
                old=old,
            )


def methods(cells: Sequence[CellRow]) -> Iterator[Pair]:
    """Every trained cell against GRPO without focal weight at the same N and learning rate; where
    GRPO was run at one learning rate alone, at that one."""
    others: list[CellRow] = []
    plain: dict[int | None, dict[float, CellRow]] = {}  # by N, then by learning rate
    for cell in cells:
        if (cell.algorithm, cell.focal_gamma) == (REFERENCE, 0):
            plain.setdefault(cell.group_size, {})[cell.learning_rate_factor] = cell
        elif not cell.is_base:
            others.append(cell)
    for new in others:
        rates = plain.get(new.group_size, {})
        old = next(iter(rates.values())) if len(rates) == 1 else rates.get(new.learning_rate_factor)
        if old is not None:
            gamma = f" gamma={new.focal_gamma:g}" if new.focal_gamma else ""
            yield Pair(
                kind="methods",
                group=f"Methods against {old.label}",
                name=f"{new.method}{gamma}",
                new=new,
                old=old,
            )


def base(cells: Sequence[CellRow]) -> Iterator[Pair]:
    """Every trained cell against the base models of its seeds."""
    for old in [cell for cell in cells if cell.is_base]:
        for new in [cell for cell in cells if not cell.is_base]:
            yield Pair(
                kind="base",
                group="Training against the base model",
                name=new.label,
                new=new,
                old=old,
            )
