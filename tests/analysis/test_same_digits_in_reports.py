"""Every number of a report is the frames' own: read off its Markdown and looked up in a frame. HTML
and LaTeX say what the Markdown says."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
import pytest

from fgrpo_bench.report.build import render
from fgrpo_bench.report.captions import spaced
from fgrpo_bench.report.narrative import effect
from tests.analysis.test_same_digits import COLUMNS, KS, p_value, unfinished
from tests.report.conftest import drawing_plainly
from tests.support.html import Cells

Rows = list[list[str]]


@pytest.fixture(scope="module")
def tables(mixed) -> dict[str, Rows]:
    """The body of every table of the Markdown, without marks, by title."""
    text = "".join(render(mixed, kind) for kind in ("md", "md-appendix"))
    parts = re.split(r"^## ", text, flags=re.M)
    return {title: rows for title, rows in map(read, parts) if rows}


def read(part: str) -> tuple[str, Rows]:
    title, _, text = part.partition("\n")
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    return title, [[bare(cell) for cell in re.split(r"(?<!\\) \| ", line[2:-2])] for line in lines]


def bare(cell: str) -> str:
    return re.sub(r"\*\*|</?ins>|†", "", cell).replace("\\<", "<").strip()


def percent(value: float | None, sign: str = "") -> str:
    return "-" if value is None else f"{100 * value:{sign}.1f}"


def named(row: dict[str, Any]) -> list[str]:
    if row["group_size"] is None:
        return [row["method"], "-", "-"]
    return [row["method"], str(row["group_size"]), f"{row['focal_gamma']:g}"]


def of_cells(mixed, frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows with the columns of their cells, in the order of these."""
    return mixed.cells.drop("step").join(frame, on="cell", maintain_order="left").to_dicts()


@pytest.mark.parametrize("column", COLUMNS)
def test_estimates_stand_with_their_intervals_and_at_every_k(mixed, tables, column):
    frame = mixed.estimates.filter(column=column, is_chosen=True)
    at = {k: of_cells(mixed, frame.filter(k=k)) for k in KS}
    assert tables[f"{column}: pass@k in percent with 95% intervals"] == [
        [
            *named(first),
            *(f"{percent(r['mean'])} [{percent(r['low'])}, {percent(r['high'])}]" for r in ends),
            *unfinished(first),
            str(len(first["seeds"])),
        ]
        for first, *_ in zip(at[1], strict=True)
        for ends in [[first, next(r for r in at[32] if r["cell"] == first["cell"])]]
    ]
    assert tables[f"{column}: pass@k in percent at every k"] == [
        [*named(rows[0]), *(percent(row["mean"]) for row in rows)]
        for rows in zip(*at.values(), strict=True)
    ]


def test_the_main_table_has_both_ends_of_every_column(mixed, tables):
    frame = mixed.estimates.filter(is_chosen=True)
    expected = [
        [
            *named(row),
            *(
                " / ".join(
                    percent(frame.filter(column=column, k=k, cell=row["cell"])["mean"].item())
                    for k in (1, 32)
                )
                for column in COLUMNS
            ),
            *(
                " to ".join(dict.fromkeys([min(shares), max(shares)]))
                for shares in zip(
                    *map(unfinished, frame.filter(k=1, cell=row["cell"]).to_dicts()), strict=True
                )
            ),
        ]
        for row in mixed.cells.to_dicts()
    ]
    assert sorted(tables["Group size: pass@1 / pass@32 in percent"]) == sorted(expected)


