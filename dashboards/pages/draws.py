"""Draws: what two points answered to one problem, side by side, and why it was judged so; opens on
the cells that the sweep compares and the problem that the second gained most over the first.

In: stored draws, grades and problems, and what the page was asked for. Out: a Page; and links to
draws for the other pages. Next: fgrpo_bench.stages.tables has the columns of draws and grades.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import polars as pl

from dashboards.page import LONGEST_TEXT, Address, Form, Given, Page, choices
from dashboards.pages import maze
from dashboards.pages.pairs import in_front
from dashboards.pages.problems import problem_summaries, problem_text
from dashboards.queries import (
    DrawCounts,
    ProblemOutcomes,
    by_gain,
    checkpoints_by_name,
    load_analysis,
    problem_outcomes,
)
from dashboards.text import shortened
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.analysis.rows import make_cell
from fgrpo_bench.documents.table import percent
from fgrpo_bench.graders import SOLUTIONS, split_version
from fgrpo_bench.specs.cell import BASE
from fgrpo_bench.stages.tables import DRAWS, GRADES, reading, scan_table

SHOWN = 10
"""Draws of a side on a page."""
OPEN = 1_200
"""Characters up to which a draw is shown unfolded."""
ONE_LINE_CHARS = 60
"""Characters up to which it is a row of one line."""
ALL, FEW = "all", "few"
ELSEWHERE = ("page", "answer")
"""Parameters that mean nothing for another problem or point."""
ORDERS = {"right": "correct ones first", "draw": "as they were drawn"}
FINISHES = {ALL: "all", "stop": "ended by itself", "length": "cut off"}
ANSWERS = 10
"""Answers that are listed unless all are asked for."""
NO_ANSWER = "(no answer found)"
JUDGED = ("outcome", "extracted", "reason", "grader_version")
OUTCOMES = ("correct", "incorrect", "unscored")


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
    empty_reason: str
    """Why there is nothing to see; empty where there is."""


def build(results: Results, given: Given) -> Page:
    """The page; parameters: benchmark, problem, a, b, outcome, finish, answer, answers, text, min,
    max, page."""
    form = Form(results.address, "draws", given)
    benchmark = form.value("benchmark", results.benchmarks)
    fates = _fates(results, benchmark)
    points = checkpoints_by_name(results)
    left, right = _compared_checkpoints(results, fates)
    a = form.named("a", points, left)
    b = form.named("b", points, right)
    order_label, problems = _problems(results, benchmark, fates, a, b)
    if not problems:
        return _nothing(results, benchmark)
    problem = form.named("problem", problems, problems[0])
    outcome, finish = form.value("outcome", [ALL, *OUTCOMES]), form.value("finish", FINISHES)
    low, high, searched = form.number("min"), form.number("max"), form.text("text")
    tables = {name: draws(points[name], benchmark, problem) for name in (a, b)}
    answers = {value for table in tables.values() for value in table["answer"].to_list()}
    answer = form.value("answer", [ALL, *sorted(answers)])
    listed = form.value("answers", [FEW, ALL])
    order = form.value("order", ORDERS)
    filters = [] if outcome == ALL else [pl.col("outcome") == outcome]
    filters += [] if finish == ALL else [pl.col("finish_reason") == finish]
    filters += [] if low is None else [pl.col("n_tokens") >= low]
    filters += [] if high is None else [pl.col("n_tokens") <= high]
    filters += [pl.col("response").str.contains(searched, literal=True)] if searched else []
    if answer != ALL:
        filters.append(pl.col("answer") == answer)
    matching = {name: _ordered(table.filter(*filters), order) for name, table in tables.items()}
    n_pages = max(1, *(-(-len(table) // SHOWN) for table in matching.values()))
    at = int(form.value("page", range(1, n_pages + 1)))
    texts = problem_summaries(results, benchmark)
    labels = {name: checkpoint_label(point) for name, point in points.items()}
    controls = [
        form.control(
            "problem", f"Problem, {order_label}",
            {name: shortened(texts.get(name, name), 60) for name in problems},
            long=True, forgotten=ELSEWHERE,
        ),
        form.control("a", "Left", labels, long=True, forgotten=ELSEWHERE),
        form.control("b", "Right", labels, long=True, forgotten=ELSEWHERE),
    ]  # fmt: skip
    filtering = [
        form.control("outcome", "Outcome", forgotten=["page"]),
        form.control("finish", "Ending", FINISHES, forgotten=["page"]),
        form.control("order", "Order", ORDERS, forgotten=["page"]),
    ]
    bars = _distribution(tables[a], tables[b], form, every=listed == ALL)
    if bars.n_more or listed == ALL:
        lists = {FEW: f"{ANSWERS}", ALL: "all"}
        filtering.append(form.control("answers", "Answers listed", lists, forgotten=["page"]))
    # another benchmark has other problems, so nothing else is kept
    elsewhere = Form(results.address, "draws", given)
    elsewhere.value("benchmark", results.benchmarks)
    text = problem_text(points[a], benchmark, problem)
    declared = results.evaluation["benchmarks"][benchmark] or {}
    is_maze = declared.get("grader") in maze.GRADERS
    grid = text.gold if is_maze else ""
    sides = [
        _side(
            points[name],
            tables[name],
            matching[name].slice((at - 1) * SHOWN, SHOWN),
            len(matching[name]),
            counts=None if fates is None else fates.counts(points[name], problem),
            others=_other_judgements(points[name], benchmark, problem),
            grid=grid,
        )
        for name in (a, b)
    ]
    place = problems.index(problem)

    def problem_link(at: int) -> str | None:
        """None before the first problem and behind the last."""
        if not 0 <= at < len(problems):
            return None
        return form.address(*ELSEWHERE, problem=problems[at]).href

    return Page(
        address=form.address(),
        title=f"{benchmark}: {texts.get(problem) or f'problem {shortened(problem, 60)}'}",
        lead=f"{_rates(fates, points[a], points[b], problem)}Problem {shortened(problem, 60)}, "
        f"{place + 1} of {len(problems)}, {order_label}.",
        controls=choices(elsewhere.control("benchmark", "Benchmark"), *controls, *filtering),
        context={
            "n_places": len(choices(elsewhere.control("benchmark", "Benchmark"), *controls)),
            "bars": bars,
            "one_line": ONE_LINE_CHARS,
            "sides": sides,
            "prompt": text.prompt,
            "is_said": bool(text.right),
            "gold": "" if grid else text.right or text.gold,
            "picture": maze.picture(grid) if grid else "",
            "answer": None if answer == ALL else answer,
            "all_answers": form.address("page", answer=ALL).href,
            "lengths": _lengths(low, high),
            "searched": searched,
            "longest_text": LONGEST_TEXT,
            "all_texts": form.address("text", "min", "max", "page").href,
            "least": low,
            "most": high,
            "kept": form.address("text", "min", "max", "page").parameters,
            "pages": choices(form.control("page", "Page", long=n_pages > 12)),
            "before": problem_link(place - 1),
            "after": problem_link(place + 1),
            "open": OPEN,
        },
    )


def _fates(results: Results, benchmark: str) -> ProblemOutcomes | None:
    """None where damaged files leave no analysis, which the other pages say."""
    try:
        return problem_outcomes(results, benchmark, results.evaluation["ks"][-1])
    except ValueError:
        return None


def _problems(
    results: Results,
    benchmark: str,
    fates: ProblemOutcomes | None,
    left: str,
    right: str,
) -> tuple[str, list[str]]:
    """The order in words, and the problems: by their gain from the left to the right; where one of
    them has no results by what training lost, and by name without an analysis."""
    if fates is None:
        tables = [
            checkpoint.passk(benchmark).select("problem_id") for checkpoint in results.checkpoints
        ]
        return "by name", pl.concat(tables)["problem_id"].unique().sort().to_list()
    gained = by_gain(results, benchmark, left, right)
    if gained:
        k = results.evaluation["ks"][-1]
        return f"largest gain in pass@{k} first", gained
    return "most forgotten first", [fates.problems[i] for i in fates.order("loss")]


def _rates(
    fates: ProblemOutcomes | None,
    left: EvaluatedCheckpoint,
    right: EvaluatedCheckpoint,
    problem: str,
) -> str:
    """A sentence of both success rates; empty where one is not known."""
    if fates is None:
        return ""
    old, new = (fates.rate(checkpoint, problem) for checkpoint in (left, right))
    if isnan(old) or isnan(new):
        return ""
    return (
        f"{checkpoint_label(right)} solves it in {percent(new)}% of its draws, "
        f"{checkpoint_label(left)} in {percent(old)}%. "
    )


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
        address=_draws_address(results, benchmark),
        title=f"{benchmark}: no draws yet",
        lead="No point has results on this benchmark yet.",
        context={"sides": [], "n_places": 0},
    )


def _side(
    checkpoint: EvaluatedCheckpoint,
    table: pl.DataFrame,
    shown: pl.DataFrame,
    n_matching: int,
    *,
    counts: DrawCounts | None,
    others: pl.DataFrame,
    grid: str,
) -> Side:
    """shown: draws of this page. grid: the maze that they walk in; empty where it is none."""
    rows = shown.to_dicts()
    for row in rows:
        row["outcome"] = row["outcome"] or "not graded"
        row["extracted"] = word(row["extracted"])
        row["others"] = others.filter(draw=row["draw"]).to_dicts()
        row["picture"] = maze.picture(grid, row["response"]) if grid else ""
    n_drawn = None if counts is None else counts.n_drawn
    stop = n_drawn if n_drawn is not None and n_drawn < len(table) else None
    return Side(
        checkpoint=checkpoint,
        name=checkpoint_label(checkpoint),
        total=len(table),
        counted=counts_text(counts, len(table), stop),
        stop=stop,
        matching=n_matching,
        draws=rows,
        empty_reason=""
        if len(table)
        else "No draws of this problem are stored for this point yet.",
    )


@dataclass(frozen=True, kw_only=True)
class Bars:
    """One answer with its outcome."""

    text: str
    outcome: str
    counts: tuple[int, int]
    """Draws of the left and the right point that gave it."""
    widths: tuple[float, float]
    """Percent of the longest bar."""
    href: str
    """The draws that gave it."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The answers of both points."""

    rows: tuple[Bars, ...]
    """Right ones first, each group by how often it was given."""
    distinct: tuple[int, int]
    n_more: int
    """Answers that are not listed."""


