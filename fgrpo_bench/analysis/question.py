"""Which cells are compared with which, and which of these comparisons are the sweep's question.

In: the planned cells and what the sweep declares. Out: pairs of cells worth comparing, and the
family: the comparisons that p-values are corrected over, and no others. Next: comparisons.py, which
compares them.

Five kinds of pairs come from the cells that are planned: the focal weight against gamma = 0 at each
N; control algorithms against what they control; group sizes at gamma = 0; focal weighting at its N
against the base algorithm at the largest N; and every trained cell against the base models. A
declaration may ask for a sixth, every method against GRPO, and name further pairs. Which of all
these it asks about stands in `sweep.family`.

A seventh is asked of every sweep, as a family of its own: a focal cell against the base algorithm
at another N, at the same rollouts. Where every cell gets equal prompts per step, a larger N costs
more, and comparing the ends of runs compares budgets too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, product
from typing import Any

from fgrpo_bench.analysis.checkpoints import At
from fgrpo_bench.analysis.results import Results, averages_of, headline_of
from fgrpo_bench.analysis.rows import CellRow, CheckpointRow
from fgrpo_bench.specs.cell import Line
from fgrpo_bench.stages.digests import content_sha256
from fgrpo_bench.stats.selection import saved_steps

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
EQUAL_PASS_AT_1 = "equal_pass_at_1"
"""Value of `sweep.family.at`: pairs are compared at the highest pass@1 that both cells reach."""


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
    at_equal_pass_at_1: bool = False
    """Whether pairs are compared at the highest pass@1 that both reach, in place of the checkpoints
    that stand for their runs."""

    @property
    def comparisons(self) -> list[tuple[str, int, Pair]]:
        """Column, k and pair of each."""
        return list(product(self.columns, self.ks, self.pairs))

    @property
    def names(self) -> list[tuple[str, int, str, str]]:
        """Column, k, new and old cell of each."""
        return [(column, k, p.new.cell, p.old.cell) for column, k, p in self.comparisons]

    @property
    def sha256(self) -> str:
        """Digest of which comparisons these are, by the names of their cells, in whatever order."""
        named = map(list, self.names)
        at = {"at": EQUAL_PASS_AT_1} if self.at_equal_pass_at_1 else {}
        return content_sha256({"comparisons": sorted(named, key=str), **at})

    def has(self, pair: Pair, column: str, k: int) -> bool:
        """Whether a comparison is one of them."""
        return pair in self.pairs and k in self.ks and column in self.columns


def pairs_and_family(results: Results, cells: Sequence[CellRow]) -> tuple[list[Pair], Family]:
    """Every pair worth comparing and the family: those of a sweep as `declared_pairs`; without one
    every two labels, the later minus the earlier, and no family."""
    if results.sweep is not None:
        return declared_pairs(results.sweep.record.declaration, cells)
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


def declared_pairs(
    declaration: Mapping[str, Any], cells: Sequence[CellRow]
) -> tuple[list[Pair], Family]:
    """Every pair of a sweep's planned cells, and the family that it declares.

    declaration: fgrpo_bench.specs.Declaration as JSON; one without a family has the default; of
    one that declares none every kind of pairs is made, the methods' too where there are several
    algorithms. ValueError where the family names what the sweep does not have.
    """
    evaluation = declaration["experiment"]["evaluation"]
    family = declaration["sweep"].get("family") or {}
    pairs = all_pairs(cells, declaration.get("algorithms", {}))
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
    is_equal = family.get("at") == EQUAL_PASS_AT_1
    chosen_ks = family.get("ks") or sorted({ks[0], ks[-1]})
    if chosen_ks == "largest" or (is_equal and not family.get("ks")):
        chosen_ks = [ks[-1]]
    _check("ks", chosen_ks, ks, "is evaluated at k =")
    columns = family.get("columns") or headline
    _check("columns", columns, [*averages_of(evaluation), *evaluation["benchmarks"]], "has")
    words = [KINDS[kind] for kind in kinds] + [
        f"{p.new.label} against {p.old.label}" for p in named
    ]
    ends = f"k = {', '.join(map(str, chosen_ks))}; {', '.join(columns)}"
    of_family = tuple(dict.fromkeys([*(p for p in pairs if p.kind in kinds), *named]))
    if is_equal:
        _check_paths(of_family, chosen_ks, declaration["experiment"])
        ends = f"at equal pass@1; {ends}"
    return list(dict.fromkeys([*pairs, *named])), Family(
        name=NONE_DECLARED if is_none else f"{' and '.join(words)}; {ends}",
        pairs=of_family,
        ks=tuple(chosen_ks),
        columns=tuple(columns),
        at_equal_pass_at_1=is_equal,
    )


def _check_paths(pairs: Sequence[Pair], ks: Sequence[int], experiment: Mapping[str, Any]) -> None:
    """ValueError where pairs are to be compared at equal pass@1 and cannot be. experiment:
    fgrpo_bench.specs.ExperimentSpec as JSON."""
    if any(pair.old.is_base or pair.new.is_base for pair in pairs):
        raise ValueError(
            f"sweep.family names a pair with the base models beside at={EQUAL_PASS_AT_1}: they are "
            "where every path begins and have none; name pairs of trained cells, or set "
            "sweep.family.at to null"
        )
    if 1 in ks:
        raise ValueError(
            f"sweep.family.ks={list(ks)} beside sweep.family.at={EQUAL_PASS_AT_1}: at equal pass@1 "
            "no two cells differ in pass@1; leave k = 1 out, or set sweep.family.at to null"
        )
    train, checkpoints = experiment["train"], experiment["checkpoints"]
    saved = saved_steps(steps=train["steps"], save_every=train["save_every"])
    evaluated = (
        {"last": saved[-1:], "every": saved}.get(checkpoints)
        if isinstance(checkpoints, str)
        else checkpoints
    )
    if evaluated is None or len(evaluated) < 2:
        every = "" if len(saved) > 1 else f" with experiment.train.save_every below {saved[0]}"
        raise ValueError(
            f"sweep.family.at={EQUAL_PASS_AT_1} compares the paths of training runs, and "
            f"experiment.checkpoints={checkpoints} evaluates one checkpoint of each: set "
            f"experiment.checkpoints=every{every}, or to several steps"
        )


def _by_name(
    declared: Sequence[Mapping[str, str]], cells: Sequence[CellRow], pairs: Sequence[Pair]
) -> Iterator[Pair]:
    """The pairs of `sweep.family.cells`; of two cells that are a pair anyway it is that one."""
    by_name = {cell.cell: cell for cell in cells}
    for entry in declared:
        new, old = entry["new"], entry["old"]
        _check("cells", (new, old), list(by_name), "has the cells")
        if new == old:
            raise ValueError(f"sweep.family.cells compares {new} with itself: name two cells")
        same_cells = (pair for pair in pairs if {pair.new.cell, pair.old.cell} == {new, old})
        yield next(same_cells, None) or Pair(
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


UNCONTROLLED = {
    "low_lr_gamma": None,
    "entropy_coef": 0.0,
    "kl_coef": 0.0,
    "random_rewards": False,
}
"""Fields of an algorithm without a control."""
REFERENCE = "grpo"
"""The algorithm that methods are compared with."""


def all_pairs(cells: Sequence[CellRow], algorithms: Mapping[str, Mapping[str, Any]]) -> list[Pair]:
    """Every pair of planned cells. algorithms: declared ones by name (AlgorithmSpec as JSON)."""
    return [
        *focal(cells),
        *controls(cells, algorithms),
        *group_sizes(cells),
        *largest(cells),
        *base(cells),
    ]


def line_of_cell(cell: CellRow) -> Line | None:
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
    learning rate, entropy bonus, KL penalty, random rewards) the algorithm that differs in nothing
    else. None for the others and where it was not run.

    algorithms: declared ones by name (fgrpo_bench.specs.AlgorithmSpec as JSON).
    """
    setting = cell.setting
    if setting is None:
        return None
    names = {setting.algorithm}
    if not setting.focal_gamma:
        declared = UNCONTROLLED | dict(algorithms.get(setting.algorithm, {}))
        plain = {**declared, **UNCONTROLLED}
        if declared == plain:
            return None
        names = {
            name
            for name, other in algorithms.items()
            if UNCONTROLLED | dict(other) == plain | {"name": name}
        }
    settings = {replace(setting.unweighted, algorithm=name) for name in names}
    return next((other for other in cells if other.setting in settings), None)


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
    lines: dict[Line | None, list[CellRow]] = {}
    for cell in cells:
        if not cell.is_base:
            lines.setdefault(line_of_cell(cell), []).append(cell)
    for same_method in lines.values():
        plain = [cell for cell in same_method if cell.focal_gamma == 0]
        line = {c.group_size: c for c in sorted(plain, key=lambda c: c.group_size or 0)}
        if len(line) < 2:
            continue
        sizes = list(line)
        focal_sizes = {c.group_size for c in same_method if c.focal_gamma and c.group_size in line}
        size_pairs = {*pairwise(sizes), (sizes[0], sizes[-1])}
        # Focal cells ask whether a weight does what a larger N does, so their N counts too.
        size_pairs |= {(sizes[0], size) for size in focal_sizes if size != sizes[0]}
        size_pairs |= {(size, sizes[-1]) for size in focal_sizes if size != sizes[-1]}
        place = {size: i for i, size in enumerate(sizes)}
        for low, high in sorted(size_pairs, key=lambda pair: (place[pair[0]], place[pair[1]])):
            yield Pair(
                kind="group_size",
                group=f"{line[low].method} without focal weight, group size",
                name=f"N={low} to {high}",
                new=line[high],
                old=line[low],
            )


