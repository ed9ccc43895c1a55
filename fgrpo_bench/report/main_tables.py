"""The paper's tables from whatever was run: methods against benchmarks, and what a sweep varies.

The main table has every cell and benchmark. Where there are averages, a table of these alone
stands beside it for each question that the sweep asks: group size, focal exponent, controls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fgrpo_bench.analysis import LEVEL, ROBUST, Analysis
from fgrpo_bench.analysis.published import published_delta_nll
from fgrpo_bench.analysis.question import base_method
from fgrpo_bench.analysis.rows import CellRow, Comparison, Estimate
from fgrpo_bench.documents.numbers import percent_value
from fgrpo_bench.documents.table import NONE, Table, Value, explained, grid, with_best
from fgrpo_bench.report.footnotes import BOLD, footnotes, redeclared
from fgrpo_bench.report.tables import NAMES, names

OURS, THEIRS = "Delta NLL", "paper's Delta NLL"
PAPERS_MODEL = "Qwen2.5-7B"
"""The one model of the paper's table 2."""


@dataclass(frozen=True, kw_only=True)
class _Question:
    title: str
    cells: tuple[CellRow, ...]
    columns: tuple[str, ...]


def main_tables(analysis: Analysis) -> list[Table]:
    """The main table, then one for each question that it does not ask itself. Where likelihoods of
    rare correct answers were computed, the main table has their rise, ours and the paper's."""
    asked, cells = list(_questions(analysis)), _cells(analysis)
    titles = [question.title for question in asked if question.cells == cells]
    title = titles[0] if titles else "Methods"
    main_question = _Question(title=title, cells=cells, columns=analysis.columns)
    others = [question for question in asked if question.columns != analysis.columns]
    return [
        _table(analysis, main_question, with_nll=bool(analysis.likelihoods)),
        *(_table(analysis, question, with_nll=False) for question in others),
    ]


def _cells(analysis: Analysis) -> tuple[CellRow, ...]:
    """All cells, those of an algorithm together: with focal weight behind without."""
    order = list(dict.fromkeys(cell.algorithm for cell in analysis.by_cell.values()))
    return tuple(sorted(analysis.by_cell.values(), key=lambda cell: order.index(cell.algorithm)))


def _questions(analysis: Analysis) -> Iterator[_Question]:
    trained = [cell for cell in analysis.by_cell.values() if not cell.is_base]

    def question(title: str, cells: Sequence[CellRow], columns: tuple[str, ...]) -> _Question:
        chosen = tuple(cell for cell in _cells(analysis) if cell.is_base or cell in cells)
        return _Question(title=title, cells=chosen, columns=columns)

    several = {
        name
        for name in {cell.algorithm for cell in trained}
        if len({c.group_size for c in trained if (c.algorithm, c.focal_gamma) == (name, 0)}) > 1
    }
    if several:
        of_sizes = [cell for cell in trained if cell.algorithm in several]
        yield question("Group size", of_sizes, analysis.headline)
    gammas: dict[tuple[str | None, int | None], set[float | None]] = {}
    for cell in trained:
        gammas.setdefault((cell.algorithm, cell.group_size), set()).add(cell.focal_gamma)
    of_gammas = [c for c in trained if len(gammas[c.algorithm, c.group_size]) > 2]
    if of_gammas:
        yield question("Sensitivity to gamma", of_gammas, analysis.headline)
    controlled = {
        cell: old
        for cell in trained
        if not cell.focal_gamma and (old := _base_method(analysis, cell)) is not None
    }
    if controlled:
        bases = set(controlled.values())
        beside = [
            cell
            for cell in trained
            if cell in controlled or cell in bases or _base_method(analysis, cell) in bases
        ]
        yield question("Controls", beside, analysis.headline)


