"""What a reviewer would ask about stored draws and their grades; changes nothing.

The comparison with plain math-verify judges the whole response against the gold as published, in
processes that can be killed; it takes every draw or, past a limit, an even part of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from fgrpo_bench.analysis.by_value import DEFAULT_COLUMNS, partition
from fgrpo_bench.core.problems import BY_PLACE
from fgrpo_bench.data import problem_columns
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.documents.terminal import plain, plain_table
from fgrpo_bench.graders import BOXED, CHOICE
from fgrpo_bench.graders.choice_reading import WEAK
from fgrpo_bench.graders.judge import default_judge
from fgrpo_bench.graders.judge_worker import by_math_verify
from fgrpo_bench.graders.math import (
    DECIMALS_LENIENCY,
    LENIENCIES,
    last_box,
    leniencies,
    spoken,
)
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table

from .stored import StoredDraws, level_line, levels

EXAMPLES, TAIL = 3, 160
"""Draws shown of a kind, and the last characters of each."""
COMPARED = 2_000
"""Most draws that are judged by plain math-verify too."""
TaskRow = dict[str, str | int]
"""task, problems, draws, correct and unscored draws."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Draws of one kind."""

    kind: str
    count: int
    of: int
    """Draws that were looked at."""
    examples: tuple[str, ...]
    """Problem and draw, and unless the benchmark is gated the end of the response."""

    @property
    def share(self) -> str:
        """e.g. `12 of 4,096 (0.29%)`."""
        part = f" ({self.count / self.of:.2%})" if self.of else ""
        return f"{self.count:,} of {self.of:,}{part}"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What there is to say of one layer of grades."""

    benchmark: str
    grader_version: str
    draws: int
    problems: int
    distinct_answers: int
    """Different extracted answers, summed over the problems."""
    findings: tuple[Finding, ...]
    tasks: tuple[TaskRow, ...]
    """Counts by task; empty for a benchmark without tasks."""
    levels: dict[str, float]
    """IFEval's four scores; empty for other graders."""

    def as_json(self) -> dict[str, Any]:
        """Plain types, with the share of distinct answers."""
        share = self.distinct_answers / self.draws if self.draws else None
        return asdict(self) | {"distinct_share": share}


def audit(stored: StoredDraws, *, compared: int = COMPARED) -> list[Audit]:
    """One audit a layer of grades. compared: most draws to judge by plain math-verify."""
    draws = read_table(stored.paths.draws, DRAWS)
    golds = stored.golds()
    layers = sorted(stored.paths.folder.glob("grades.*.parquet"))
    return [_audit(stored, draws, golds, read_table(path, GRADES), compared) for path in layers]


