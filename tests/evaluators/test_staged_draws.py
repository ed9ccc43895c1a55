"""Draws of a staged design: which ones are made, whatever comes in between."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import count

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluators.engines import start_engines
from evaluators.grading import Grading
from evaluators.grading_processes import GradeWorkers
from evaluators.sample import complete_draws
from fgrpo_bench.analysis.scoring import count as counted
from fgrpo_bench.analysis.scoring import score
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.files.whole import noop
from fgrpo_bench.stages.stage import Stopped
from fgrpo_bench.stats.staged import StagedDesign
from tests.evaluators import fake_engine

DESIGN = StagedDesign(stages=(4, 8, 16), enough=2)
RIGHT, WRONG = "6*4", "1+1"


def problem(name: str) -> Problem:
    return Problem(
        benchmark="countdown", problem_id=name, prompt="?", target="64-24", grader="countdown"
    )


def backend_of(plan, most=None, order=0):
    def answer(request):
        return RIGHT if plan[request.problem.problem_id][request.draw] else WRONG

    return fake_engine.Answering(answer, most=most, order=order)


def run(folder, plan, backend, *, design=DESIGN, stop_after=None):
    """Table of draws and the grades of one evaluation; with stop_after it is stopped there."""
    paths, problems = BenchmarkPaths(folder), [problem(name) for name in plan]
    calls = count(1)
    with GradeWorkers(problems, workers=1) as workers:
        grading = Grading(paths, problems, "countdown", workers=workers, decides=True)

        def on_draws(done, of, draws):
            grading.add(draws)
            if stop_after is not None and next(calls) >= stop_after:
                raise Stopped("in the middle")

        table, made = complete_draws(
            paths,
            problems,
            design=design,
            grading=grading,
            seed=0,
            sampler=lambda: backend,
            on_draws=on_draws,
        )
        return table, made, grading.finish(table)


def stops_at(verdicts, design=DESIGN):
    """Draws of one problem, in so many words."""
    for stage in design.stages:
        if sum(verdicts[:stage]) >= design.enough:
            return stage
    return design.stages[-1]


PLAN = {
    "easy": [1] * 16,
    "hard": [0] * 16,
    "late": [0] * 7 + [1] * 9,
    "edge": [1] + [0] * 6 + [1] + [0] * 8,
}


def numbers(table):
    grouped = table.group_by("problem_id").agg(pl.col("draw").sort())
    return dict(grouped.iter_rows())


@pytest.mark.parametrize("most", [None, 1, 3, 40])
def test_a_problem_makes_the_draws_up_to_the_stage_at_which_enough_are_correct(tmp_path, most):
    backend = backend_of(PLAN, most)
    table, made, grades = run(tmp_path, PLAN, backend)
    assert numbers(table) == {name: list(range(stops_at(own))) for name, own in PLAN.items()}
    assert made == len(table) == len(backend.made) == len(set(backend.made))
    assert [stops_at(own) for own in PLAN.values()] == [4, 16, 16, 8]
    assert run(tmp_path, PLAN, backend_of(PLAN))[1] == 0  # a second time there is nothing to do
    counts = counted(grades, DESIGN)
    assert dict(counts.select("problem_id", "n_samples").iter_rows()) == {
        name: stops_at(own) for name, own in PLAN.items()
    }


@pytest.mark.slow
@settings(max_examples=25)
@example([[False] * 16] * 2, 1, 1)
@given(
    st.lists(st.lists(st.booleans(), min_size=16, max_size=16), min_size=1, max_size=4),
    st.sampled_from([None, 1, 2, 5]),
    st.integers(1, 6),
)
def test_stops_in_the_middle_and_any_order_ask_for_the_same_draws(
    tmp_path_factory, verdicts, most, stop_after
):
    folder = tmp_path_factory.mktemp("draws")
    plan = {f"p{i}": own for i, own in enumerate(verdicts)}
    made = []
    for again in range(31):
        backend = backend_of(plan, most, again)
        with suppress(Stopped):
            table, *_ = run(folder, plan, backend, stop_after=stop_after if again < 30 else None)
            break
        made += backend.made
    made += backend.made
    assert len(made) == len(set(made))
    assert numbers(table) == {name: list(range(stops_at(own))) for name, own in plan.items()}
    rest, *_ = run(folder / "whole", plan, backend_of(plan))
    assert table.sort("problem_id", "draw").equals(rest.sort("problem_id", "draw"))


@pytest.mark.slow
def test_several_engines_after_one_that_was_stopped_make_the_draws_of_one(tmp_path):
    """Processes as an evaluation starts them, each with an order in which its draws end."""
    plan = {f"{name}{i}": own for i in range(4) for name, own in PLAN.items()}
    undisturbed, *_ = run(tmp_path / "one", plan, fake_engine.planned(plan).draw)
    with pytest.raises(Stopped):
        run(tmp_path / "engines", plan, fake_engine.planned(plan).draw, stop_after=20)
    engines = start_engines(
        partial(fake_engine.planned, plan), engines=2, gpus_per_engine=0, at_once=5, check=noop
    )
    table, made, _ = run(tmp_path / "engines", plan, engines.draw)
    assert made == len(undisturbed) - 20 and table.equals(undisturbed)
    assert numbers(table) == {name: list(range(stops_at(own))) for name, own in plan.items()}


def test_more_stages_go_on_and_fewer_read_the_draws_that_are_there(tmp_path):
    run(tmp_path, PLAN, backend_of(PLAN))
    higher = StagedDesign(stages=(4, 8, 16), enough=3)
    table, made, grades = run(tmp_path, PLAN, backend_of(PLAN), design=higher)
    assert made == 8 and len(numbers(table)["edge"]) == 16
    lower = StagedDesign(stages=(4, 8), enough=2)
    again, made, grades = run(tmp_path, PLAN, backend_of(PLAN), design=lower)
    assert made == 0 and again.equals(table)
    assert counted(grades, lower)["n_samples"].to_list() == [4, 8, 8, 8]


def test_a_fixed_number_of_draws_is_used_as_far_as_it_goes(tmp_path):
    few = {name: own[:6] for name, own in PLAN.items()}
    fixed = StagedDesign(stages=(6,), enough=1)
    run(tmp_path, few, backend_of(few), design=fixed)
    backend = backend_of(PLAN)
    table, made, grades = run(tmp_path, PLAN, backend)
    assert len(numbers(table)["easy"]) == 6 and made == 2 + 10 + 10
    assert counted(grades, DESIGN)["n_samples"].to_list() == [4, 8, 16, 16]


def test_another_grader_is_followed_along_the_same_draws(tmp_path):
    """One that stops earlier uses fewer draws, one that would go on has no value."""
    *_, grades = run(tmp_path, PLAN, backend_of(PLAN))
    stricter = grades.with_columns(outcome=pl.lit("incorrect"))
    rows = score(counted(stricter, DESIGN), [1, 16], DESIGN)
    values = dict(rows.filter(k=16).select("problem_id", "pass_at_k").iter_rows())
    assert values == {"easy": None, "edge": None, "hard": 0.0, "late": 0.0}
    milder = grades.with_columns(outcome=pl.lit("correct"))
    assert counted(milder, DESIGN)["n_samples"].to_list() == [4] * 4


def test_a_draw_that_is_never_judged_ends_the_evaluation_and_does_not_hang(tmp_path):
    class Silent:
        def judge(self, draws):
            pass

        def wait(self):
            pass

        def correct(self, problem_id, n_draws):
            return None

    with pytest.raises(RuntimeError, match="draws of easy were never judged"):
        complete_draws(
            BenchmarkPaths(tmp_path),
            [problem("easy")],
            design=DESIGN,
            grading=Silent(),
            seed=0,
            sampler=lambda: backend_of(PLAN),
            on_draws=lambda done, of, draws: None,
        )
