"""The tables that every sweep has, beside the main ones."""

from __future__ import annotations

from collections.abc import Iterator

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.coverage import SURE, least_rate, surely_out
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.documents.numbers import (
    number,
    percent,
    percent_value,
    with_interval,
)
from fgrpo_bench.documents.table import (
    NONE,
    Content,
    Rows,
    Table,
    Value,
    explained,
    grid,
    with_best,
)
from fgrpo_bench.report.footnotes import BOLD, footnotes, rule_note
from fgrpo_bench.stages.watch import METRICS

NAMES = ("method", "N", "gamma")
FATES = ("retained", "lost", "gained", "neither", "surely_lost", "surely_gained")
"""Columns of the table of problems within reach."""


def names(cell: CellRow) -> tuple[str, str, str]:
    """Method, N and gamma, as every table names a cell."""
    if cell.group_size is None or cell.focal_gamma is None:
        return cell.method, NONE, NONE
    return cell.method, str(cell.group_size), f"{cell.focal_gamma:g}"


def interval_table(analysis: Analysis, column: str) -> Table:
    """pass@k on a benchmark or average at the smallest and the largest k with intervals."""
    cells = list(analysis.by_cell.values())
    rows: list[tuple[Content, ...]] = []
    for cell in cells:
        ends = [analysis.estimate(column, cell, k) for k in analysis.ends]
        values = [
            Value(
                text=with_interval(row.mean, row.low, row.high),
                incomplete=row.is_incomplete,
                redesigned=row.is_redesigned,
            )
            for row in ends
        ]
        rows.append((*names(cell), *((value,) for value in values), str(ends[0].n_seeds)))
    return Table(
        title=f"{column}: pass@k in percent with 95% intervals",
        header=(*NAMES, *(f"pass@{k}" for k in analysis.ends), "seeds"),
        rows=tuple(rows),
        notes=footnotes(analysis, cells, column),
        legend=explained(content for row in rows for content in row[len(NAMES) : -1]),
    )


def all_ks(analysis: Analysis, column: str) -> Table:
    """pass@k on a benchmark or average at every k, without intervals."""
    cells = list(analysis.by_cell.values())
    rows: Rows = {
        names(cell): {
            f"k={row.k}": (
                percent_value(row.mean, incomplete=row.is_incomplete, redesigned=row.is_redesigned),
            )
            for row in analysis.over_k(column, cell)
        }
        for cell in cells
    }
    bases = {names(cell) for cell in cells if cell.is_base}
    columns = [f"k={k}" for k in analysis.ks]
    marked = with_best(rows, columns=columns, among=lambda key: None if key in bases else 0)
    contents = [content for values in marked.values() for content in values.values()]
    return grid(
        title=f"{column}: pass@k in percent at every k",
        names=NAMES,
        columns=columns,
        rows=marked,
        notes=footnotes(analysis, cells, column),
        legend=(BOLD, *explained(contents)),
    )


def coverage_table(analysis: Analysis, column: str) -> Table | None:
    """Expected numbers of problems, mean over seeds, and those that are all but certain; None where
    no trained cell can be set against the base models."""
    k, cells = analysis.ks[-1], list(analysis.by_cell.values())
    rows = tuple(
        (
            *names(cell),
            *(f"{getattr(own, name):.1f}" for name in FATES),
            str(own.n_seeds),
        )
        for cell in cells
        if (own := analysis.covered(column, cell, k)) is not None
    )
    if not rows:
        return None
    return Table(
        title=f"{column}: problems within reach at k = {k}, against the base model",
        header=(*NAMES, *(name.replace("_", " ") for name in FATES), "seeds"),
        rows=rows,
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
    rows = [row for name in analysis.benchmarks_of(column) for row in analysis.of_column(name)]
    n = max(row.n_samples for row in rows if row.n_samples is not None)
    surely = surely_out(n_samples=n, k=analysis.ks[-1])
    if surely < SURE:
        yield (
            f"From {n} draws none can be surely lost or gained: even a problem without a correct "
            f"draw is out of reach with a probability of {surely:.2f} only."
        )


def training_table(analysis: Analysis) -> Table:
    """What a run of each cell learned from, and how much choice its policy was left with."""
    return Table(
        title="Training, mean over the runs of a cell",
        header=(*NAMES, "runs", "active groups, %", METRICS["entropy"].label),
        rows=tuple(
            (
                *names(cell),
                str(own.n_runs),
                NONE if own.active_fraction is None else percent(own.active_fraction),
                number(own.entropy, digits=3),
            )
            for cell in analysis.by_cell.values()
            if not cell.is_base and (own := analysis.costs.get(cell.cell)) is not None
        ),
        notes=(
            "Active: with an advantage that is not 0, mean over all steps. Entropy: over the last "
            "tenth of the steps.",
            rule_note(analysis),
        ),
    )


def compute_table(analysis: Analysis) -> Table:
    """What a run of each cell cost."""
    return Table(
        title="Compute, mean over the runs of a cell",
        header=(
            *(*NAMES, "runs", "rollouts", "tokens", "optimizer steps"),
            *("training CPU-s", "training GPU-s", "evaluation CPU-s"),
        ),
        rows=tuple(
            (
                *names(cell),
                str(own.n_runs),
                *map(number, (own.rollouts, own.tokens, own.optimizer_steps)),
                *(
                    number(seconds, digits=1)
                    for seconds in (
                        *(own.train_cpu_seconds, own.train_gpu_seconds),
                        own.evaluate_cpu_seconds,
                    )
                ),
            )
            for cell in analysis.by_cell.values()
            if (own := analysis.costs.get(cell.cell)) is not None
        ),
        notes=(rule_note(analysis),),
    )
