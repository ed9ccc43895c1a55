"""Draws: what two points answered to one problem, side by side, and why it was judged so; opens on
the cells that the sweep compares and the problem that training lost most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from dashboards.form import LONGEST_TEXT, Form, Given, choices
from dashboards.page import Links, Page, run_of
from dashboards.pages import maze
from dashboards.pages.draws_answers import ANSWERS, NO_ANSWER, counted, distribution, word
from dashboards.pages.draws_links import compared_checkpoints, draws_address, label_of
from dashboards.queries.analysis import Counts, Fates, fates_of
from dashboards.queries.draws import (
    OUTCOMES,
    draws,
    is_gated,
    other_judgements,
)
from dashboards.queries.problems import problem_text, words_of
from dashboards.queries.store import checkpoints_of
from dashboards.text import shortened
from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results

SHOWN = 10
"""Draws of a side on a page."""
OPEN = 1_200
"""Characters up to which a draw is shown unfolded."""
ONE_LINE = 60
"""Characters up to which it is a row of one line."""
ALL, FEW = "all", "few"
ELSEWHERE = ("page", "answer")
"""Parameters that mean nothing for another problem or point."""
ORDERS = {"right": "correct ones first", "draw": "as they were drawn"}
FINISHES = {ALL: "all", "stop": "ended by itself", "length": "cut off"}
WITHHELD = "The publisher of this benchmark asks that its texts are not shown to others."


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two checkpoints."""

    checkpoint: EvaluatedCheckpoint
    name: str
    total: int
    """Stored draws."""
    counted: str
    """How many there are and count, in words."""
    stop: int | None
    """Draws from this index on do not count, because the problem stopped; None where all do."""
    matching: int
    """Draws that the filter lets through."""
    draws: list[dict[str, Any]]
    """Of this page: draw, outcome, extracted, reason, n_tokens, finish_reason, response,
    others (what other graders said), picture (of its walk in a maze), ..."""
    words: str
    """Why there is nothing to see; empty where there is."""