@pytest.mark.parametrize("column", COLUMNS)
def test_differences_are_the_asked_pairs_of_the_frame(mixed, tables, column):
    asked = mixed.comparisons.filter(pl.col("group").is_not_null(), column=column)
    assert tables[f"{column}: differences in percentage points"] == [
        [
            *(row["group"], row["name"], str(row["k"]), percent(row["difference"], "+")),
            f"[{percent(row['low'], '+')}, {percent(row['high'], '+')}]",
            ", ".join(percent(value, "+") for value in row["by_seed"]),
            f"{sum(one * row['difference'] > 0 for one in row['by_seed'])} of {len(row['seeds'])}",
            *(p_value(row[name]) for name in ("p", "p_holm", "p_bh", "p_draws")),
            row["verdict"],
        ]
        for row in asked.filter(pl.col("k").is_in([1, 32])).to_dicts()
    ]


@pytest.mark.parametrize("column", COLUMNS)
def test_losses_over_k_and_problems_within_reach_are_those_of_the_frames(mixed, tables, column):
    losses = mixed.first_loss.filter(column=column)
    pairs = mixed.comparisons.filter(column=column, k=32).select("new", "old", "group", "name")
    assert tables[f"{column}: over all k at once"] == [
        [
            *(row["group"], row["name"], row["words"]),
            *("-" if row[end] is None else str(row[end]) for end in ("low", "high")),
        ]
        for row in losses.join(pairs, on=["new", "old"], maintain_order="left").to_dicts()
    ]
    title = f"{column}: problems within reach at k = 32, against the base model"
    fates = ("retained", "lost", "gained", "neither", "surely_lost", "surely_gained")
    assert tables[title] == [
        [*named(row), *(f"{row[fate]:.1f}" for fate in fates), str(row["n_seeds"])]
        for row in of_cells(mixed, mixed.coverage.filter(column=column, k=32))
    ]


def test_the_front_stands_where_the_question_is_and_training_is_that_of_the_runs(mixed, tables):
    labels = {name: cell.label for name, cell in mixed.by_cell.items()}
    fronts = [title for title in tables if title.endswith("the front of pass@1 and pass@32")]
    assert fronts == [f"{COLUMNS[0]}: the front of pass@1 and pass@32"]
    asked = mixed.front.filter(column=COLUMNS[0]).drop_nulls("is_on_front")
    rows = {row["cell"]: row for row in of_cells(mixed, asked) if row["is_on_front"] is not None}
    assert tables[fronts[0]] == [
        [
            *named(row),
            "not dominated" if row["is_on_front"] else "dominated",
            ", ".join(labels[name] for name in row["dominated_by"]) or "-",
        ]
        for row in rows.values()
    ]
    assert set(rows) == {"grpo-n8-g0", "grpo-n8-g0.5", "grpo-n8-g1"}
    assert tables["Training, mean over the runs of a cell"] == [
        [
            *named(row),
            str(row["n_runs"]),
            percent(row["active_fraction"]),
            f"{row['entropy']:.3f}",
        ]
        for row in of_cells(mixed, mixed.cost.filter(is_chosen=True))
        if row["cell"] != "base"
    ]


def test_compute_is_that_of_the_chosen_checkpoints(mixed, tables):
    whole, seconds = (
        ("n_runs", "rollouts", "tokens", "optimizer_steps"),
        (*("train_cpu_seconds", "train_gpu_seconds", "evaluate_cpu_seconds"),),
    )
    assert tables["Compute, mean over the runs of a cell"] == [
        [
            *named(row),
            *("-" if row[name] is None else f"{row[name]:,.0f}" for name in whole),
            *("-" if row[name] is None else f"{row[name]:,.1f}" for name in seconds),
        ]
        for row in of_cells(mixed, mixed.cost.filter(is_chosen=True))
    ]


