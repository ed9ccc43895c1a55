"""The tables of pass@k that every sweep has.

In: an Analysis. Out: the main table, with every cell and benchmark; where there are averages, a
table of these alone beside it for each question that the sweep asks (group size, focal exponent,
controls); intervals, all k and the problems within reach. Next: report.tables.comparisons.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from fgrpo_bench.analysis import LEVEL, SIGNIFICANT, Analysis
from fgrpo_bench.analysis.coverage import SURE, least_rate, surely_out
from fgrpo_bench.analysis.question import base_method
from fgrpo_bench.analysis.rows import UNSCORED, CellRow, Comparison, Estimate
from fgrpo_bench.documents.table import (
    NONE,
    UNFINISHED,
    Key,
    Rows,
    Table,
    TableRow,
    Value,
    keyed_table,
    marks_legend,
    percent_value,
    raised,
    unfinished_note,
    unfinished_shares,
    unscored_note,
    with_best,
    with_interval,
)
from fgrpo_bench.report.captions import caption, ends_text, means
from fgrpo_bench.report.footnotes import footnotes, redeclared
from fgrpo_bench.report.tables.likelihood import OURS, THEIRS, delta_nll, nll_note

NAMES = ("method", "N", "gamma")
OUTCOMES = ("retained", "lost", "gained", "neither", "surely_lost", "surely_gained")
"""Columns of the table of problems within reach."""


def names(cell: CellRow) -> tuple[str, str, str]:
    """Method, N and gamma, as every table names a cell."""
    if cell.group_size is None or cell.focal_gamma is None:
        return cell.method, NONE, NONE
    return cell.method, str(cell.group_size), f"{cell.focal_gamma:g}"


def pass_at_k_value(row: Estimate, *, significant: bool = False) -> Value:
    """pass@k with its marks, and what draws that could not be judged leave open of it."""
    value = percent_value(
        row.mean,
        significant=significant,
        incomplete=row.is_incomplete,
        redesigned=row.is_redesigned,
        more=unscored_note(*row.open_part),
    )
    if row.low is None or row.high is None:
        return value
    return replace(value, interval=(row.low, row.high))


def interval_table(analysis: Analysis, column: str) -> Table:
    """pass@k on a benchmark or average at the smallest and the largest k with intervals."""
    cells = list(analysis.by_cell.values())
    further = unfinished_columns(analysis, column)
    rows: list[TableRow] = []
    for cell in cells:
        ends = [analysis.estimate(column, cell, k) for k in analysis.ends]
        values = [
            Value(
                text=with_interval(row.mean, row.low, row.high, open_part=row.open_part),
                incomplete=row.is_incomplete,
                redesigned=row.is_redesigned,
            )
            for row in ends
        ]
        shares = unfinished_shares(ends[0].unfinished)[: len(further)]
        rows.append((*names(cell), *((value,) for value in values), *shares, str(ends[0].n_seeds)))
    return Table(
        title=f"{column}: pass@k in percent with 95% intervals",
        caption=caption(
            analysis, f"{ends_text(analysis)} on {column} in percent", column, intervals=True
        ),
        header=(
            *(*NAMES, *(f"pass@{k}" for k in analysis.ends)),
            *(*further, "seeds"),
        ),
        rows=tuple(rows),
        notes=(
            *footnotes(analysis, cells, column),
            *((unfinished_note(further),) if further else ()),
        ),
        legend=marks_legend(content for row in rows for content in row[len(NAMES) : -1]),
    )


def unfinished_columns(analysis: Analysis, *columns: str) -> tuple[str, ...]:
    """Those of UNFINISHED that a table of these columns has: none where no more than the share
    UNSCORED of any cell's draws were cut off, nor of its correct ones, and this is known; and that
    of answers found by their place where there are any."""
    rows = [analysis.estimate(name, cell, analysis.ks[0])
            for name in columns for cell in analysis.by_cell]  # fmt: skip
    rows = [row for row in rows if row.seeds]
    shares = [share for row in rows for share in row.unfinished if share is not None]
    if all(row.cut_off is not None for row in rows) and max(shares, default=0.0) <= UNSCORED:
        return ()
    return UNFINISHED if any(row.correct_by_place for row in rows) else UNFINISHED[:2]


def all_ks(analysis: Analysis, column: str) -> Table:
    """pass@k on a benchmark or average at every k, without intervals."""
    cells = list(analysis.by_cell.values())
    rows: Rows = {
        names(cell): {
            f"k={row.k}": (pass_at_k_value(row),) for row in analysis.over_k(column, cell)
        }
        for cell in cells
    }
    bases = {names(cell) for cell in cells if cell.is_base}
    columns = [f"k={k}" for k in analysis.ks]
    marked = _with_best(rows, columns, bases)
    contents = [content for values in marked.values() for content in values.values()]
    return keyed_table(
        title=f"{column}: pass@k in percent at every k",
        caption=caption(
            analysis,
            f"pass@k on {column} in percent, for k from {analysis.ks[0]} to {analysis.ks[-1]}",
            column,
        ),
        names=NAMES,
        columns=columns,
        rows=marked,
        notes=footnotes(analysis, cells, column),
        legend=marks_legend(contents),
    )


def _with_best(
    rows: Rows, columns: Sequence[str], bases: Collection[Key]
) -> dict[Key, dict[str, tuple[Value, ...]]]:
    """Trained models compete, and one is the best only where its interval sets it apart."""
    return with_best(
        rows, columns=columns, among=lambda key: None if key in bases else 0, is_apart=True
    )


def coverage_table(analysis: Analysis, column: str) -> Table | None:
    """Expected numbers of problems, mean over seeds, and those that are all but certain; None where
    no trained cell can be set against the base models."""
    k, cells = analysis.ks[-1], list(analysis.by_cell.values())
    rows = []
    for cell in cells:
        coverage = analysis.covered(column, cell, k)
        if coverage is not None:
            counts = [f"{getattr(coverage, name):.1f}" for name in OUTCOMES]
            rows.append((*names(cell), *counts, str(coverage.n_seeds)))
    if not rows:
        return None
    return Table(
        title=f"{column}: problems within reach at k = {k}, against the base model",
        caption=f"Problems of {column} within reach at k = {k}, expected numbers: retained, lost "
        f"and gained against the base models. {raised(means(analysis, column))}.",
        header=(*NAMES, *(name.replace("_", " ") for name in OUTCOMES), "seeds"),
        rows=tuple(rows),
        notes=(
            f"A problem is within reach at k = {k} where one of {k} draws is more likely correct "
            f"than none (a success rate of {least_rate(k):.2g} and more). Numbers are expected "
            "counts under the posterior of each problem's success rate (Jeffreys' prior; a problem "
            "that a model never solved counts as out of its reach), mean over seeds; surely: with "
            f"a probability of at least {SURE:.0%}.",
            *_out_of_reach(analysis, column),
            *footnotes(analysis, cells, column),
        ),
    )


def _out_of_reach(analysis: Analysis, column: str) -> Iterator[str]:
    """A sentence where the draws are too few for a problem ever to be surely lost or gained."""
    rows = [row for name in analysis.benchmarks_of(column) for row in analysis.estimates_on(name)]
    n = max(row.n_samples for row in rows if row.n_samples is not None)
    surely = surely_out(n_samples=n, k=analysis.ks[-1])
    if surely < SURE:
        yield (
            f"From {n} draws none can be surely lost or gained: even a problem without a correct "
            f"draw is out of reach with a probability of {surely:.2f} only."
        )


@dataclass(frozen=True, kw_only=True)
class _VariedAxis:
    title: str
    cells: tuple[CellRow, ...]
    columns: tuple[str, ...]


def main_tables(analysis: Analysis) -> list[Table]:
    """The main table, then one for each question that it does not ask itself. Where likelihoods of
    rare correct answers were computed, the main table has their rise, ours and the paper's."""
    axes, cells = list(_questions(analysis)), _cells(analysis)
    titles = [question.title for question in axes if question.cells == cells]
    title = titles[0] if titles else "Methods"
    main_question = _VariedAxis(title=title, cells=cells, columns=analysis.columns)
    others = [question for question in axes if question.columns != analysis.columns]
    return [
        _main_table(analysis, main_question, with_nll=bool(analysis.likelihoods)),
        *(_main_table(analysis, question, with_nll=False) for question in others),
    ]