def _audit(
    stored: StoredDraws,
    draws: pl.DataFrame,
    golds: dict[str, str],
    grades: pl.DataFrame,
    compared: int,
) -> Audit:
    table = draws.join(grades, on=["problem_id", "draw"], maintain_order="left")
    version = str(grades["grader_version"][0]) if len(grades) else "none"
    grader = re.sub(r"-\d+$", "", version)
    right = table.filter(pl.col("outcome") == "correct")
    kinds = [
        ("unscored", table, pl.col("outcome") == "unscored"),
        ("correct, of which by its place alone", right, pl.col("reason").str.ends_with(BY_PLACE)),
    ]
    if not table["finish_reason"].null_count():  # else it is not known, which is not 0
        is_cut = pl.col("finish_reason") == "length"
        kinds.append(("cut off at the longest response", table, is_cut))
        kinds.append(("correct, of which cut off", right, is_cut))
    if grader in BOXED:
        boxed = [last_box(spoken(text)) is not None for text in table["response"]]
        table = table.with_columns(pl.Series("boxed", boxed, dtype=pl.Boolean))
        kinds.append(("without a box", table, ~pl.col("boxed")))
        table = table.with_columns(_passed_over(table, golds))
        for kind in (*LENIENCIES, DECIMALS_LENIENCY):
            rule = pl.col("passed_over").list.contains(kind)
            kinds.append((f"correct, passing over {kind}", table, rule))
        part = table.gather_every(max(-(-len(table) // compared), 1)) if compared else table.clear()
        part = part.with_columns(pl.Series("plain", list(_plain(part, golds)), dtype=pl.String))
        otherwise = pl.col("plain") != pl.col("outcome")
        kinds.append(("judged otherwise by plain math-verify", part, otherwise))
    if grader in CHOICE:
        kinds.append(("without a letter", table, pl.col("extracted").is_null()))
        for kind in WEAK:
            rule = (pl.col("outcome") == "correct") & pl.col("reason").str.ends_with(kind)
            kinds.append((f"correct, but only {kind}", table, rule))
    distinct = table.filter(pl.col("extracted").is_not_null())
    return Audit(
        benchmark=stored.benchmark.name,
        grader_version=version,
        draws=len(table),
        problems=table["problem_id"].n_unique(),
        distinct_answers=distinct.select("problem_id", "extracted").n_unique(),
        tasks=tuple(_by_task(stored, grades)),
        levels=levels(grades),
        findings=tuple(_finding(stored, *entry) for entry in kinds),
    )


def _finding(stored: StoredDraws, kind: str, frame: pl.DataFrame, rule: pl.Expr) -> Finding:
    """How many draws of a frame are of a kind, with examples that lie evenly among them."""
    draws = frame.filter(rule)
    examples = tuple(_example(row, stored.gated) for row in _spread(draws))
    return Finding(kind=kind, count=len(draws), of=len(frame), examples=examples)


def _passed_over(table: pl.DataFrame, golds: dict[str, str]) -> pl.Series:
    """What of correct answers decided nothing, by kind."""
    columns = table.select("problem_id", "outcome", "extracted", "reason")
    kinds = [
        leniencies(golds[name], answer, reason) if outcome == "correct" and answer else []
        for name, outcome, answer, reason in columns.iter_rows()
    ]
    return pl.Series("passed_over", kinds, dtype=pl.List(pl.String))


def _plain(part: pl.DataFrame, golds: dict[str, str]) -> Iterator[str]:
    """Outcomes by math-verify on the whole response."""
    judge = default_judge()
    for name, response in part.select("problem_id", "response").iter_rows():
        verdict = judge.verdict(golds[name], response, boxed=False)
        yield by_math_verify(verdict.outcome, verdict.reason)


def _spread(draws: pl.DataFrame) -> list[dict[str, Any]]:
    """Some rows, of different problems where there are."""
    return draws.unique("problem_id", keep="first", maintain_order=True).head(EXAMPLES).to_dicts()


def _example(row: dict[str, Any], gated: bool) -> str:
    place = f"{row['problem_id']}, draw {row['draw']}"
    if gated:
        return place
    text = plain(row["response"])
    end = text if len(text) <= TAIL else f"... {text[-TAIL:]}"
    judged = f"; {row['outcome']}, {row['reason']}" + (
        f"; plain math-verify: {row['plain']}" if row.get("plain") else ""
    )
    return f"{place}{judged}; it ends: {end}"


def _by_task(stored: StoredDraws, grades: pl.DataFrame) -> list[TaskRow]:
    """Counts by task, in the order of their names; empty for a benchmark without tasks.

    grades: tables.GRADES.
    """
    benchmark, data = stored.benchmark, stored.spec.data_folder(stored.benchmark.name)
    column = DEFAULT_COLUMNS.get("" if benchmark.dataset is None else benchmark.dataset.layout)
    if column is None or data is None:
        return []
    columns = problem_columns(data)
    tasks = partition(
        columns, column, stored.problems_with_draws(), benchmark.name
    ).value_by_problem
    return (
        grades.with_columns(task=pl.col("problem_id").replace_strict(tasks, default=None))
        .drop_nulls("task")
        .group_by("task")
        .agg(
            problems=pl.col("problem_id").n_unique(),
            draws=pl.len(),
            correct=(pl.col("outcome") == "correct").sum(),
            unscored=(pl.col("outcome") == "unscored").sum(),
        )
        .sort("task")
        .to_dicts()
    )


def _task_table(name: str, rows: list[TaskRow]) -> Table:
    """The counts as shares of the draws."""
    lines = []
    for row in rows:
        counts = [str(row["task"]), str(row["problems"]), f"{row['draws']:,}"]
        for kind in ("correct", "unscored"):
            counts.append(f"{int(row[kind]) / int(row['draws']):.2%}")
        lines.append(tuple(counts))
    return Table(
        title=f"{name}, task by task: share of the draws",
        header=("task", "problems", "draws", "correct", "unscored"),
        rows=tuple(lines),
    )


def render(audits: list[Audit]) -> str:
    """Tables and examples for a terminal."""
    kinds = list(dict.fromkeys(f.kind for report in audits for f in report.findings))
    table = Table(
        title="Share of the draws",
        header=("benchmark", "grader", "draws", *kinds, "distinct answers"),
        rows=tuple(_row(report, kinds) for report in audits),
        n_labels=2,
    )
    lines = _turned(table)
    for report in audits:
        title = f"{report.benchmark}, {report.grader_version}"
        if report.levels:
            lines += ["", level_line(title, report.levels)]
        if report.tasks:
            lines += ["", *plain_table(_task_table(title, list(report.tasks)))]
        for finding in report.findings:
            if finding.examples:
                lines += ["", f"{title}: {finding.kind}"]
                lines += [f"  - {example}" for example in finding.examples]
    return "\n".join([*lines, ""])


def _row(report: Audit, kinds: list[str]) -> tuple[str, ...]:
    shares = {finding.kind: finding.share for finding in report.findings}
    share = report.distinct_answers / report.draws if report.draws else 0.0
    return (
        report.benchmark,
        report.grader_version,
        f"{report.draws:,}",
        *(shares.get(kind, NONE) for kind in kinds),
        f"{report.distinct_answers:,} ({share:.2%})",
    )


def _turned(table: Table) -> list[str]:
    """The table with a row a question, which fits a screen whatever the number of them."""
    columns = [table.header, *table.rows]
    rows = tuple(zip(*columns, strict=True))
    return plain_table(Table(title=table.title, header=rows[0], rows=rows[1:], n_labels=1))
