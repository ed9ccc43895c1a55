"""Our cells and averages beside the published ones."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from fgrpo_bench.analysis.published import AVERAGES, BENCHMARKS, MODELS, lookup
from fgrpo_bench.documents.numbers import percent, points
from fgrpo_bench.documents.table import Content, Table, Value, explained
from fgrpo_bench.report.footnotes import footnotes, is_incomplete
from fgrpo_bench.report.summary import Summary
from fgrpo_bench.report.tables import NAMES, csv_rows, csv_text, names

KS = (1, 256)
"""The k of the paper's main tables."""
DRAWS = 1024
"""Draws a problem of every published pass@k on a benchmark."""


def against_paper(summary: Summary) -> list[Table]:
    """A table an average and a benchmark: ours, the paper's and the difference at k = 1 and 256.

    An average of ours stands beside a published one where both are over the same benchmarks; else
    a note says why it does not. Raises ValueError where the paper has no figures of this model or
    of any benchmark.
    """
    model = summary.results.model
    if model not in MODELS:
        raise ValueError(
            f"the paper has no figures of model {model!r}; it has {', '.join(MODELS)}: leave out "
            "--compare-paper, or report a sweep of one of those"
        )
    published, ks = _published(summary), [k for k in KS if k in summary.ks]
    if not published or not ks:
        raise ValueError(
            f"the paper has pass@{KS[0]} and pass@{KS[1]} on {', '.join(BENCHMARKS)}; this sweep "
            f"has k in {list(summary.ks)} on {', '.join(summary.results.benchmarks)}"
        )
    notes = (
        f"The paper's figures are of {DRAWS:,} draws a problem, printed to 0.1 points; it has none "
        "of base models.",
        *_left_out(summary),
    )
    return [
        _table(summary, column, named, ks=ks, notes=notes) for column, named in published.items()
    ]


def csv_beside_paper(summary: Summary) -> str:
    """`tables.csv` with two more columns: the published pass@k at this k as a fraction, and ours
    less it; empty where there is none."""
    rows, published = csv_rows(summary), _published(summary)
    theirs = [
        lookup(
            model=summary.results.model,
            algorithm=row["algorithm"],
            focal_gamma=row["focal_gamma"],
            group_size=row["group_size"],
            benchmark=published.get(row["benchmark"], ""),
            k=row["k"],
        )
        for row in rows.iter_rows(named=True)
    ]
    beside = rows.with_columns(pl.Series("paper_pass_at_k", theirs, dtype=pl.Float64))
    return csv_text(beside.with_columns(difference=pl.col("pass_at_k") - pl.col("paper_pass_at_k")))


def _published(summary: Summary) -> dict[str, str]:
    """What to look up for each column of ours that the paper has too, in our order."""
    same = {name: name for name in summary.results.benchmarks if name in BENCHMARKS}
    for published, benchmarks in AVERAGES.items():
        same |= {
            title: published
            for title, averaged in summary.averages.items()
            if benchmarks == set(averaged)
        }
    return {column: same[column] for column in summary.columns if column in same}


def _left_out(summary: Summary) -> Iterator[str]:
    """A sentence for every published average over some benchmark of ours that has no like one."""
    for published, benchmarks in AVERAGES.items():
        near = {
            title: averaged
            for title, averaged in summary.averages.items()
            if not benchmarks.isdisjoint(averaged)
        }
        known = [name for name in BENCHMARKS if name in benchmarks]
        own = [name for name in known if name in summary.results.benchmarks]
        if own and benchmarks not in [set(names) for names in near.values()]:
            ours = [f"our {title} is over {', '.join(names)}" for title, names in near.items()]
            yield (
                f"The published {published} is left out: it is over {', '.join(known)}; "
                f"{'; '.join(ours) or f'of these this sweep has {own[0]} alone'}."
            )


def _table(
    summary: Summary, column: str, published: str, *, ks: list[int], notes: tuple[str, ...]
) -> Table:
    rows = []
    for cell in summary.cells:
        row: list[Content] = list(names(cell))
        for k in ks:
            end = summary.ks.index(k)
            ours = summary.estimates(column, cell)[end].mean
            theirs = lookup(
                model=summary.results.model,
                algorithm=cell.algorithm,
                focal_gamma=cell.focal_gamma,
                group_size=cell.group_size,
                benchmark=published,
                k=k,
            )
            lacking = ours is not None and is_incomplete(summary, cell, column, end)
            difference = None if ours is None or theirs is None else ours - theirs
            row += [
                (Value(text=percent(ours), incomplete=lacking),),
                percent(theirs),
                points(difference),
            ]
        rows.append(tuple(row))
    called = "" if column == published else f" ({published})"
    model = MODELS[summary.results.model]
    return Table(
        title=f"{column}: ours beside arXiv 2602.06717, {model}{called}, in percent",
        header=(*NAMES, *(f"{what} @{k}" for k in ks for what in ("ours", "paper", "difference"))),
        rows=tuple(rows),
        legend=explained(content for row in rows for content in row[len(NAMES) :]),
        notes=(
            *footnotes(summary, summary.cells, summary.averages.get(column, (column,))),
            *notes,
        ),
    )
