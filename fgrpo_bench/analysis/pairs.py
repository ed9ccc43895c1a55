"""Which cells are compared with which, and which of these comparisons are the question.

Five kinds of pairs, from the cells that are planned: the focal weight against gamma = 0 at each N;
control algorithms against what they control; group sizes at gamma = 0; focal weighting at its N
against the base algorithm at the largest N; and every trained cell against the base models. A
declaration may name further pairs. Which of all these it asks about stands in `sweep.family`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

from fgrpo_bench.analysis.rows import Cell
from fgrpo_bench.results import averages_of, headline_of

UNCONTROLLED = {"low_lr_gamma": None, "entropy_coef": 0.0, "kl_coef": 0.0}
"""Fields of an algorithm without a control."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two cells worth comparing; the difference is new minus old."""

    kind: str
    """One of KINDS, or BY_NAME."""
    group: str
    """What the comparison belongs to, e.g. `GRPO N=8, focal weight against none`."""
    name: str
    """Which one of the group, e.g. `gamma=0.5`."""
    new: Cell
    old: Cell


def pairs_of(cells: Sequence[Cell], algorithms: Mapping[str, Mapping[str, Any]]) -> list[Pair]:
    """Every pair of planned cells. algorithms: declared ones by name (AlgorithmSpec as JSON)."""
    return [
        *focal(cells),
        *controls(cells, algorithms),
        *group_sizes(cells),
        *largest(cells),
        *base(cells),
    ]


def focal(cells: Sequence[Cell]) -> Iterator[Pair]:
    """gamma > 0 against gamma = 0, at each algorithm and N that have both."""
    plain = {(cell.algorithm, cell.group_size): cell for cell in cells if cell.focal_gamma == 0}
    for cell in cells:
        old = plain.get((cell.algorithm, cell.group_size))
        if cell.focal_gamma and old:
            yield Pair(
                kind="focal",
                group=f"{old.label}, focal weight against none",
                name=f"gamma={cell.focal_gamma:g}",
                new=cell,
                old=old,
            )


def base_method(
    cell: Cell, cells: Sequence[Cell], algorithms: Mapping[str, Mapping[str, Any]]
) -> Cell | None:
    """What a cell's method adds to: for a focal weight the same cell without, for a control (lower
    learning rate, entropy bonus, KL penalty) the algorithm that differs in nothing else. None for
    the others and where it was not run.

    algorithms: declared ones by name (fgrpo_bench.specs.AlgorithmSpec as JSON).
    """
    if cell.algorithm is None:
        return None
    names = {cell.algorithm}
    if not cell.focal_gamma:
        own = algorithms.get(cell.algorithm, {})
        plain = {**own, **UNCONTROLLED}
        if own == plain:
            return None
        names = {name for name, other in algorithms.items() if other == plain | {"name": name}}
    return next(
        (
            other
            for other in cells
            if other.algorithm in names
            and (other.group_size, other.focal_gamma) == (cell.group_size, 0)
        ),
        None,
    )


def controls(cells: Sequence[Cell], algorithms: Mapping[str, Mapping[str, Any]]) -> Iterator[Pair]:
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


def group_sizes(cells: Sequence[Cell]) -> Iterator[Pair]:
    """Group sizes at gamma = 0, for each algorithm with several: neighbours; the smallest and the
    largest N; and both of these against the N at which there are focal cells."""
    trained = [cell for cell in cells if not cell.is_base]
    for algorithm in dict.fromkeys(cell.algorithm for cell in trained):
        own = [cell for cell in trained if cell.algorithm == algorithm]
        plain = [cell for cell in own if cell.focal_gamma == 0]
        line = {c.group_size: c for c in sorted(plain, key=lambda c: c.group_size or 0)}
        if len(line) < 2:
            continue
        sizes = list(line)
        focal_sizes = {c.group_size for c in own if c.focal_gamma and c.group_size in line}
        wanted = {*pairwise(sizes), (sizes[0], sizes[-1])}
        wanted |= {(sizes[0], size) for size in focal_sizes if size != sizes[0]}
        wanted |= {(size, sizes[-1]) for size in focal_sizes if size != sizes[-1]}
        for low, high in product(sizes, sizes):
            if (low, high) in wanted:
                yield Pair(
                    kind="group_size",
                    group=f"{line[low].method} without focal weight, group size",
                    name=f"N={low} to {high}",
                    new=line[high],
                    old=line[low],
                )


