"""Draws: what two points answered to one problem, side by side, and why it was judged so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from dashboards.page import (
    Address,
    Control,
    Grid,
    Links,
    Page,
    Params,
    Row,
    Shade,
    control,
    parameters,
)
from dashboards.queries.draws import (
    OUTCOMES,
    answers,
    draws,
    is_gated,
    other_judgements,
    problem_text,
)
from dashboards.queries.forgetting import fates
from dashboards.queries.store import ks_of, points_of
from dashboards.text import shortened
from fgrpo_bench.results import PointResult, SweepResults

SHOWN = 10
"""Draws of a side on a page."""
ANSWERS = 12
"""Distinct answers of a side that are listed unless all are asked for."""
OPEN = 1_200
"""Characters up to which a draw is shown unfolded."""
ALL, FEW = "all", "few"
FINISHES = {ALL: "all", "stop": "ended by itself", "length": "cut off"}
NO_ANSWER = "(no answer found)"
WITHHELD = "The publisher of this benchmark asks that its texts are not shown to others."


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two points."""

    point: PointResult
    total: int
    correct: int
    matching: int
    """Draws that the filter lets through."""
    answers: Grid
    draws: list[dict[str, Any]]
    """Of this page: draw, outcome, extracted, reason, n_tokens, finish_reason, response,
    others (what other graders said), ..."""
    words: str
    """Why there is nothing to see; empty where there is."""