def build(results: Results, given: Given, links: Links) -> Page:
    """The page; parameters: benchmark, problem, a, b, outcome, finish, answer, answers, text, min,
    max, page."""
    form = Form(run_of(results), "draws", given, links)
    benchmark = form.value("benchmark", results.benchmarks)
    fates = _fates(results, benchmark)
    sorting, problems = _problems(results, benchmark, fates)
    points = checkpoints_of(results)
    if not problems:
        return _nothing(results, benchmark)
    problem = form.named("problem", problems, problems[0])
    left, right = compared_checkpoints(results, fates)
    a = form.named("a", points, left)
    b = form.named("b", points, right)
    outcome, finish = form.value("outcome", [ALL, *OUTCOMES]), form.value("finish", FINISHES)
    low, high, searched = form.number("min"), form.number("max"), form.text("text")
    tables = {name: draws(points[name], benchmark, problem) for name in (a, b)}
    known = {word(value) for table in tables.values() for value in table["extracted"].to_list()}
    answer = form.value("answer", [ALL, *sorted(known)])
    listed = form.value("answers", [FEW, ALL])
    order = form.value("order", ORDERS)
    gated = links.is_static and any(is_gated(results, points[name], benchmark) for name in (a, b))
    filters = [] if outcome == ALL else [pl.col("outcome") == outcome]
    filters += [] if finish == ALL else [pl.col("finish_reason") == finish]
    filters += [] if low is None else [pl.col("n_tokens") >= low]
    filters += [] if high is None else [pl.col("n_tokens") <= high]
    if searched and not gated:  # what matches would tell what the texts hold
        filters.append(pl.col("response").str.contains(searched, literal=True))
    if answer != ALL:
        filters.append(pl.col("extracted").fill_null(NO_ANSWER) == answer)
    matching = {name: _ordered(table.filter(*filters), order) for name, table in tables.items()}
    n_pages = max(1, *(-(-len(table) // SHOWN) for table in matching.values()))
    at = int(form.value("page", range(1, n_pages + 1)))
    words = words_of(results, benchmark, withheld=gated)
    labels = {name: label_of(point) for name, point in points.items()}
    controls = [
        form.control(
            "problem", sorting, {name: shortened(words.get(name, name), 60) for name in problems},
            long=True, forgotten=ELSEWHERE,
        ),
        form.control("a", "Left", labels, long=True, forgotten=ELSEWHERE),
        form.control("b", "Right", labels, long=True, forgotten=ELSEWHERE),
    ]  # fmt: skip
    filtering = [
        form.control("outcome", "Outcome", forgotten=["page"]),
        form.control("finish", "Ending", FINISHES, forgotten=["page"]),
    ]
    bars = distribution(tables[a], tables[b], form, links, gated=gated, every=listed == ALL)
    if not links.is_static:
        filtering.append(form.control("order", "Order", ORDERS, forgotten=["page"]))
        if bars.n_more or listed == ALL:
            lists = {FEW: f"{ANSWERS}", ALL: "all"}
            filtering.append(form.control("answers", "Answers listed", lists, forgotten=["page"]))
    # another benchmark has other problems, so nothing else is kept
    elsewhere = Form(run_of(results), "draws", given, links)
    elsewhere.value("benchmark", results.benchmarks)
    text = problem_text(points[a], benchmark, problem)
    declared = results.evaluation["benchmarks"][benchmark] or {}
    is_maze = declared.get("grader") in maze.GRADERS
    grid = text.gold if is_maze and not gated else ""
    sides = [
        _side(
            points[name],
            tables[name],
            matching[name].slice((at - 1) * SHOWN, SHOWN),
            len(matching[name]),
            gated,
            counts=None if fates is None else fates.counts(points[name], problem),
            others=other_judgements(points[name], benchmark, problem),
            grid=grid,
        )
        for name in (a, b)
    ]
    place = problems.index(problem)
    around = {
        where: links.page(form.address(*ELSEWHERE, problem=problems[i]))
        for where, i in (("before", place - 1), ("after", place + 1))
        if 0 <= i < len(problems)
    }
    return Page(
        address=form.address(),
        title=f"{benchmark}: {words.get(problem) or f'problem {shortened(problem, 60)}'}",
        lead=f"Problem {shortened(problem, 60)}, {place + 1} of {len(problems)}, {sorting[9:]}.",
        controls=choices(elsewhere.control("benchmark", "Benchmark"), *controls, *filtering),
        context={
            "n_places": len(choices(elsewhere.control("benchmark", "Benchmark"), *controls)),
            "bars": bars,
            "one_line": ONE_LINE,
            "sides": sides,
            "prompt": WITHHELD if gated else text.prompt,
            "gold": "" if gated or grid else text.gold,
            "picture": maze.picture(grid) if grid else "",
            "answer": None if answer == ALL else answer,
            "all_answers": links.page(form.address("page", answer=ALL)),
            "lengths": _lengths(low, high),
            "searched": searched,
            "longest_text": LONGEST_TEXT,
            "all_texts": links.page(form.address("text", "min", "max", "page")),
            "least": low,
            "most": high,
            "kept": form.address("text", "min", "max", "page").parameters,
            "pages": choices(form.control("page", "Page", long=n_pages > 12)),
            "before": around.get("before"),
            "after": around.get("after"),
            "open": OPEN,
        },
    )


def _fates(results: Results, benchmark: str) -> Fates | None:
    """None where damaged files leave no analysis, which the other pages say."""
    try:
        return fates_of(results, benchmark, results.evaluation["ks"][-1])
    except ValueError:
        return None


def _problems(results: Results, benchmark: str, fates: Fates | None) -> tuple[str, list[str]]:
    """The order in words, and the problems: those that training lost most first, or by name without
    an analysis."""
    if fates is None:
        tables = [each.passk(benchmark).select("problem_id") for each in results.checkpoints]
        return "Problem, by name", pl.concat(tables)["problem_id"].unique().sort().to_list()
    ordered = [fates.problems[i] for i in fates.order("loss")]
    return "Problem, most forgotten first", ordered


def _lengths(low: int | None, high: int | None) -> str:
    """The lengths that the filter lets through; empty where it lets all."""
    if low is None and high is None:
        return ""
    if high is None:
        return f"{low} and more"
    return f"at most {high}" if low is None else f"{low} to {high}"


def _ordered(table: pl.DataFrame, order: str) -> pl.DataFrame:
    """table: sorted by draw."""
    rank = pl.col("outcome").replace_strict({"correct": 0, "incorrect": 1}, default=2)
    return table if order == "draw" else table.sort(rank, "draw")


def _nothing(results: Results, benchmark: str) -> Page:
    return Page(
        address=draws_address(results, benchmark),
        title=f"{benchmark}: no draws yet",
        lead="No point has results on this benchmark yet.",
        context={"sides": [], "n_places": 0},
    )


def _side(
    checkpoint: EvaluatedCheckpoint,
    table: pl.DataFrame,
    shown: pl.DataFrame,
    n_matching: int,
    gated: bool,
    *,
    counts: Counts | None,
    others: pl.DataFrame,
    grid: str,
) -> Side:
    """shown: draws of this page. grid: the maze that they walk in; empty where it is none."""
    rows = shown.to_dicts()
    for row in rows:
        row["outcome"] = row["outcome"] or "not graded"
        row["extracted"] = word(row["extracted"])
        row["others"] = [] if gated else others.filter(draw=row["draw"]).to_dicts()
        row["picture"] = maze.picture(grid, row["response"]) if grid else ""
        if gated:
            row |= {"response": WITHHELD, "extracted": "", "reason": ""}
    drawn = None if counts is None else counts.n_drawn
    stop = drawn if drawn is not None and drawn < len(table) else None
    return Side(
        checkpoint=checkpoint,
        name=label_of(checkpoint),
        total=len(table),
        counted=counted(counts, len(table), stop),
        stop=stop,
        matching=n_matching,
        draws=rows,
        words="" if len(table) else "No draws of this problem are stored for this point yet.",
    )
