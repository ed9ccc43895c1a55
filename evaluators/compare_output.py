"""A comparison as it is shown: a terminal, a page of HTML, Markdown, CSV or JSON.

In: a comparison of evaluators.compare. Out: blocks of a document, rows, or files of them. Next:
fgrpo_bench.documents, which draws blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.analysis.rows import OPEN_AND_CUT_OFF, Comparison, Estimate, FirstLoss
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import (
    NONE,
    UNFINISHED,
    Block,
    Heading,
    Paragraph,
    Table,
    difference,
    p_value,
    percent,
    table_as_json,
    unfinished_note,
    unfinished_shares,
    with_interval,
)
from fgrpo_bench.documents.terminal import COLUMNS, terminal, width
from fgrpo_bench.files.whole import write_text

from .compare import CHANGED, ComparedCheckpoints, changed_most, remarks, won_and_lost

FIRST_CHANGED = 5
"""Of these, how many a terminal shows without --wide."""
NARROW_CHARACTERS = 36
"""Likewise in a terminal of less than its usual columns."""


def _heading(compared: ComparedCheckpoints) -> str:
    """Who is compared with whom, on what."""
    old, *others = compared.labels
    return f"{', '.join(others)} against {old} on {', '.join(compared.analysis.results.benchmarks)}"


def _content(
    compared: ComparedCheckpoints, *, wide: bool = True, shown: int = CHANGED
) -> list[Block]:
    """Remarks, a table a column and pair, and what became of problems; what the columns are; and
    the verdict. wide: with every column. shown: problems that changed."""
    out: list[Block] = [Paragraph(text=" ".join(remarks(compared)))]
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            out += _column_tables(compared, column, new, old, wide=wide, shown=shown)
    out += compared.readings
    return [*out, *_at_equal_pass_at_1(compared), *_explanation(compared), *_verdict(compared)]


def _verdict(compared: ComparedCheckpoints) -> Iterator[Block]:
    """What the numbers say, over all k at once."""
    losses = list(_first_losses(compared))
    if losses:
        yield Heading(text="Over all k at once, by a 95% band")
    for loss in losses:
        yield Paragraph(text=f"{loss.column}: {loss.new} is {loss.words}.", strong=True)


def _first_losses(compared: ComparedCheckpoints) -> Iterator[FirstLoss]:
    """Of every pair and column with a band."""
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            loss = compared.analysis.first_loss_of(column, new, old)
            if loss is not None:
                yield loss


def _at_equal_pass_at_1(compared: ComparedCheckpoints) -> Iterator[Block]:
    """What labels with several checkpoints keep at the pass@1 that others reach."""
    from fgrpo_bench.report.tables.comparisons import equal_pass_at_1_tables
    from fgrpo_bench.report.words import kept

    sentences = list(kept(compared.analysis))
    if sentences:
        yield Paragraph(text=" ".join(sentences))
    yield from equal_pass_at_1_tables(compared.analysis)


def _column_tables(
    compared: ComparedCheckpoints, column: str, new: str, old: str, *, wide: bool, shown: int
) -> Iterator[Block]:
    rows = compared.differences(column, new, old)
    further = ("p of draws", "problems")
    notes = [] if rows else ["No problem has a value for both."]
    if not wide:
        notes.append(f"Left out: {', '.join(further)} (--wide shows them).")
    sides = [
        compared.analysis.estimate(column, label, compared.analysis.ks[0]) for label in (old, new)
    ]
    shares = zip(UNFINISHED, *(unfinished_shares(side.unfinished) for side in sides), strict=True)
    yield Table(
        title=f"{column}: {new} minus {old}, pass@k in percent, differences in percentage points",
        header=("k", old, new, f"difference{' [95% interval]' * wide}", "p", *further * wide),
        rows=tuple(_row(compared, row)[: 5 + 2 * wide] for row in rows),
        notes=tuple(notes),
    )
    yield Table(
        title=f"{column}: how draws ended, in percent",
        header=("", old, new),
        rows=tuple(shares),
        notes=(unfinished_note(UNFINISHED),),
    )
    yield from _by_value(compared, column, new, old)
    if rows and column in compared.analysis.results.benchmarks:
        k = rows[-1].k
        numbers = won_and_lost(compared, column, new, old, k)
        yield Paragraph(
            text=f"Problems within reach at k = {k}, expected: {numbers['gained']:.1f} won, "
            f"{numbers['lost']:.1f} lost, {numbers['retained']:.1f} kept, "
            f"{numbers['neither']:.1f} of neither."
        )
        changed = changed_most(compared, column, new, old)
        more = len(changed) - shown
        changed_rows = []
        for item in changed[:shown]:
            text = item.text if wide else item.text[:NARROW_CHARACTERS]
            changed_rows.append((item.problem_id, text, percent(item.old), percent(item.new)))
        if changed:
            yield Table(
                title=f"{column}: problems that changed most, success rates in percent",
                header=("problem", "", old, new),
                rows=tuple(changed_rows),
                n_labels=2,
                notes=() if more < 1 else (f"{more} more: --wide shows them.",),
            )


def _by_value(compared: ComparedCheckpoints, column: str, new: str, old: str) -> Iterator[Block]:
    """The same by the values of a column of the problems, where these have it."""
    differences = {
        (row.value, row.k): row for row in compared.differences_by_value(column, new, old)
    }
    news = [
        row
        for row in compared.estimates_by_value.values()
        if (row.column, row.cell) == (column, new)
    ]
    if not news:
        return
    rows: list[tuple[str, ...]] = []
    for row in news:
        both = (compared.estimates_by_value[column, row.value, old, row.k], row)
        cells = [row.value, f"{row.n_of_value:,}", str(row.k)]
        for side in both:
            cells.append(with_interval(side.mean, side.low, side.high, open_part=side.open_part))
        pair = differences.get((row.value, row.k))
        if pair is None:
            cells += [NONE] * 3
        else:
            cells.append(difference(pair.difference, pair.low, pair.high))
            cells += [p_value(pair.p), p_value(pair.p_holm)]
        rows.append(tuple(cells))
    by = news[0].by
    yield Table(
        title=f"{column} by {by}: {new} minus {old}, pass@k in percent, differences in percentage "
        "points",
        header=(by, "problems", "k", old, new, "difference [95% interval]", "p", "p Holm"),
        rows=tuple(rows),
        notes=compared.analysis.notes_on_values(column),
    )


def _row(compared: ComparedCheckpoints, row: Comparison) -> tuple[str, ...]:
    cells = [str(row.k)]
    for label in (row.old, row.new):
        side = compared.analysis.estimate(row.column, label, row.k)
        cells.append(with_interval(side.mean, side.low, side.high, open_part=side.open_part))
    has_interval = row.low is not None
    cells.append(difference(row.difference, row.low, row.high) if has_interval else NONE)
    return (*cells, p_value(row.p), p_value(row.p_draws), f"{row.n_problems:,}")


def _explanation(compared: ComparedCheckpoints) -> list[Block]:
    """What the columns are, below the tables."""
    by_value = (
        " p Holm: corrected over the values of the column, for each pair and k alone."
        if compared.analysis.rows("by_value_comparisons")
        else ""
    )
    return [
        Heading(text="Notes"),
        Paragraph(
            text="Differences are paired problem by problem. p: of no difference, over problems "
            "(and seeds where there are several), and goes with the interval; p of draws: were "
            "these problems and models all there is, so of the luck of the draws alone. Nothing is "
            "corrected over k, benchmarks or pairs. Problems that changed most: by how far "
            "1 - (1 - success rate)^k moved, mean over the k of the table."
            f"{by_value}"
        ),
    ]


# What a program reads.


def table(compared: ComparedCheckpoints) -> pl.DataFrame:
    """A row a column, pair and k: fractions, and differences of fractions; of a comparison by a
    column of the problems (`by`) then a row a value and k too, which has nothing in `value` where
    it is over all problems."""
    rows = []
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            for row in compared.differences(column, new, old):
                sides = [compared.analysis.estimate(column, label, row.k) for label in (old, new)]
                rows.append(_numbers(row, *sides))
    if compared.analysis.by is not None:
        whole = {"by": compared.analysis.by, "value": None, "p_holm": None}
        rows = [row | whole for row in rows] + _rows_by_value(compared)
    return pl.DataFrame(rows, infer_schema_length=None)


def _rows_by_value(compared: ComparedCheckpoints) -> list[dict[str, Any]]:
    """Rows of the values of a column, behind those of all problems."""
    out = []
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            for row in compared.differences_by_value(column, new, old):
                sides = (
                    compared.estimates_by_value[column, row.value, at, row.k] for at in (old, new)
                )
                part = {"by": row.by, "value": row.value, "p_holm": row.p_holm}
                out.append(_numbers(row, *sides) | part)
    return out


def _numbers(row: Comparison, old: Estimate, new: Estimate) -> dict[str, Any]:
    """A row of the table: a difference between its two sides."""

    def open_and_cut_off(side: str, row: Estimate) -> dict[str, float | None]:
        return {f"{name}_{side}": getattr(row, name) for name in OPEN_AND_CUT_OFF}

    return (
        {
            "column": row.column,
            "new": row.new,
            "old": row.old,
            "k": row.k,
            "pass_at_k_old": old.mean,
            "pass_at_k_new": new.mean,
            "difference": row.difference,
            "ci_low": row.low,
            "ci_high": row.high,
            "p": row.p,
            "p_draws": row.p_draws,
            "n_problems": row.n_problems,
            "n_seeds": len(row.seeds),
        }
        | open_and_cut_off("old", old)
        | open_and_cut_off("new", new)
    )


def as_json(compared: ComparedCheckpoints) -> dict[str, Any]:
    """Everything that is shown, unrounded."""
    results = compared.analysis.results
    return {
        "labels": compared.labels,
        "remarks": [*remarks(compared)],
        "rows": table(compared).to_dicts(),
        "first_loss": [
            {"column": row.column, "new": row.new, "old": row.old}
            | {"from": row.low, "to": row.high, "words": row.words}
            for row in _first_losses(compared)
        ],
        "equal_pass_at_1": compared.analysis.equal_pass_at_1.to_dicts(),
        "path_ranges": compared.analysis.path_ranges.to_dicts(),
        "also": [table_as_json(block) for block in compared.readings if isinstance(block, Table)],
        "problems": [
            {"benchmark": name, "new": new, "old": old, "k": results.evaluation["ks"][-1]}
            | won_and_lost(compared, name, new, old, results.evaluation["ks"][-1])
            | {"changed": [vars(item) for item in changed_most(compared, name, new, old)]}
            for new, old in compared.pairs()
            for name in results.benchmarks
        ],
    }


def text(compared: ComparedCheckpoints, *, wide: bool = False) -> str:
    """For a terminal; wide: with every column and row, however wide it is."""
    shown = CHANGED if wide else FIRST_CHANGED
    return terminal(
        _heading(compared), _content(compared, wide=wide or width() >= COLUMNS, shown=shown)
    )


def write(
    compared: ComparedCheckpoints,
    *,
    html: Path | None,
    md: Path | None,
    csv: Path | None,
) -> str:
    """Write what has a place; returns the lines that say so, empty without any."""
    files: dict[Path, str] = {}
    if html is not None:
        files[html] = page(compared)
    if md is not None:
        files[md] = markdown(_heading(compared), _content(compared))
    if csv is not None:
        files[csv] = table(compared).write_csv()
    for path, content in files.items():
        write_text(path, content)
    return "\n".join(map(str, files))


def page(compared: ComparedCheckpoints) -> str:
    """One file of HTML: the comparison, then all that a report says, with its figures."""
    from fgrpo_bench.report import build

    return build.page(compared.analysis, _heading(compared), _content(compared))
