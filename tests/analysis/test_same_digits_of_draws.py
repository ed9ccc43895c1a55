"""Every number of the pages Draws and Audit: what the analysis counts is the frame's own, and what
only the draws have is counted here once more, from the stored tables."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import polars as pl
import pytest

from dashboards.rendering import html
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table
from tests.analysis.test_same_digits import page, texts
from tests.support.dashboard import GRADER, Reader

BENCHMARKS = ("countdown", "other")
UNJUDGED, ABSENT = "grpo-n8-g0-s11", "grpo-n8-g1-s12"
"""Points: with draws that could not be judged, and without results."""
SHOWN = 10
RANK = {"correct": 0, "incorrect": 1}
"""Of the outcomes in the list of draws."""


def stored(analysis: Analysis, point_id: str, benchmark: str, grader: str = GRADER) -> pl.DataFrame:
    """Draws with what one grader said, as they stand in the files."""
    point = next(p for p in analysis.results.points if p.point_id == point_id)
    paths = point.evaluate.benchmark(benchmark)
    grades = read_table(paths.grades(grader), GRADES)
    return read_table(paths.draws, DRAWS).join(grades, on=["problem_id", "draw"])


def judged(analysis: Analysis, benchmark: str, **where: Any) -> pl.DataFrame:
    """point_id, n_scored and n_correct of its problems, by the frame."""
    own = analysis.problems.filter(benchmark=benchmark, **where)
    points = analysis.completeness.filter(benchmark=benchmark)
    return points.join(own, on=["cell", "seed"], maintain_order="left")


FILTERS: dict[str, Any] = {
    "all": {},
    "second page": {"page": 2},
    "an outcome": {"outcome": "correct"},
    "not judged": {"outcome": "unscored"},
    "cut off": {"finish": "length"},
    "an answer": {"answer": "answer 3"},
    "a length": {"min": 6, "max": 8},
}


def kept(draw: dict[str, Any], chosen: dict[str, Any]) -> bool:
    return (
        chosen.get("outcome", draw["outcome"]) == draw["outcome"]
        and chosen.get("finish", draw["finish_reason"]) == draw["finish_reason"]
        and chosen.get("answer", draw["extracted"]) == draw["extracted"]
        and chosen.get("min", 0) <= draw["n_tokens"] <= chosen.get("max", 99)
    )


@pytest.mark.slow
@pytest.mark.parametrize("chosen", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize(
    ("benchmark", "problem"), [("countdown", "p001"), ("countdown", "p003"), ("other", "p001")]
)
def test_draws_prints_the_counts_of_the_frame_and_the_draws_that_are_stored(
    mixed, benchmark, problem, chosen
):
    sides = ("base-s11", UNJUDGED)
    shown = page(
        mixed, "draws", benchmark=benchmark, problem=problem, a=sides[0], b=sides[1], **chosen
    )
    text = Reader(html(shown, [])).text
    frame = judged(mixed, benchmark, problem_id=problem)
    matching, expected = [], []
    start = SHOWN * (chosen.get("page", 1) - 1)
    for i, point in enumerate(sides):
        draws = stored(mixed, point, benchmark).filter(problem_id=problem).sort("draw").to_dicts()
        (own,) = frame.filter(point_id=point).to_dicts()
        words = f"{own['n_correct']} of {own['n_scored']} judged draws correct"
        if lacks := len(draws) - own["n_scored"]:
            words += f", {lacks} not judged"
        assert shown.context["sides"][i].counted == words and words in text
        draws.sort(key=lambda draw: (RANK.get(draw["outcome"], 2), draw["draw"]))
        matching.append([draw for draw in draws if kept(draw, chosen)])
        is_filtered = len(matching[-1]) < len(draws)
        told = f"{len(matching[-1])} of {len(draws)} draws match the filter."
        assert (told in text) == is_filtered or len(matching[0]) == len(matching[-1])
        expected += [
            (draw["draw"], draw["n_tokens"], draw["finish_reason"] == "length")
            for draw in matching[-1][start : start + SHOWN]
        ]
    listed = re.findall(r"draw (\d+), (\d+) tokens(, cut off)?", text)
    assert [(int(draw), int(tokens), bool(cut)) for draw, tokens, cut in listed] == expected
    (pages,) = [len(c.options) for c in shown.context["pages"]] or [1]
    assert pages == max(1, *(-(-len(own) // SHOWN) for own in matching))


@pytest.mark.parametrize("listed", ["few", "all"])
def test_draws_counts_every_distinct_answer(mixed, listed):
    sides = ("base-s11", UNJUDGED)
    shown = page(
        mixed,
        "draws",
        benchmark="countdown",
        problem="p001",
        a=sides[0],
        b=sides[1],
        answers=listed,
    )
    counts = [
        Counter(
            stored(mixed, each, "countdown")
            .filter(problem_id="p001")["extracted", "outcome"]
            .rows()
        )
        for each in sides
    ]
    expected = {
        (answer or "(no answer found)", outcome, tuple(each[answer, outcome] for each in counts))
        for answer, outcome in counts[0] | counts[1]
    }
    bars = shown.context["bars"]
    rows = {(row.text, row.outcome, row.counts) for row in bars.rows}
    assert bars.distinct == tuple(map(len, counts))
    assert rows <= expected and len(rows) == (len(expected) if listed == "all" else 10)
    assert bars.n_more == len(expected) - len(rows)
    longest = max(max(row.counts) for row in bars.rows)
    for row in bars.rows:
        assert row.widths == tuple(round(100 * n / longest, 1) for n in row.counts)


def test_draws_counts_nothing_as_right_that_the_analysis_does_not_have(mixed):
    shown = page(mixed, "draws", benchmark="other", problem="p001", b=ABSENT)
    assert shown.context["sides"][1].counted == "64 draws"
    assert "64 draws" in Reader(html(shown, [])).text


def share(count: int, of: int) -> str:
    return f"{count:,} ({count / of:.2%})" if count else "0"


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_audit_counts_what_the_frame_leaves_unjudged_and_what_was_cut_off(mixed, benchmark):
    grid, *_ = page(mixed, "audit", benchmark=benchmark).context["whole"]
    expected, unscored, drawn = [], Counter(), Counter()
    for row in mixed.completeness.filter(benchmark=benchmark, has_results=True).to_dicts():
        draws = stored(mixed, row["point_id"], benchmark)
        own = judged(mixed, benchmark).filter(point_id=row["point_id"])
        lacks, cut = len(draws) - own["n_scored"].sum(), draws.filter(finish_reason="length")
        counts = share(lacks, len(draws)), share(len(cut), len(draws))
        first = "p000" if lacks else ""
        expected.append([row["point_id"], f"{len(draws):,}", counts[0], first, counts[1], "p000"])
        unscored[row["cell"]] += lacks
        drawn[row["cell"]] += len(draws)
    assert texts(grid) == expected and len(expected) == 14
    assert sum(unscored.values()) == (12 if benchmark == "countdown" else 0)
    for row in mixed.estimates.filter(column=benchmark, k=1, is_chosen=True).to_dicts():
        assert unscored[row["cell"]] / drawn[row["cell"]] == pytest.approx(row["unscored"])


def test_audit_counts_where_graders_differ_and_the_points_of_every_engine(mixed):
    for benchmark in BENCHMARKS:
        _, graders, engines = page(mixed, "audit", benchmark=benchmark).context["whole"]
        own = mixed.completeness.filter(benchmark=benchmark).drop_nulls("engine")
        counts = Counter(own["engine"])
        assert [row[0] for row in texts(engines)] == [str(count) for count in counts.values()]
        assert len(counts) == (2 if benchmark == "countdown" else 1)
        if benchmark == "other":
            assert not graders.rows
    (row,) = texts(page(mixed, "audit", benchmark="countdown").context["whole"][1])
    pair = [stored(mixed, UNJUDGED, "countdown", grader) for grader in (GRADER, "second-2")]
    assert mixed.graders(["countdown"]) == (GRADER,)
    outcomes = list(
        zip(*(each.sort("problem_id", "draw")["outcome"] for each in pair), strict=True)
    )
    differing = [(one, other) for one, other in outcomes if one != other]
    alone = sum(other == "correct" for _, other in differing)
    assert 0 < alone < len(differing) < len(outcomes)
    assert row[:5] == [
        *(UNJUDGED, f"{GRADER}, second-2", f"{len(outcomes):,}"),
        *(share(len(differing), len(outcomes)), str(alone)),
    ]
