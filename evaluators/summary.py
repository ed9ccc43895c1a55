"""The closing table of evaluations: pass@k by benchmark with bounds and the share unscored; and
IFEval's four scores: strict and loose, by prompt and by instruction, over stored grades."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from evaluators.stored import Stored
from fgrpo_bench.benchmarks import graders_of
from fgrpo_bench.documents.numbers import percent, with_interval
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.choice import guessing_floor
from fgrpo_bench.graders.ifeval import COUNTS
from fgrpo_bench.stats.intervals import FRACTIONS, estimate
from fgrpo_bench.tables import DRAWS, GRADES, PASSK, read_table, reading, scan_table


def closing_table(stored: Sequence[Stored]) -> str:
    """Lines for a terminal: a row a benchmark, grader and k, then where the files are."""
    rows = [row for each in stored for row in _rows(each)]
    table = Table(
        title="pass@k in percent [95% interval over problems]",
        header=(
            *("benchmark", "grader", "problems", "n", "k", "pass@k"),
            *("bounds", "unscored", "by guessing"),
        ),
        rows=tuple(rows),
        n_words=2,
    )
    lines = plain_table(_without_empty(table))
    if any(row[6] != NONE for row in rows):
        lines += ["", "Bounds: were all draws that the grader could not judge wrong, or all right."]
    for each in stored:
        path = each.paths.grades(grader_version(each.benchmark.grader))
        judged = each.benchmark.grader == "ifeval" and path.exists()
        if scores := levels(read_table(path, GRADES)) if judged else {}:
            lines += ["", level_line(each.benchmark.name, scores)]
    folders = dict.fromkeys(str(each.stage.folder) for each in stored)
    return "\n".join(["", *lines, "", *(f"files: {folder}" for folder in folders), ""])


def _rows(stored: Stored) -> Iterator[tuple[str, ...]]:
    for grader in graders_of(stored.benchmark):
        own = grader == stored.benchmark.grader
        version = grader_version(grader)
        path = stored.paths.passk if own else stored.paths.also_passk(version)
        if not path.exists():
            continue
        table = read_table(path, PASSK)
        yield from _of(table, stored, grader)


def _of(table: pl.DataFrame, stored: Stored, grader: str) -> Iterator[tuple[str, ...]]:
    n = drawn(stored.paths.draws)
    problems = table["problem_id"].n_unique()
    scored = int(table.unique("problem_id")["n_scored"].sum())
    unscored = 1 - scored / n if n else 0.0
    for k in table["k"].unique().sort():
        part = table.filter(pl.col("k") == k)
        values = part["pass_at_k"].fill_null(float("nan")).to_numpy()
        interval = estimate(values[None, :, None], limits=FRACTIONS)[0]
        low, high = (part[f"pass_at_k_{end}"].mean() for end in ("low", "high"))
        tight = not unscored or low is None or high is None
        yield (
            stored.benchmark.name,
            grader,
            str(problems),
            f"{n // max(problems, 1):,}",
            str(k),
            with_interval(interval.mean, interval.low, interval.high),
            NONE if tight else f"[{percent(low)}, {percent(high)}]",  # type: ignore[arg-type]
            f"{unscored:.2%}",
            percent(guessing_floor(k)) if grader == "choice" else NONE,
        )


def drawn(path: Path) -> int:
    """Number of stored draws, from the table's own header."""
    with reading(path):
        return int(scan_table(path, DRAWS).select(pl.len()).collect().item())


def _without_empty(table: Table) -> Table:
    """Without the columns in which nothing stands."""
    kept = [i for i in range(len(table.header)) if any(row[i] != NONE for row in table.rows)]
    return Table(
        title=table.title,
        header=tuple(table.header[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
        n_words=table.n_words,
    )


def levels(grades: pl.DataFrame) -> dict[str, float]:
    """Shares of the draws that were judged, or of their instructions; empty for other graders.

    grades: tables.GRADES.
    """
    counts = [
        (draws, *map(int, each.groups()))
        for reason, draws in grades.group_by("reason").len().drop_nulls().iter_rows()
        if (each := COUNTS.fullmatch(reason)) is not None
    ]
    if not counts:
        return {}
    judged = sum(draws for draws, *_ in counts)
    asked = sum(draws * of for draws, _, of, _ in counts)
    return {
        "prompt strict": sum(n for n, strict, of, _ in counts if strict == of) / judged,
        "prompt loose": sum(n for n, _, of, loose in counts if loose == of) / judged,
        "instruction strict": sum(n * strict for n, strict, _, _ in counts) / asked,
        "instruction loose": sum(n * loose for n, _, _, loose in counts) / asked,
    }


def level_line(name: str, scores: dict[str, float]) -> str:
    """e.g. `ifeval: prompt strict 77.22%, prompt loose 79.81%, ...`."""
    shares = ", ".join(f"{kind} {share:.2%}" for kind, share in scores.items())
    return f"{name}, over all judged draws: {shares}"
