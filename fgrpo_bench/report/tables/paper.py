"""Our cells beside the figures that the paper published (arXiv 2602.06717).

In: an Analysis of a sweep of one of the paper's models. Out: a table an average and a benchmark.
Next: fgrpo_bench.paper.published, which has the figures and prints them.
"""

from __future__ import annotations

from collections.abc import Iterator

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.published import same_columns
from fgrpo_bench.documents.table import Content, Table, marks_legend, percent, points
from fgrpo_bench.paper.published import AVERAGES, BENCHMARKS, MAZE_SIZE, MODELS, main_ks
from fgrpo_bench.report.captions import caption
from fgrpo_bench.report.footnotes import footnotes
from fgrpo_bench.report.tables.main import NAMES, names, pass_at_k_value

DRAWS = 1024
"""Draws a problem of every published pass@k of a language model."""


def against_paper(analysis: Analysis) -> list[Table]:
    """A table an average and a benchmark: ours, the paper's and the difference at the k of the
    model's main table there.

    An average of ours stands beside a published one where both are over the same benchmarks; else
    a note says why it does not. Raises ValueError where the paper has no figures of this model or
    of any benchmark, and as `check_fixed`.
    """
    check_fixed(analysis)
    sweep = analysis.results.require_sweep()
    model, same = sweep.model, same_columns(sweep)
    if model not in MODELS:
        raise ValueError(
            f"the paper has no figures of model {model!r}; it has {', '.join(MODELS)}: leave out "
            "--compare-paper, or report a sweep of one of those"
        )
    theirs = main_ks(model)
    ks = [k for k in theirs if k in analysis.ks]
    if not same or not ks:
        mazes = f" (mazes of size {MAZE_SIZE})"
        known = (name + mazes * (name == "maze") for name in BENCHMARKS)
        raise ValueError(
            f"the paper has {', '.join(f'pass@{k}' for k in theirs)} on {', '.join(known)}; this "
            f"sweep has k in {list(analysis.ks)} on {', '.join(analysis.results.benchmarks)}"
        )
    notes = (_figures_note("maze" in same), *_omitted_averages(analysis))
    return [
        _paper_table(analysis, column, same[column], ks=ks, notes=notes)
        for column in analysis.columns
        if column in same
    ]


def _figures_note(are_of_mazes: bool) -> str:
    printed = "printed to 0.1 points; it has none of base models"
    if are_of_mazes:
        return (
            f"The paper's figures are {printed}, and does not say of how many draws and runs they "
            "are, nor which walks it takes for right."
        )
    return f"The paper's figures are of {DRAWS:,} draws per problem, {printed}."


def check_fixed(analysis: Analysis) -> None:
    """ValueError where problems stop early."""
    declared = analysis.results.stopping
    designs = [declared.text] if declared and not declared.is_fixed else []
    designs += [
        w for name in analysis.columns for row in analysis.estimates_on(name) for w in row.designs
    ]
    if designs:
        raise ValueError(
            f"--compare-paper with {designs[0]}: the paper's figures and its tests are of a fixed "
            f"{DRAWS:,} draws; run the sweep again with experiment.evaluation.design=null, which "
            "adds the missing draws, or leave out --compare-paper"
        )


def _omitted_averages(analysis: Analysis) -> Iterator[str]:
    """A sentence for every published average over some benchmark of ours that has no like one."""
    for published, benchmarks in AVERAGES.items():
        near = {
            title: averaged
            for title, averaged in analysis.averages.items()
            if not benchmarks.isdisjoint(averaged)
        }
        names = [name for name in BENCHMARKS if name in benchmarks]
        included = [name for name in names if name in analysis.results.benchmarks]
        if included and benchmarks not in [set(averaged) for averaged in near.values()]:
            ours = [f"our {title} is over {', '.join(item)}" for title, item in near.items()]
            yield (
                f"The published {published} is left out: it is over {', '.join(names)}; "
                f"{'; '.join(ours) or f'of these this sweep has {included[0]} alone'}."
            )


def _paper_table(
    analysis: Analysis, column: str, published: str, *, ks: list[int], notes: tuple[str, ...]
) -> Table:
    cells = list(analysis.by_cell.values())
    rows = []
    for cell in cells:
        row: list[Content] = list(names(cell))
        for estimate in (analysis.estimate(column, cell, k) for k in ks):
            ours, theirs = estimate.mean, estimate.published
            row += [
                (pass_at_k_value(estimate),),
                percent(theirs),
                points(None if ours is None or theirs is None else ours - theirs),
            ]
        rows.append(tuple(row))
    called = "" if column == published else f" ({published})"
    model = MODELS[analysis.results.require_sweep().model]
    return Table(
        title=f"{column}: ours beside arXiv 2602.06717, {model}{called}, in percent",
        caption=caption(
            analysis,
            f"pass@k on {column} beside the figures of arXiv 2602.06717 for {model}, in percent",
            column,
        ),
        header=(*NAMES, *(f"{name} @{k}" for k in ks for name in ("ours", "paper", "difference"))),
        rows=tuple(rows),
        legend=marks_legend(content for row in rows for content in row[len(NAMES) :]),
        notes=(*footnotes(analysis, cells, column), *notes),
    )
