"""The report's tables as rows of finished text, and the CSV; nothing here knows a markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from fgrpo_bench.documents.numbers import (
    number,
    p_value,
    percent_value,
    points,
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
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.footnotes import BOLD, footnotes, is_incomplete
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.verdict import word

CSV = pl.Schema(
    {
        "sweep": pl.String,
        "experiment": pl.String,
        "model": pl.String,
        "method": pl.String,  # Base, GRPO, F-GRPO, ...
        "algorithm": pl.String,  # empty for Base, likewise group_size and focal_gamma
        "group_size": pl.Int64,
        "focal_gamma": pl.Float64,
        "step": pl.Int64,
        "benchmark": pl.String,  # or the name of an average of several
        "k": pl.Int64,
        "pass_at_k": pl.Float64,  # fraction; empty where nothing is done
        "ci_low": pl.Float64,  # of the 95% interval; empty likewise, and with one problem
        "ci_high": pl.Float64,
        "n_seeds": pl.Int64,
        "n_problems": pl.Int64,  # with a value for every seed
        "n_samples": pl.Int64,  # draws a problem; of an average the fewest
    }
)


NAMES = ("method", "N", "gamma")


def interval_table(summary: Summary, column: str) -> Table:
    """pass@k on a benchmark or average at the smallest and the largest k with intervals."""
    ends = sorted({0, len(summary.ks) - 1})

    def value(cell: Cell, end: int) -> Content:
        made = summary.estimates(column, cell)[end]
        lacking = made.mean is not None and is_incomplete(summary, cell, column, end)
        return (Value(text=with_interval(made.mean, made.low, made.high), incomplete=lacking),)

    made = {cell: [value(cell, end) for end in ends] for cell in summary.cells}
    return Table(
        title=f"{column}: pass@k in percent with 95% intervals",
        header=(*NAMES, *(f"pass@{summary.ks[end]}" for end in ends), "seeds"),
        rows=tuple(
            (*names(cell), *values, str(summary.estimates(column, cell)[0].n_seeds))
            for cell, values in made.items()
        ),
        notes=_notes(summary, column),
        legend=explained(content for values in made.values() for content in values),
    )


def all_ks(summary: Summary, column: str) -> Table:
    """pass@k on a benchmark or average at every k, without intervals."""
    rows: Rows = {
        names(cell): {
            f"k={k}": (
                percent_value(
                    made.mean,
                    incomplete=made.mean is not None and is_incomplete(summary, cell, column, i),
                ),
            )
            for i, (k, made) in enumerate(
                zip(summary.ks, summary.estimates(column, cell), strict=True)
            )
        }
        for cell in summary.cells
    }
    bases = {names(cell) for cell in summary.cells if cell.is_base}
    columns = [f"k={k}" for k in summary.ks]
    made = with_best(rows, columns=columns, among=lambda key: None if key in bases else 0)
    contents = [content for values in made.values() for content in values.values()]
    return grid(
        title=f"{column}: pass@k in percent at every k",
        names=NAMES,
        columns=columns,
        rows=made,
        notes=_notes(summary, column),
        legend=(BOLD, *explained(contents)),
    )


def _notes(summary: Summary, column: str) -> tuple[str, ...]:
    benchmarks = summary.averages.get(column, (column,))
    return tuple(footnotes(summary, summary.cells, benchmarks))


def comparison_table(summary: Summary, comparisons: Sequence[Comparison], benchmark: str) -> Table:
    """Every difference on a benchmark or average with its interval, the single seeds and the
    verdict."""
    rows = []
    for one in comparisons:
        if one.benchmark == benchmark:
            d = one.difference
            rows.append(
                (
                    one.pair.group,
                    one.pair.name,
                    str(one.k),
                    points(d.mean),
                    NONE if d.low is None else f"[{points(d.low)}, {points(d.high)}]",
                    ", ".join(points(value) for value in d.by_seed),
                    f"{one.agreeing} of {d.n_seeds}",
                    *map(p_value, (d.p_value, one.p_holm, one.p_bh, one.p_draws)),
                    word(one),
                )
            )
    return Table(
        title=f"{benchmark}: differences in percentage points",
        header=(
            *("comparison", "", "k", "difference", "95% interval"),
            *("by seed", "seeds of that sign", "p", "p Holm", "p BH", "p draws", "verdict"),
        ),
        rows=tuple(rows),
        n_words=2,
        notes=_notes(summary, benchmark),
    )


def compute_table(summary: Summary) -> Table:
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
                str(summary.compute[cell].n_runs),
                number(summary.compute[cell].rollouts),
                number(summary.compute[cell].tokens),
                number(summary.compute[cell].optimizer_steps),
                number(summary.compute[cell].train_cpu_seconds, digits=1),
                number(summary.compute[cell].train_gpu_seconds, digits=1),
                number(summary.compute[cell].evaluate_cpu_seconds, digits=1),
            )
            for cell in summary.cells
        ),
    )


def csv(summary: Summary) -> str:
    """One row a cell and k of every benchmark and average (the schema CSV)."""
    return csv_text(csv_rows(summary))


def csv_rows(summary: Summary) -> pl.DataFrame:
    """The same as a frame, unrounded."""
    return pl.DataFrame(list(_csv_rows(summary)), schema=CSV, orient="row")


def csv_text(rows: pl.DataFrame) -> str:
    """Fractions to 12 digits after the point: those behind depend on how many threads added up."""
    return rows.with_columns(pl.col(pl.Float64).round(12)).write_csv()


def _csv_rows(summary: Summary) -> Iterator[tuple[object, ...]]:
    results = summary.results
    for column in summary.columns:
        benchmarks = summary.averages.get(column, (column,))
        for cell in summary.cells:
            drawn = [summary.scores[benchmark, cell].n_samples for benchmark in benchmarks]
            n_samples = min((n for n in drawn if n is not None), default=None)
            for k, made in zip(summary.ks, summary.estimates(column, cell), strict=True):
                yield (
                    *(results.paths.sweep, results.paths.experiment, results.model, cell.method),
                    *(cell.algorithm, cell.group_size, cell.focal_gamma, cell.step, column, k),
                    *(made.mean, made.low, made.high),
                    *(made.n_seeds, made.n_problems, n_samples),
                )


def names(cell: Cell) -> tuple[str, str, str]:
    """Method, N and gamma, as every table names a cell."""
    if cell.group_size is None or cell.focal_gamma is None:
        return cell.method, NONE, NONE
    return cell.method, str(cell.group_size), f"{cell.focal_gamma:g}"