def word(extracted: str | None) -> str:
    """An answer in words."""
    return NO_ANSWER if extracted is None else extracted


def _distribution(
    left: pl.DataFrame, right: pl.DataFrame, form: Form, *, every: bool
) -> Distribution:
    """left, right: draws of a point. every: not only ANSWERS, of which at most half are right."""
    counts: dict[tuple[str, str], list[int]] = {}
    for side, table in enumerate((left, right)):
        for row in answers(table).iter_rows(named=True):
            key = row["answer"], row["outcome"] or "not graded"
            counts.setdefault(key, [0, 0])[side] += row["count"]
    ordered = sorted(counts, key=lambda key: (key[1] != "correct", -sum(counts[key]), key))
    listed = ordered if every else list(_few(ordered))
    longest = max((max(counts[key]) for key in listed), default=1)
    rows = []
    for text, outcome in listed:
        n_left, n_right = counts[text, outcome]
        rows.append(
            Bars(
                text=shortened(text, 40),
                outcome=outcome,
                counts=(n_left, n_right),
                widths=(round(100 * n_left / longest, 1), round(100 * n_right / longest, 1)),
                href=form.address("page", answer=text).href,
            )
        )
    return Distribution(
        rows=tuple(rows),
        distinct=(sum(a > 0 for a, _ in counts.values()), sum(b > 0 for _, b in counts.values())),
        n_more=len(ordered) - len(listed),
    )