def test_html_and_latex_say_what_the_markdown_says(mixed, tables):
    with drawing_plainly():
        texts = [render(mixed, kind) for kind in ("html", "html-appendix")]
    page = [body for text in texts for body in Cells(text).tables]
    shown = [[[bare(cell.replace("†", "")) for cell in row] for row in body] for body in page]
    assert shown == list(tables.values())
    latex = render(mixed, "latex") + render(mixed, "latex-appendix")
    bodies = re.findall(r"\\midrule\n(.*?)\\bottomrule", latex, flags=re.S)
    heads = re.findall(r"\\caption\{(.*?)\}\\label\{tab:(.*?)\}", latex)
    assert len(heads) == len(bodies) > 8
    titles = {slug(title): title for title in tables}
    n_differences = 0
    for (caption, label), body in zip(heads, bodies, strict=True):
        rows = [line.removesuffix(r" \\").split(" & ") for line in body.splitlines() if line]
        told = [[of_latex(cell) for cell in row] for row in rows]
        if parts := re.fullmatch(r"(.*-differences)(-\d+-of-\d+)?(-in-percentage-points)", label):
            every = tables[titles[parts[1] + parts[3]]]
            group = re.search(r" \((.*)\), in percentage points", of_latex(caption))[1]
            own = [row[1:] for row in every if spaced(row[0]) == group]
            said = [i for i in range(len(own[0])) if any(row[i] != "-" for row in own)]
            assert told == [[row[i] for i in said] for row in own]
            n_differences += len(told)
            continue
        title = titles[label]
        assert told == without_zeros(tables[title], len(told[0])), title
        if "differences that the question is about" in title:
            assert told == of_question(mixed, title.partition(": ")[0])
    whole = [
        rows for title, rows in tables.items() if title.endswith("differences in percentage points")
    ]
    assert n_differences == sum(map(len, whole)) > 0


def slug(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.partition(",")[0].lower()))


def of_question(mixed, column: str) -> Rows:
    """The rows of a column's family, as a paper's table has them."""
    return [
        [
            f"{row['group']}: {row['name']}",
            str(row["k"]),
            f"{percent(row['difference'], '+')} "
            f"[{percent(row['low'], '+')}, {percent(row['high'], '+')}]",
            p_value(row["p_holm"]),
            row["verdict"],
        ]
        for row in mixed.comparisons.filter(column=column).to_dicts()
        if row["family"] is not None
    ]


def without_zeros(rows: Rows, n_columns: int) -> Rows:
    """A table of the Markdown as a paper has it: without columns of zeros, where it has fewer."""
    kept = [
        i
        for i in range(len(rows[0]))
        if len(rows[0]) == n_columns or any(row[i].strip("0.") for row in rows)
    ]
    return [[row[i] for i in kept] for row in rows]


PLAIN = (
    ("$N$", "N"),
    (r"$\gamma$", "gamma"),
    (r"\%", "%"),
    (r"\_", "_"),
    ("--", "-"),
    (r"\textless{}", "<"),
)
"""Symbols of LaTeX and what the Markdown has in their place."""


def of_latex(cell: str) -> str:
    text = cell
    for _ in ("bold", "underlined within"):
        text = re.sub(r"\\(?:textbf|underline)\{([^{}]*)\}", r"\1", text)
    for tex, plain in (*PLAIN, (r"$^\dagger$", ""), ("$-$", "-"), ("{[}", "[")):
        text = text.replace(tex, plain)
    return text


def test_the_csv_is_the_frame(mixed):
    frame = pl.read_csv(render(mixed, "csv").encode())
    own = mixed.estimates.filter("is_chosen")
    for ours, theirs in {"pass_at_k": "mean", "ci_low": "low", "ci_high": "high"}.items():
        assert frame[ours].to_list() == [round(value, 12) for value in own[theirs]]
    assert frame["benchmark"].to_list() == own["column"].to_list()
    assert frame["k"].to_list() == own["k"].to_list()


def test_every_difference_of_the_answer_is_an_asked_one(mixed):
    text = render(mixed, "md").partition("## Differences")[2].partition("## Over")[0]
    told = set(re.findall(r"\(([+-][\d.]+ \[[^\]]+\], \d of \d seeds)\)", text))
    assert told <= {effect(row) for row in mixed.question_rows if row.column in mixed.headline}
    assert len(told) > 5
