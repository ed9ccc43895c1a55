"""The report's tables as rows of finished text, and the CSV; nothing here knows a markup."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from fgrpo_bench.graders.choice import guessing_floor
from fgrpo_bench.intervals import Estimate
from fgrpo_bench.report.comparisons import Comparison
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.verdict import points, word

NONE = "-"
"""What stands where there is no value."""

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
        "benchmark": pl.String,
        "k": pl.Int64,
        "pass_at_k": pl.Float64,  # fraction; empty where nothing is done
        "ci_low": pl.Float64,  # of the 95% interval; empty likewise, and with one problem
        "ci_high": pl.Float64,
        "n_seeds": pl.Int64,
        "n_problems": pl.Int64,  # with a value for every seed
        "n_samples": pl.Int64,  # draws a problem
    }
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells of plain text; the first `n_words` columns are words, the others numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    n_words: int = 1
    notes: tuple[str, ...] = ()
    """Sentences below the table."""


def main_table(summary: Summary, benchmark: str) -> Table:
    """pass@k at the smallest and the largest k with intervals, one row a method and N."""
    ends = sorted({0, len(summary.ks) - 1})
    bounded = [_bounded(summary, benchmark, cell, end) for cell in summary.cells for end in ends]
    notes = (_guessed(summary, benchmark, ends), *bounded)
    return Table(
        title=f"{benchmark}: pass@k in percent with 95% intervals",
        header=("method", "N", "gamma", *(f"pass@{summary.ks[end]}" for end in ends), "seeds"),
        rows=tuple(
            (
                *names(cell),
                *(with_interval(summary.scores[benchmark, cell].estimates[end]) for end in ends),
                str(len(summary.scores[benchmark, cell].seeds)),
            )
            for cell in summary.cells
        ),
        notes=tuple(note for note in notes if note),
    )


def _guessed(summary: Summary, benchmark: str, ends: Sequence[int]) -> str:
    """What guessing alone gives where a problem has choices; empty elsewhere."""
    evaluation = summary.results.declaration["declaration"]["experiment"]["evaluation"]
    if evaluation["benchmarks"][benchmark]["grader"] != "choice":
        return ""
    floors = (f"pass@{k} {percent(guessing_floor(k))}" for k in (summary.ks[end] for end in ends))
    return f"By guessing alone: {', '.join(floors)}."


def _bounded(summary: Summary, benchmark: str, cell: Cell, end: int) -> str:
    """What unscored draws leave open of a value; empty where that is less than the table shows."""
    scores = summary.scores[benchmark, cell]
    bounds = scores.bounds[end]
    if bounds is None or percent(bounds[0]) == percent(bounds[1]):
        return ""
    return (
        f"{cell.label}, pass@{summary.ks[end]}: {scores.unscored:.2%} of the draws could not be "
        f"judged; were all of them wrong or all right, it would be {percent(bounds[0])} or "
        f"{percent(bounds[1])}."
    )


def all_ks(summary: Summary, benchmark: str) -> Table:
    """pass@k at every k, without intervals."""
    return Table(
        title=f"{benchmark}: pass@k in percent at every k",
        header=("method", "N", "gamma", *(f"k={k}" for k in summary.ks)),
        rows=tuple(
            (*names(cell), *(percent(e.mean) for e in summary.scores[benchmark, cell].estimates))
            for cell in summary.cells
        ),
    )


def comparison_table(comparisons: Sequence[Comparison], benchmark: str) -> Table:
    """Every difference with its interval, the single seeds and the verdict."""
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
    )


def compute_table(summary: Summary) -> Table:
    """What a run of each cell cost."""
    return Table(
        title="Compute, mean over the runs of a cell",
        header=(
            *("method", "N", "gamma", "runs", "rollouts", "tokens", "optimizer steps"),
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
    """One row a cell and k (the schema CSV), fractions with all their digits."""
    return pl.DataFrame(list(_csv_rows(summary)), schema=CSV, orient="row").write_csv()


def _csv_rows(summary: Summary) -> Iterator[tuple[object, ...]]:
    results = summary.results
    for benchmark in results.benchmarks:
        for cell in summary.cells:
            scores = summary.scores[benchmark, cell]
            for k, made in zip(summary.ks, scores.estimates, strict=True):
                yield (
                    *(results.paths.sweep, results.paths.experiment, results.model, cell.method),
                    *(cell.algorithm, cell.group_size, cell.focal_gamma, cell.step, benchmark, k),
                    *(made.mean, made.low, made.high),
                    *(made.n_seeds, made.n_problems, scores.n_samples),
                )


def names(cell: Cell) -> tuple[str, str, str]:
    """Method, N and gamma, as every table names a cell."""
    if cell.group_size is None or cell.focal_gamma is None:
        return cell.method, NONE, NONE
    return cell.method, str(cell.group_size), f"{cell.focal_gamma:g}"


def percent(value: float | None) -> str:
    """A fraction in percent, one decimal."""
    return NONE if value is None else f"{100 * value:.1f}"


def with_interval(made: Estimate) -> str:
    """e.g. `25.8 [21.3, 30.8]`, in percent."""
    if made.low is None:
        return percent(made.mean)
    return f"{percent(made.mean)} [{percent(made.low)}, {percent(made.high)}]"


def p_value(value: float | None) -> str:
    """Three digits after the point, or that it is less."""
    return NONE if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def number(value: float | None, *, digits: int = 0) -> str:
    """A number with thousands separators."""
    return NONE if value is None else f"{value:,.{digits}f}"