def build(results: SweepResults, params: Params, links: Links) -> Page:
    """The page; parameters: benchmark, problem, a, b, outcome, finish, answer, answers, min, max,
    page."""
    benchmark = params.one("benchmark", results.benchmarks, results.benchmarks[0])
    found = fates(results, benchmark, ks_of(results)[-1])
    problems, points = found.counts.problems, points_of(results)
    sorted_problems = [problems[i] for i in found.order("loss")]
    if not problems:
        return _nothing(results, benchmark)
    problem = params.one("problem", problems, sorted_problems[0])
    names = list(points)
    a = params.one("a", points, names[0])
    twin = [p.point_id for p in results.points if p.algorithm and p.seed == points[a].seed]
    b = params.one("b", points, twin[0] if twin else names[-1])
    outcome = params.one("outcome", [ALL, *OUTCOMES], ALL)
    finish = params.one("finish", FINISHES, ALL)
    low, high = params.number("min"), params.number("max")
    tables = {name: draws(points[name], benchmark, problem) for name in (a, b)}
    given = sorted(
        {word(value) for table in tables.values() for value in table["extracted"].to_list()}
    )
    answer = params.one("answer", [ALL, *given], ALL)
    listed = params.one("answers", [FEW, ALL], FEW)
    filters = [] if outcome == ALL else [pl.col("outcome") == outcome]
    filters += [] if finish == ALL else [pl.col("finish_reason") == finish]
    filters += [] if low is None else [pl.col("n_tokens") >= low]
    filters += [] if high is None else [pl.col("n_tokens") <= high]
    if answer != ALL:
        filters.append(pl.col("extracted").fill_null(NO_ANSWER) == answer)
    matching = {name: table.filter(*filters) for name, table in tables.items()}
    n_pages = max(1, *(-(-len(table) // SHOWN) for table in matching.values()))
    at = int(params.one("page", map(str, range(1, n_pages + 1)), "1"))
    defaults = {
        "benchmark": results.benchmarks[0], "outcome": ALL, "finish": ALL, "answer": ALL,
        "answers": FEW, "page": "1",
    }  # fmt: skip
    chosen = parameters(
        defaults, benchmark=benchmark, problem=problem, a=a, b=b, outcome=outcome, finish=finish,
        answer=answer, answers=listed, page=at, min=low, max=high,
    )  # fmt: skip
    address = Address(run=results.paths, view="draws", parameters=chosen)

    def choose(name: str, text: str, values: Mapping[str, str], now: str, long: bool) -> Control:
        return control(
            name, text, values, chosen=now, links=links, page=address, defaults=defaults,
            long=long, forget=("page", "answer") if name in ("problem", "a", "b") else ("page",),
        )  # fmt: skip

    ordered = {name: shortened(name, 60) for name in sorted_problems}
    by_name = {name: name for name in names}
    outcomes = {name: name for name in (ALL, *OUTCOMES)}
    controls = [
        choose("problem", "Problem, most forgotten first", ordered, problem, True),
        choose("a", "Left", by_name, a, True),
        choose("b", "Right", by_name, b, True),
        choose("outcome", "Outcome", outcomes, outcome, False),
        choose("finish", "Ending", FINISHES, finish, False),
    ]
    if any(len(answers(table)) > ANSWERS for table in tables.values()) and not links.is_static:
        lists = {FEW: f"{ANSWERS} a side", ALL: "all"}
        controls.append(choose("answers", "Answers listed", lists, listed, False))
    if len(results.benchmarks) > 1:
        named = {name: name for name in results.benchmarks}
        controls.insert(0, _benchmark(results, links, named, benchmark))
    gated = links.is_static and any(is_gated(results, points[name], benchmark) for name in (a, b))
    sides = [
        _side(
            points[name],
            tables[name],
            matching[name],
            at,
            address,
            links,
            gated,
            others=other_judgements(points[name], benchmark, problem),
            most=None if listed == ALL else ANSWERS,
        )
        for name in (a, b)
    ]
    text = problem_text(points[a], benchmark, problem)
    pages = {str(i): str(i) for i in range(1, n_pages + 1)}
    around = sorted_problems.index(problem)
    return Page(
        address=address,
        title=f"{benchmark}: draws of problem {shortened(problem, 60)}",
        lead="What the model answered, which answer was taken from it, and why it was judged so.",
        controls=tuple(one for one in controls if len(one.options) > 1),
        context={
            "sides": sides,
            "prompt": WITHHELD if gated else text.prompt,
            "gold": "" if gated else text.gold,
            "answer": None if answer == ALL else answer,
            "all_answers": _with(address, links, defaults, answer=ALL),
            "least": low,
            "most": high,
            "kept": [pair for pair in address.parameters if pair[0] not in ("min", "max", "page")],
            "pages": choose("page", "Page", pages, str(at), n_pages > 12) if n_pages > 1 else None,
            "before": _problem_link(address, links, defaults, sorted_problems, around - 1),
            "after": _problem_link(address, links, defaults, sorted_problems, around + 1),
            "open": OPEN,
        },
    )


def word(extracted: str | None) -> str:
    """An answer in words."""
    return NO_ANSWER if extracted is None else extracted


def _nothing(results: SweepResults, benchmark: str) -> Page:
    return Page(
        address=Address(run=results.paths, view="draws"),
        title=f"{benchmark}: no draws yet",
        lead="No point has results on this benchmark yet.",
        context={"sides": [], "prompt": "", "gold": "", "kept": [], "open": OPEN},
    )


def _benchmark(
    results: SweepResults, links: Links, named: Mapping[str, str], benchmark: str
) -> Control:
    """Another benchmark has other problems, so nothing else is kept."""
    page = Address(run=results.paths, view="draws")
    return control(
        "benchmark", "Benchmark", named, chosen=benchmark, links=links, page=page,
        defaults={"benchmark": results.benchmarks[0]},
    )  # fmt: skip


def _with(
    address: Address, links: Links, defaults: Mapping[str, str], **changed: str
) -> str | None:
    others = [pair for pair in address.parameters if pair[0] not in (*changed, "page")]
    own = parameters(defaults, **changed)
    return links.page(
        Address(run=address.run, view=address.view, parameters=tuple(sorted([*others, *own])))
    )


def _problem_link(
    address: Address, links: Links, defaults: Mapping[str, str], problems: list[str], at: int
) -> str | None:
    if not 0 <= at < len(problems):
        return None
    plain = Address(
        run=address.run,
        view=address.view,
        parameters=tuple(p for p in address.parameters if p[0] != "answer"),
    )
    return _with(plain, links, defaults, problem=problems[at])


def _side(
    point: PointResult,
    table: pl.DataFrame,
    matching: pl.DataFrame,
    at: int,
    address: Address,
    links: Links,
    gated: bool,
    *,
    others: pl.DataFrame,
    most: int | None,
) -> Side:
    words = "" if len(table) else "No draws of this problem are stored for this point yet."
    rows = matching.slice((at - 1) * SHOWN, SHOWN).to_dicts()
    for row in rows:
        row["outcome"] = row["outcome"] or "not graded"
        row["extracted"] = word(row["extracted"])
        row["others"] = [] if gated else others.filter(draw=row["draw"]).to_dicts()
        if gated:
            row |= {"response": WITHHELD, "extracted": "", "reason": ""}
    return Side(
        point=point,
        total=len(table),
        correct=int((table["outcome"] == "correct").sum()),
        matching=len(matching),
        answers=_answers(table, address, links, gated, most=most),
        draws=rows,
        words=words,
    )


def _answers(
    table: pl.DataFrame, address: Address, links: Links, gated: bool, *, most: int | None
) -> Grid:
    """most: answers that are listed, half of them right where there are so many; None is all."""
    found = answers(table)
    rows: list[Row] = []
    shown = found
    if most is not None:
        right = found.filter(pl.col("outcome") == "correct").head(most // 2)
        others = found.filter(pl.col("outcome").ne_missing("correct")).head(most - len(right))
        shown = pl.concat([right, others])
    for row in shown.iter_rows(named=True):
        given = word(row["extracted"])
        href = _with(address, links, {"answer": ALL}, answer=given)
        rows.append(
            (
                Shade(text="(not shown)" if gated else shortened(given, 60), href=href),
                Shade(text=row["outcome"] or "not graded", kind=row["outcome"] or ""),
                str(row["count"]),
                f"{row['tokens']:.0f}",
            )
        )
    more = len(found) - len(rows)
    return Grid(
        title=f"{len(found):,} distinct answers",
        header=("answer", "outcome", "draws", "tokens"),
        rows=tuple(rows),
        n_words=2,
        notes=(f"and {more:,} more",) if more else (),
    )