def largest(cells: Sequence[Cell]) -> Iterator[Pair]:
    """Focal cells against the base algorithm at its largest N, where that is another N."""
    tops: dict[str | None, Cell] = {}
    for cell in cells:
        top = tops.get(cell.algorithm)
        if cell.focal_gamma == 0 and (
            top is None or (cell.group_size or 0) > (top.group_size or 0)
        ):
            tops[cell.algorithm] = cell
    for cell in cells:
        old = tops.get(cell.algorithm)
        if cell.focal_gamma and old and old.group_size != cell.group_size:
            yield Pair(
                kind="largest",
                group=f"{cell.method} against {old.label}",
                name=f"N={cell.group_size} gamma={cell.focal_gamma:g}",
                new=cell,
                old=old,
            )


def base(cells: Sequence[Cell]) -> Iterator[Pair]:
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


KINDS = {
    "focal": "focal weight against none",
    "controls": "controls against what they control",
    "group_size": "group sizes without focal weight",
    "largest": "focal weight against the largest group size",
    "base": "training against the base models",
}
"""Kinds of pairs in words; the first of which a sweep has pairs is its question by default."""
BY_NAME = "declared"
"""Kind of a pair that is declared by its cells and is of no other kind."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """The comparisons that are the question: p-values are corrected over these and no others."""

    name: str
    """In words, e.g. `focal weight against none; k = 1, 256; countdown`."""
    pairs: tuple[Pair, ...]
    ks: tuple[int, ...]
    columns: tuple[str, ...]
    """Benchmarks and averages."""

    @property
    def comparisons(self) -> list[tuple[str, int, Pair]]:
        """Column, k and pair of each."""
        return list(product(self.columns, self.ks, self.pairs))

    def has(self, pair: Pair, column: str, k: int) -> bool:
        """Whether a comparison is one of them."""
        return pair in self.pairs and k in self.ks and column in self.columns


def asked(declaration: Mapping[str, Any], cells: Sequence[Cell]) -> tuple[list[Pair], Family]:
    """Every pair of a sweep's planned cells, and the family that it declares.

    declaration: fgrpo_bench.specs.Declaration as JSON; one of before families were declared has the
    default. ValueError where the family names what the sweep does not have.
    """
    evaluation = declaration["experiment"]["evaluation"]
    family = declaration["sweep"].get("family") or {}
    pairs = pairs_of(cells, declaration.get("algorithms", {}))
    named = list(_by_name(family.get("cells") or (), cells, pairs))
    there = [kind for kind in KINDS if any(pair.kind == kind for pair in pairs)]
    kinds = family.get("pairs") or ([] if named else there[:1])
    _check("pairs", kinds, there, "has pairs of the kinds")
    ks, headline = evaluation["ks"], headline_of(evaluation)
    chosen_ks = family.get("ks") or sorted({ks[0], ks[-1]})
    _check("ks", chosen_ks, ks, "is evaluated at k =")
    columns = family.get("columns") or headline
    _check("columns", columns, [*averages_of(evaluation), *evaluation["benchmarks"]], "has")
    words = [KINDS[kind] for kind in kinds] + [
        f"{p.new.label} against {p.old.label}" for p in named
    ]
    return list(dict.fromkeys([*pairs, *named])), Family(
        name=f"{' and '.join(words)}; k = {', '.join(map(str, chosen_ks))}; {', '.join(columns)}",
        pairs=tuple(dict.fromkeys([*(p for p in pairs if p.kind in kinds), *named])),
        ks=tuple(chosen_ks),
        columns=tuple(columns),
    )


def _by_name(
    declared: Sequence[Mapping[str, str]], cells: Sequence[Cell], pairs: Sequence[Pair]
) -> Iterator[Pair]:
    """The pairs of `sweep.family.cells`; of two cells that are a pair anyway it is that one."""
    by_name = {cell.cell: cell for cell in cells}
    for each in declared:
        new, old = each["new"], each["old"]
        _check("cells", (new, old), list(by_name), "has the cells")
        if new == old:
            raise ValueError(f"sweep.family.cells compares {new} with itself: name two cells")
        known = (pair for pair in pairs if {pair.new.cell, pair.old.cell} == {new, old})
        yield next(known, None) or Pair(
            kind=BY_NAME,
            group="Pairs that the question names",
            name=f"{by_name[new].label} against {by_name[old].label}",
            new=by_name[new],
            old=by_name[old],
        )


def _check(field: str, named: Sequence[Any], valid: Sequence[Any], has: str) -> None:
    for value in named:
        if value not in valid:
            raise ValueError(
                f"sweep.family.{field} names {value!r}, and this sweep {has} "
                f"{', '.join(map(str, valid))}: name some of these, or take the default with "
                "sweep.family=null"
            )