def _cells(analysis: Analysis) -> tuple[CellRow, ...]:
    """All cells, those of an algorithm together: with focal weight behind without."""
    order = list(dict.fromkeys(cell.algorithm for cell in analysis.by_cell.values()))
    return tuple(sorted(analysis.by_cell.values(), key=lambda cell: order.index(cell.algorithm)))


def _questions(analysis: Analysis) -> Iterator[_VariedAxis]:
    trained = [cell for cell in analysis.by_cell.values() if not cell.is_base]

    def question(title: str, cells: Sequence[CellRow], columns: tuple[str, ...]) -> _VariedAxis:
        chosen = tuple(cell for cell in _cells(analysis) if cell.is_base or cell in cells)
        return _VariedAxis(title=title, cells=chosen, columns=columns)

    sizes: dict[str | None, set[int | None]] = {}
    for cell in trained:
        if cell.focal_gamma == 0:
            sizes.setdefault(cell.algorithm, set()).add(cell.group_size)
    varied_sizes = [cell for cell in trained if len(sizes.get(cell.algorithm, ())) > 1]
    if varied_sizes:
        yield question("Group size", varied_sizes, analysis.headline)
    gammas: dict[tuple[str | None, int | None], set[float | None]] = {}
    for cell in trained:
        gammas.setdefault((cell.algorithm, cell.group_size), set()).add(cell.focal_gamma)
    varied_gammas = [c for c in trained if len(gammas[c.algorithm, c.group_size]) > 2]
    if varied_gammas:
        yield question("Sensitivity to gamma", varied_gammas, analysis.headline)
    # A control has no focal weight, but e.g. a lower learning rate or random rewards.
    base_methods = {cell: _base_method(analysis, cell) for cell in trained}
    controls = [cell for cell in trained if not cell.focal_gamma and base_methods[cell] is not None]
    if controls:
        bases = {base_methods[cell] for cell in controls}
        related = [
            cell
            for cell in trained
            if cell in controls or cell in bases or base_methods[cell] in bases
        ]
        yield question("Controls", related, analysis.headline)