def _table(analysis: Analysis, asked: _Question, *, with_nll: bool) -> Table:
    against = {
        (column, cell.cell, k): row
        for cell in asked.cells
        if (old := _base_method(analysis, cell)) is not None
        for column in asked.columns
        for k in analysis.ends
        if (row := analysis.comparison(column, k, cell.cell, old.cell)) is not None
    }

    def value(row: Estimate) -> Value:
        compared = against.get((row.column, row.cell, row.k))
        return percent_value(
            row.mean,
            significant=compared is not None and compared.verdict == ROBUST,
            incomplete=row.is_incomplete,
            redesigned=row.is_redesigned,
        )

    rows: dict[tuple[str, ...], dict[str, tuple[Value, ...]]] = {}
    for cell in asked.cells:
        own = rows[names(cell)] = {}
        for column in asked.columns:
            ends = [analysis.estimate(column, cell, k) for k in analysis.ends]
            if any(row.mean is not None for row in ends):
                own[column] = tuple(map(value, ends))
    bases = {names(cell) for cell in asked.cells if cell.is_base}
    marked = with_best(rows, columns=asked.columns, among=lambda key: None if key in bases else 0)
    contents = [row.get(column, NONE) for row in marked.values() for column in asked.columns]
    notes = footnotes(analysis, asked.cells, *asked.columns)
    if with_nll:
        for cell in asked.cells:
            marked[names(cell)] |= _delta_nll(analysis, cell)
        notes = (*notes, _nll_note(analysis))
    underlined = tuple(_underlined(analysis, against.values()))
    if underlined:
        notes = (*notes, *redeclared(analysis))
    averages = ", averages" if asked.columns != analysis.columns else ""
    ks = " / ".join(f"pass@{k}" for k in analysis.ends)
    return grid(
        title=f"{asked.title}{averages}: {ks} in percent",
        names=NAMES,
        columns=[*asked.columns, *([OURS, THEIRS] if with_nll else [])],
        rows=marked,
        notes=notes,
        legend=(BOLD, *underlined, *explained(contents)),
        breaks=analysis.headline,
    )


def _underlined(analysis: Analysis, against: Iterable[Comparison]) -> Iterator[tuple[Value, str]]:
    """What underlined means, where some value of a table may be so."""
    if any(row.family is not None for row in against):
        over = "problems and training seeds" if analysis.n_seeds > 1 else "problems"
        yield (
            Value(text="underlined", significant=True),
            "differs from its base method (the same without focal weight; for a control the "
            f"algorithm without it), robust: p < {1 - LEVEL:.2g} after Holm's correction over the "
            f"comparisons of the question ({analysis.family}), over {over}",
        )


def _base_method(analysis: Analysis, cell: CellRow) -> CellRow | None:
    sweep = analysis.results.sweep
    algorithms = {} if sweep is None else sweep.algorithms
    return base_method(cell, list(analysis.by_cell.values()), algorithms)


def _delta_nll(analysis: Analysis, cell: CellRow) -> dict[str, tuple[Value, ...]]:
    """Rise of the negative log-likelihood of rare correct answers, ours and the paper's."""
    if cell.is_base:
        return {OURS: (Value(text="0"),)}
    own = analysis.likelihoods.get(cell.cell)
    theirs = published_delta_nll(cell.setting)
    spread = own and f"{own.mean:.2f} [{min(own.by_seed):.2f}, {max(own.by_seed):.2f}]"
    return {name: (Value(text=text),) for name, text in ((OURS, spread), (THEIRS, theirs)) if text}


def _nll_note(analysis: Analysis) -> str:
    rows = analysis.likelihoods.values()
    sizes = sorted({n for row in rows for n in row.n_rare})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    seeds = max(len(row.seeds) for row in rows)
    return (
        f"{OURS}: mean rise of the negative log-likelihood, nats a token, of {size} rare correct "
        "answers of the base model to training prompts, a fixed set: those of its correct draws "
        f"that were least likely. Mean over {seeds} seeds and [lowest, highest]. The paper's "
        f"is its figure of the same algorithm, N and gamma, on {PAPERS_MODEL} and mathematics."
    )