def _few(ordered: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    right = [key for key in ordered if key[1] == "correct"]
    others = [key for key in ordered if key[1] != "correct"]
    # Half of the places for wrong answers, so that what went wrong is seen, if there are so many.
    n_right = max(ANSWERS // 2, ANSWERS - len(others))
    yield from right[:n_right]
    yield from others[: ANSWERS - len(right[:n_right])]


def counts_text(counts: DrawCounts | None, total: int, stop: int | None) -> str:
    """How many draws there are and count, in words. total: stored ones."""
    if counts is None or not total:
        return f"{total} draws"
    text = f"{counts.n_correct} of {counts.n_scored} judged draws correct"
    not_judged = (total if stop is None else stop) - counts.n_scored
    if counts.n_drawn is None:
        return f"{text}; the next run of the sweep makes more, which its judgements ask for"
    if not_judged > 0:
        text += f", {not_judged} not judged"
    return text if stop is None else f"{text}; stopped after {stop} of {total} stored draws"


def _compared_checkpoints(results: Results, fates: ProblemOutcomes | None) -> tuple[str, str]:
    """What the page of draws opens on: the two cells that say most of the sweep's question, or a
    base model and the first run, of a seed that both have. fates: None without an analysis."""
    pair = None if fates is None else in_front(load_analysis(results))
    points = {
        (checkpoint.label, checkpoint.seed): checkpoint.name for checkpoint in results.checkpoints
    }
    first = next(
        (checkpoint.label for checkpoint in results.checkpoints if checkpoint.label != BASE), BASE
    )
    old, new = (BASE, first) if pair is None else (pair.old, pair.new)
    for cell, seed in points:
        if cell == old and (new, seed) in points:
            return points[old, seed], points[new, seed]
    every = list(points.values())
    return every[0], every[-1]


def checkpoint_label(checkpoint: EvaluatedCheckpoint) -> str:
    """e.g. `GRPO N=8, seed 11`; without a seed the label alone."""
    row = make_cell(
        checkpoint.cell,
        label=checkpoint.label,
        title=checkpoint.title,
        step=checkpoint.step,
        n_planned=1,
    )
    return row.label if checkpoint.seed is None else f"{row.label}, seed {checkpoint.seed}"


def draws_link(
    results: Results,
    *,
    benchmark: str,
    problem: str,
    checkpoint: EvaluatedCheckpoint,
    **more: str,
) -> str:
    """The page of a problem's draws: the base model of a checkpoint's seed beside it."""
    base = _base_names(results).get(checkpoint.seed, results.checkpoints[0].name)
    chosen = {"problem": problem, "a": base, "b": checkpoint.name, **more}
    return _draws_address(results, benchmark, **chosen).href


def _base_names(results: Results) -> dict[int | None, str]:
    """Names of the base models by seed."""
    return {
        checkpoint.seed: checkpoint.name
        for checkpoint in results.checkpoints
        if checkpoint.label == BASE
    }


def _draws_address(results: Results, benchmark: str, **chosen: str) -> Address:
    """A page of draws, by its parameters beside the benchmark."""
    parameters = {} if benchmark == results.benchmarks[0] else {"benchmark": benchmark}
    pairs = tuple(sorted((parameters | chosen).items()))
    return Address(run=results.address, view="draws", parameters=pairs)


def draws_clicks(
    results: Results,
    *,
    benchmark: str,
    problems: Sequence[str],
    checkpoints: Sequence[EvaluatedCheckpoint],
) -> dict[str, Any]:
    """Chart.clicks of a heat map with a row a problem and a column a checkpoint."""
    bases = _base_names(results)
    pairs = [
        [bases.get(checkpoint.seed, checkpoint.name), checkpoint.name] for checkpoint in checkpoints
    ]
    href = _draws_address(results, benchmark).href
    return {"href": href, "problems": list(problems), "points": pairs}


def grades_version(checkpoint: EvaluatedCheckpoint, benchmark: str) -> str | None:
    """The version of the grader behind a point's pass@k, where its grades are there."""
    if checkpoint.results_on(benchmark) is None:
        return None
    version = checkpoint.evaluated().evaluation_target.graders.get(benchmark)
    return version if version in layers(checkpoint, benchmark) else None


def layers(checkpoint: EvaluatedCheckpoint, benchmark: str) -> list[str]:
    """Versions of graders whose grades are stored."""
    folder = checkpoint.evaluate.benchmark(benchmark).folder
    paths = sorted(folder.glob("grades.*.parquet")) if folder.is_dir() else []
    return [path.name.removeprefix("grades.").removesuffix(".parquet") for path in paths]


def draws(checkpoint: EvaluatedCheckpoint, benchmark: str, problem: str) -> pl.DataFrame:
    """Draws of a problem (tables.DRAWS) with outcome, extracted, reason and grader_version, and the
    answer that they count for; sorted by draw. No rows where they are not complete, nulls where
    they are not graded."""
    paths = checkpoint.evaluate.benchmark(benchmark)
    empty = pl.LazyFrame(schema=dict(DRAWS) | {name: GRADES[name] for name in JUDGED})
    if not paths.draws.exists():
        return with_answers(empty.collect())
    is_problem = pl.col("problem_id") == problem
    problem_draws = scan_table(paths.draws, DRAWS).filter(is_problem)
    version = grades_version(checkpoint, benchmark)
    grades, files = empty.select("draw", *JUDGED), [paths.draws]
    if version is not None:
        files.append(paths.grades(version))
        grades = scan_table(files[-1], GRADES).filter(is_problem).select("draw", *JUDGED)
    with reading(*files):
        return with_answers(
            problem_draws.join(grades, on="draw", how="left").sort("draw").collect()
        )


def with_answers(table: pl.DataFrame) -> pl.DataFrame:
    """Draws with their answer: what was extracted, and of a right one of several the solution that
    it is (fgrpo_bench.graders.SOLUTIONS)."""
    answers = []
    for extracted, outcome, version in table.select(
        "extracted", "outcome", "grader_version"
    ).iter_rows():
        solution = SOLUTIONS.get(split_version(version or "")[0])
        if solution is not None and extracted is not None and outcome == "correct":
            answers.append(solution(extracted))
        else:
            answers.append(word(extracted))
    return table.with_columns(pl.Series("answer", answers, pl.String))


def _other_judgements(
    checkpoint: EvaluatedCheckpoint, benchmark: str, problem: str
) -> pl.DataFrame:
    """What graders beside that of `draws` said of a problem's draws: draw, outcome, reason and
    grader_version."""
    main = grades_version(checkpoint, benchmark)
    columns = ("draw", "outcome", "reason", "grader_version")
    paths = checkpoint.evaluate.benchmark(benchmark)
    files = [paths.grades(version) for version in layers(checkpoint, benchmark) if version != main]
    frames = [scan_table(path, GRADES).filter(problem_id=problem) for path in files]
    with reading(*files):
        return pl.concat([pl.LazyFrame(schema=GRADES), *frames]).select(columns).collect()


def answers(frame: pl.DataFrame) -> pl.DataFrame:
    """Distinct answers with their outcome and count, the right ones first, each
    group by frequency."""
    return (
        frame.lazy()
        .group_by("answer", "outcome")
        .agg(count=pl.len().cast(pl.Int64), tokens=pl.col("n_tokens").mean())
        .sort(
            pl.col("outcome") == "correct",
            "count",
            "answer",
            "outcome",
            descending=[True, True, False, False],
            nulls_last=True,
        )
        .collect()
    )