def _main_table(analysis: Analysis, axis: _VariedAxis, *, with_nll: bool) -> Table:
    against: dict[tuple[str, str, int], Comparison] = {}
    for cell in axis.cells:
        old = _base_method(analysis, cell)
        if old is None:
            continue
        for column, k in product(axis.columns, analysis.ends):
            comparison = analysis.comparison(column, k, cell.cell, old.cell)
            if comparison is not None:
                against[column, cell.cell, k] = comparison

    def value(row: Estimate) -> Value:
        compared = against.get((row.column, row.cell, row.k))
        return pass_at_k_value(
            row, significant=compared is not None and compared.verdict == SIGNIFICANT
        )

    rows: dict[tuple[str, ...], dict[str, tuple[Value, ...]]] = {}
    for cell in axis.cells:
        columns_of_cell = rows[names(cell)] = {}
        for column in axis.columns:
            ends = [analysis.estimate(column, cell, k) for k in analysis.ends]
            if any(row.mean is not None for row in ends):
                columns_of_cell[column] = tuple(map(value, ends))
    bases = {names(cell) for cell in axis.cells if cell.is_base}
    marked = _with_best(rows, axis.columns, bases)
    contents = [row.get(column, NONE) for row in marked.values() for column in axis.columns]
    notes = footnotes(analysis, axis.cells, *axis.columns)
    if with_nll:
        for cell in axis.cells:
            marked[names(cell)] |= delta_nll(analysis, cell)
        notes = (*notes, nll_note(analysis))
    further = unfinished_columns(analysis, *axis.columns)
    if further:
        parts = map(analysis.benchmarks_of, axis.columns)
        benchmarks = dict.fromkeys(name for part in parts for name in part)
        for cell in axis.cells:
            rows_of_cell = [analysis.estimate(name, cell, analysis.ks[0]) for name in benchmarks]
            shares = unfinished_shares(*(row.unfinished for row in rows_of_cell if row.seeds))
            marked[names(cell)] |= {
                name: (Value(text=text),) for name, text in zip(further, shares, strict=False)
            }
        notes = (*notes, unfinished_note(further))
    underlined = tuple(_underlined(analysis, against.values()))
    if underlined:
        notes = (*notes, *redeclared(analysis))
    averages = ", averages" if axis.columns != analysis.columns else ""
    ks = " / ".join(f"pass@{k}" for k in analysis.ends)
    where = f" on {axis.columns[0]}" if len(axis.columns) == 1 else ""
    return keyed_table(
        title=f"{axis.title}{averages}: {ks} in percent",
        caption=caption(
            analysis,
            f"{axis.title}: {ends_text(analysis)}{where} in percent",
            *axis.columns,
        ),
        names=NAMES,
        columns=[*axis.columns, *further, *([OURS, THEIRS] if with_nll else [])],
        rows=marked,
        notes=notes,
        legend=(*underlined, *marks_legend(contents)),
        breaks=analysis.headline,
    )


def _underlined(analysis: Analysis, against: Iterable[Comparison]) -> Iterator[tuple[Value, str]]:
    """What underlined means, where some value of a table may be so."""
    if any(row.family is not None for row in against):
        over = "problems and training seeds" if analysis.n_seeds > 1 else "problems"
        yield (
            Value(text="underlined", significant=True),
            "differs from its base method (the same without focal weight; for a control the "
            f"algorithm without it), significant: p < {1 - LEVEL:.2g} after Holm's correction over "
            f"the comparisons of the question ({analysis.family}), over {over}",
        )


def _base_method(analysis: Analysis, cell: CellRow) -> CellRow | None:
    sweep = analysis.results.sweep
    algorithms = {} if sweep is None else sweep.algorithms
    return base_method(cell, list(analysis.by_cell.values()), algorithms)
