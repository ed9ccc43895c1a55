"""The comparisons that are a question: p-values are corrected over these and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from fgrpo_bench.analysis.pairs import Pair, methods, pairs_of
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.results import Results, averages_of, headline_of
from fgrpo_bench.stages.digests import content_sha256

METHODS = "methods"
"""Kind of the pairs that are made only where a question asks for them."""
KINDS = {
    "focal": "focal weight against none",
    "controls": "controls against what they control",
    "group_size": "group sizes without focal weight",
    "largest": "focal weight against the largest group size",
    "base": "training against the base models",
    METHODS: "methods against GRPO",
}
"""Kinds of pairs in words; the first of which a sweep has pairs is its question by default."""
NONE_DECLARED = "none declared"
"""Name of the family where no comparison is declared, by a sweep or without one."""
NOTHING_CORRECTED = "No comparison was declared: intervals are one at a time, nothing is corrected."
"""What every view says then."""
BY_NAME = "declared"
"""Kind of a pair that is declared by its cells and is of no other kind."""
EVERY = "every"
"""Kind of the pairs of checkpoints that no sweep declares anything about."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """The comparisons that are the question: p-values are corrected over these and no others."""

    name: str
    """In words, e.g. `focal weight against none; k = 1, 256; countdown`, or NONE_DECLARED."""
    pairs: tuple[Pair, ...]
    """None where no comparison was declared."""
    ks: tuple[int, ...]
    columns: tuple[str, ...]
    """Benchmarks and averages."""

    @property
    def comparisons(self) -> list[tuple[str, int, Pair]]:
        """Column, k and pair of each."""
        return list(product(self.columns, self.ks, self.pairs))

    @property
    def sha256(self) -> str:
        """Digest of which comparisons these are, by the names of their cells, in whatever order."""
        named = [[column, k, p.new.cell, p.old.cell] for column, k, p in self.comparisons]
        return content_sha256({"comparisons": sorted(named, key=str)})

    def has(self, pair: Pair, column: str, k: int) -> bool:
        """Whether a comparison is one of them."""
        return pair in self.pairs and k in self.ks and column in self.columns


def question_of(results: Results, cells: Sequence[CellRow]) -> tuple[list[Pair], Family]:
    """Every pair worth comparing and the family: those of a sweep as `asked`; without one every two
    labels, the later minus the earlier, and no family."""
    if results.sweep is not None:
        return asked(results.sweep.record.declaration, cells)
    pairs = [
        Pair(
            kind=EVERY,
            group="Every two labels",
            name=f"{new.label} against {old.label}",
            new=new,
            old=old,
        )
        for old, new in combinations(cells, 2)
    ]
    ks = results.evaluation["ks"]
    ends = tuple(sorted({ks[0], ks[-1]}))
    return pairs, Family(name=NONE_DECLARED, pairs=(), ks=ends, columns=results.headline)


def asked(declaration: Mapping[str, Any], cells: Sequence[CellRow]) -> tuple[list[Pair], Family]:
    """Every pair of a sweep's planned cells, and the family that it declares.

    declaration: fgrpo_bench.specs.Declaration as JSON; one without a family has the default; of
    one that declares none every kind of pairs is made, the methods' too where there are several
    algorithms. ValueError where the family names what the sweep does not have.
    """
    evaluation = declaration["experiment"]["evaluation"]
    family = declaration["sweep"].get("family") or {}
    pairs = pairs_of(cells, declaration.get("algorithms", {}))
    against = list(methods(cells))
    is_none = family.get("pairs") in ([], ()) and not family.get("cells")
    is_of_methods = len({cell.algorithm for cell in cells if not cell.is_base}) > 1
    if METHODS in (family.get("pairs") or ()) or (
        is_none and is_of_methods
    ):  # they stand for other kinds of pairs of these cells
        both = {(pair.new, pair.old) for pair in against}
        pairs = [*against, *(pair for pair in pairs if (pair.new, pair.old) not in both)]
    named = list(_by_name(family.get("cells") or (), cells, pairs))
    present = [kind for kind in KINDS if any(pair.kind == kind for pair in pairs)]
    kinds = family.get("pairs") or ([] if named or is_none else present[:1])
    _check("pairs", kinds, [*present, *([METHODS] if against else [])], "has pairs of the kinds")
    ks, headline = evaluation["ks"], headline_of(evaluation)
    chosen_ks = family.get("ks") or sorted({ks[0], ks[-1]})
    _check("ks", chosen_ks, ks, "is evaluated at k =")
    columns = family.get("columns") or headline
    _check("columns", columns, [*averages_of(evaluation), *evaluation["benchmarks"]], "has")
    words = [KINDS[kind] for kind in kinds] + [
        f"{p.new.label} against {p.old.label}" for p in named
    ]
    ends = f"k = {', '.join(map(str, chosen_ks))}; {', '.join(columns)}"
    return list(dict.fromkeys([*pairs, *named])), Family(
        name=NONE_DECLARED if is_none else f"{' and '.join(words)}; {ends}",
        pairs=tuple(dict.fromkeys([*(p for p in pairs if p.kind in kinds), *named])),
        ks=tuple(chosen_ks),
        columns=tuple(columns),
    )


def _by_name(
    declared: Sequence[Mapping[str, str]], cells: Sequence[CellRow], pairs: Sequence[Pair]
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
