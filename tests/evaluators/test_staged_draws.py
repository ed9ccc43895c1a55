"""Draws of a staged design: which ones are made, whatever comes in between."""

from __future__ import annotations

from functools import partial
from itertools import count

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evaluators.engines import start_engines
from evaluators.grading import GradeWorkers, Grading
from evaluators.records import RequestQueue, drawn
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


class Planned:
    """A back end that answers by a plan of right and wrong draws, `most` of them at once."""

    def __init__(self, plan, most=None, shuffled=0):
        self.plan, self.most, self.asked = plan, most, []
        self.order = np.random.default_rng(shuffled)

    def __call__(self, wanted):
        waiting, flying = RequestQueue(wanted), []
        while True:
            flying += waiting.take(None if self.most is None else self.most - len(flying))
            if not flying:
                assert waiting.ended
                return
            ended = [
                flying.pop(self.order.integers(len(flying))) for _ in range(1 + len(flying) // 2)
            ]
            self.asked += [(each.problem.problem_id, each.draw) for each in ended]
            yield [
                drawn(
                    each,
                    RIGHT if self.plan[each.problem.problem_id][each.draw] else WRONG,
                    n_tokens=3,
                    end_token=1,
                )
                for each in ended
            ]


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
            n_samples=design.stages[-1],
            seed=0,
            sampler=lambda: backend,
            on_draws=on_draws,
            stopping=design,
            grading=grading,
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
    backend = Planned(PLAN, most)
    table, made, grades = run(tmp_path, PLAN, backend)
    assert numbers(table) == {name: list(range(stops_at(own))) for name, own in PLAN.items()}
    assert made == len(table) == len(backend.asked) == len(set(backend.asked))
    assert [stops_at(own) for own in PLAN.values()] == [4, 16, 16, 8]
    assert run(tmp_path, PLAN, Planned(PLAN))[1] == 0  # a second time there is nothing to do
    counts = counted(grades, DESIGN)
    assert dict(counts.select("problem_id", "n_samples").iter_rows()) == {
        name: stops_at(own) for name, own in PLAN.items()
    }


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
    for again in range(30):
        backend = Planned(plan, most, shuffled=again)
        try:
            table, *_ = run(folder, plan, backend, stop_after=stop_after)
        except Stopped:
            made += backend.asked
            continue
        made += backend.asked
        break
    else:
        backend = Planned(plan, most)
        table, *_ = run(folder, plan, backend)
        made += backend.asked
    assert len(made) == len(set(made))
    assert numbers(table) == {name: list(range(stops_at(own))) for name, own in plan.items()}
    (rest,) = [run(folder / "whole", plan, Planned(plan))[0]]
    assert table.sort("problem_id", "draw").equals(rest.sort("problem_id", "draw"))


def test_several_engines_after_one_that_was_stopped_make_the_draws_of_one(tmp_path):
    """Processes as an evaluation starts them, each with an order in which its draws end."""
    plan = {f"{name}{i}": own for i in range(4) for name, own in PLAN.items()}
    undisturbed, *_ = run(tmp_path / "one", plan, fake_engine.planned(plan).draw)
    with pytest.raises(Stopped):
        run(tmp_path / "engines", plan, fake_engine.planned(plan).draw, stop_after=20)
    engines = start_engines(
        partial(fake_engine.planned, plan), engines=2, gpus_each=0, at_once=5, check=noop
    )
    table, made, _ = run(tmp_path / "engines", plan, engines.draw)
    assert made == len(undisturbed) - 20 and table.equals(undisturbed)
    assert numbers(table) == {name: list(range(stops_at(own))) for name, own in plan.items()}


def test_no_draw_of_a_problem_is_asked_for_before_its_stage_is_judged(tmp_path):
    backend = Planned(PLAN, 5)
    run(tmp_path, PLAN, backend)
    for name, verdicts in PLAN.items():
        own = [draw for problem_id, draw in backend.asked if problem_id == name]
        for stage in DESIGN.stages:
            assert set(own[:stage]) == set(range(stage)) or stage > stops_at(verdicts)


def test_more_stages_go_on_and_fewer_read_the_draws_that_are_there(tmp_path):
    run(tmp_path, PLAN, Planned(PLAN))
    higher = StagedDesign(stages=(4, 8, 16), enough=3)
    table, made, grades = run(tmp_path, PLAN, Planned(PLAN), design=higher)
    assert made == 8 and len(numbers(table)["edge"]) == 16
    lower = StagedDesign(stages=(4, 8), enough=2)
    again, made, grades = run(tmp_path, PLAN, Planned(PLAN), design=lower)
    assert made == 0 and again.equals(table)
    assert counted(grades, lower)["n_samples"].to_list() == [4, 8, 8, 8]


def test_a_fixed_number_of_draws_is_used_as_far_as_it_goes(tmp_path):
    few = {name: own[:6] for name, own in PLAN.items()}
    fixed = StagedDesign(stages=(6,), enough=1)
    run(tmp_path, few, Planned(few), design=fixed)
    backend = Planned(PLAN)
    table, made, grades = run(tmp_path, PLAN, backend)
    assert len(numbers(table)["easy"]) == 6 and made == 2 + 10 + 10
    assert counted(grades, DESIGN)["n_samples"].to_list() == [4, 8, 16, 16]


def test_another_grader_is_followed_along_the_same_draws(tmp_path):
    """One that stops earlier uses fewer draws, one that would go on has no value."""
    *_, grades = run(tmp_path, PLAN, Planned(PLAN))
    stricter = grades.with_columns(outcome=pl.lit("incorrect"))
    rows = score(counted(stricter, DESIGN), [1, 16], DESIGN)
    values = dict(rows.filter(k=16).select("problem_id", "pass_at_k").iter_rows())
    assert values == {"easy": None, "edge": None, "hard": 0.0, "late": 0.0}
    milder = grades.with_columns(outcome=pl.lit("correct"))
    assert counted(milder, DESIGN)["n_samples"].to_list() == [4] * 4


def test_unscored_draws_are_counted_by_stage_and_stop_nothing(tmp_path):
    *_, grades = run(tmp_path, PLAN, Planned(PLAN))
    unjudged = (pl.col("problem_id") == "late") & pl.col("draw").is_in([0, 5, 12])
    grades = grades.with_columns(
        outcome=pl.when(unjudged).then(pl.lit("unscored")).otherwise("outcome")
    )
    counts = counted(grades, DESIGN).filter(problem_id="late")
    assert counts.row(0) == ("late", 16, 13, 8, [1, 1, 1])
    values = score(counts, [4], DESIGN).row(0, named=True)
    own = {"n_drawn": 16, "n_correct": 8, "n_unscored": [1, 1, 1], "k": 4}
    assert values["pass_at_k"] == DESIGN.pass_at_k(**own)
    assert (values["pass_at_k_low"], values["pass_at_k_high"]) == DESIGN.bounds(**own)
    assert values["pass_at_k_low"] <= values["pass_at_k"] <= values["pass_at_k_high"]


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
            n_samples=16,
            seed=0,
            sampler=lambda: Planned(PLAN),
            on_draws=lambda done, of, draws: None,
            stopping=DESIGN,
            grading=Silent(),
        )