def largest(cells: Sequence[CellRow]) -> Iterator[Pair]:
    """Focal cells against the base algorithm at its largest N, where that is another N."""
    tops: dict[Line | None, CellRow] = {}
    for cell in cells:
        top = tops.get(line_of_cell(cell))
        if cell.focal_gamma == 0 and (
            top is None or (cell.group_size or 0) > (top.group_size or 0)
        ):
            tops[line_of_cell(cell)] = cell
    for cell in cells:
        old = tops.get(line_of_cell(cell))
        if cell.focal_gamma and old and old.group_size != cell.group_size:
            yield Pair(
                kind="largest",
                group=f"{cell.method} against {old.label}",
                name=cell.short,
                new=cell,
                old=old,
            )


def methods(cells: Sequence[CellRow]) -> Iterator[Pair]:
    """Every trained cell against GRPO without focal weight at the same N, learning rate and prompts
    of a step; where GRPO was run at one such setting alone, at that one."""
    others: list[CellRow] = []
    plain: dict[int | None, dict[Line | None, CellRow]] = {}  # by N, then by the line of GRPO
    for cell in cells:
        if (cell.algorithm, cell.focal_gamma) == (REFERENCE, 0):
            plain.setdefault(cell.group_size, {})[line_of_cell(cell)] = cell
        elif not cell.is_base:
            others.append(cell)
    for new in others:
        lines = plain.get(new.group_size, {})
        same = REFERENCE, new.learning_rate_factor, new.prompts_per_step
        old = next(iter(lines.values())) if len(lines) == 1 else lines.get(same)
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


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two cells at a checkpoint each."""

    new: At
    old: At
    pair: Pair | None
    """What asks for it; None for a pair that no question asks for."""


def every_pair(cells: Sequence[CellRow], pairs: Sequence[Pair]) -> list[Compared]:
    """The pairs in their order, then all others, the later cell of the plan minus the earlier."""
    at = {cell.cell: (cell.cell, cell.step) for cell in cells}
    declared = [Compared(new=at[p.new.cell], old=at[p.old.cell], pair=p) for p in pairs]
    declared_cells = {frozenset((compared.new, compared.old)) for compared in declared}
    others = [
        Compared(new=at[new.cell], old=at[old.cell], pair=None)
        for old, new in combinations(cells, 2)
        if frozenset((at[new.cell], at[old.cell])) not in declared_cells
    ]
    return [*declared, *others]


NEAR = 0.01
"""Runs whose rollouts differ by no more than this share cost the same; the other comparisons have
them already."""
FAMILY = "focal weight against other group sizes at equal rollouts"


def matches(cells: Sequence[CellRow], checkpoints: Sequence[CheckpointRow]) -> Iterator[Compared]:
    """Every focal cell with every base cell of its algorithm that cost otherwise, both at the
    latest evaluated checkpoint within the rollouts of the cheaper of the two."""
    of_cell: dict[str, list[CheckpointRow]] = {}
    for row in checkpoints:
        of_cell.setdefault(row.cell, []).append(row)
    for new in cells:
        for old in cells:
            if not new.focal_gamma or old.focal_gamma != 0 or new.cell not in of_cell:
                continue
            if line_of_cell(new) != line_of_cell(old) or new.group_size == old.group_size:
                continue
            if old.cell not in of_cell:
                continue
            # Rows are by rising step: the last one has what the whole run cost.
            ends = of_cell[new.cell][-1].rollouts, of_cell[old.cell][-1].rollouts
            if max(ends) - min(ends) <= NEAR * max(ends):
                continue
            at = [
                max(
                    (row.step for row in of_cell[cell.cell] if row.rollouts <= min(ends)), default=0
                )
                for cell in (new, old)
            ]
            # Step 0, the default, says that no evaluated checkpoint lies within the budget.
            if all(at):
                yield Compared(
                    new=(new.cell, at[0]),
                    old=(old.cell, at[1]),
                    pair=Pair(
                        kind="equal_budget",
                        group=FAMILY,
                        name=f"{new.label} against {old.label}",
                        new=new,
                        old=old,
                    ),
                )


def budget_family(pairs: Sequence[Pair], ks: Sequence[int], columns: Sequence[str]) -> Family:
    """These comparisons at the smallest and the largest k, which are corrected by themselves."""
    ends = tuple(sorted({ks[0], ks[-1]}))
    return Family(name=FAMILY, pairs=tuple(pairs), ks=ends, columns=tuple(columns))
