"""Grading while sampling: the same table as afterwards, and nothing is judged twice."""

import os
import re
import signal
import time
from contextlib import contextmanager
from itertools import product
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from evaluators.grading import Grading
from evaluators.grading_processes import GradeWorkers
from evaluators.records import SampleRequest, make_draw
from evaluators.sample import complete_draws
from evaluators.stored import level_line, levels
from fgrpo_bench.analysis.readings import problem_draws
from fgrpo_bench.core.problems import Grade, Problem, earned_by
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.graders import reward_of
from fgrpo_bench.stages.stage import Stopped
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table
from fgrpo_bench.stats.staged import fixed_design
from tests.evaluators.fake_engine import Answering

GOLDS = ("\\frac{1}{2}", "3\\sqrt{2}", "12")
ANSWERS = ("\\frac{2}{4}", "\\sqrt{18}", "12", "x+y", "12.5")
PROBLEMS = [
    Problem(benchmark="m", problem_id=f"m-{i}", prompt=f"{i}?", target=gold, grader="math")
    for i, gold in enumerate(GOLDS)
]
ASKED = len(GOLDS) * len(ANSWERS) - 1  # all pairs but 12 with 12


def sampler():
    """A back end: draws in parts of 10 whose texts differ and whose answers are ANSWERS in turn."""
    return Answering(
        lambda w: f"Text {w.draw % 20}. \\boxed{{{ANSWERS[w.draw % 5]}}}", most=10, part=10
    )


@pytest.fixture(autouse=True)
def verdicts(tmp_path, monkeypatch):
    """A store of verdicts of this test alone."""
    monkeypatch.setenv("FGRPO_VERDICTS", str(tmp_path / "verdicts"))


@contextmanager
def graded(paths, grader, *, workers):
    with GradeWorkers(PROBLEMS, workers=workers) as processes:
        yield Grading(paths, PROBLEMS, grader, workers=processes)


def sampled(paths, grading, n_samples=40, until=None):
    def on_draws(done, of, draws):
        grading.add(draws)
        if until is not None and done >= until:
            raise Stopped("")

    return complete_draws(
        paths,
        PROBLEMS,
        design=fixed_design(n_samples),
        grading=grading,
        seed=0,
        sampler=sampler,
        on_draws=on_draws,
    )[0]


@pytest.mark.slow
def test_grading_while_sampling_gives_the_tables_of_grading_afterwards_and_judges_nothing_twice(
    tmp_path,
):
    graders = ("math", "math-tolerance")
    paths, later = BenchmarkPaths(tmp_path / "while"), BenchmarkPaths(tmp_path / "later")
    with GradeWorkers(PROBLEMS, workers=2) as processes:
        both = [Grading(paths, PROBLEMS, name, workers=processes) for name in graders]
        draws = sampled(paths, SimpleNamespace(add=lambda made: [g.add(made) for g in both]))
        tables = [grading.finish(draws) for grading in both]
    assert [grading.tally.graded for grading in both] == [120, 120]
    assert sum(grading.tally.judgements for grading in both) == ASKED
    assert sum(grading.tally.facts()["cache_hits"] for grading in both) == 240 - ASKED
    by_problem = tables[0].group_by("problem_id").agg((pl.col("outcome") == "correct").mean())
    assert by_problem.sort("problem_id")["outcome"].to_list() == [0.2, 0.2, 0.2]
    assert both[0].pass_at_1 == pytest.approx(0.2)

    with graded(later, "math", workers=1) as grading:
        assert grading.finish(draws).equals(tables[0])
    assert grading.tally.graded == 120 and grading.tally.judgements == 0  # known from before
    assert read_table(later.grades("math-5"), GRADES).equals(tables[0])
    assert not later.judging("math-5").exists()


@pytest.mark.slow
def test_what_a_stopped_run_or_one_of_fewer_draws_has_graded_is_not_graded_again(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    with graded(paths, "math", workers=1) as first:
        with pytest.raises(Stopped):
            sampled(paths, first, until=60)
        first._take(first._workers.answers("math", wait=True))
    assert paths.judging("math-5").exists() and not paths.grades("math-5").exists()
    for n_samples, fresh in ((40, 60), (60, 60), (60, 0)):
        with graded(paths, "math", workers=1) as grading:
            table = grading.finish(sampled(paths, grading, n_samples))
        assert len(table) == 3 * n_samples and grading.tally.graded == fresh


def test_a_grading_process_that_dies_is_named_and_the_draws_stay(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    with graded(paths, "math", workers=1) as grading:
        grading.add([make_draw(SampleRequest(problem=PROBLEMS[0], draw=0, seed=0), "7", **ENDED)])
        lane = grading._workers._lanes[0]
        os.kill(lane._process.pid, signal.SIGKILL)
        grading.add([make_draw(SampleRequest(problem=PROBLEMS[0], draw=1, seed=1), "8", **ENDED)])
        with pytest.raises(RuntimeError, match=r"a grading process ended .* the draws are stored"):
            for _ in range(100):
                list(lane.answers("math", wait=True))


ENDED = {"n_tokens": 1, "end_token": 1}
SLOW = ",".join(map(str, range(800)))
"""An answer that the judge is at for seconds."""


@pytest.mark.slow
def test_a_draw_whose_judge_was_killed_is_judged_anew_by_the_next_run(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    asked = [SampleRequest(problem=PROBLEMS[i], draw=0, seed=i) for i in (0, 1)]
    texts = (f"\\boxed{{{SLOW}}}", "\\boxed{\\sqrt{18}}")
    draws = [make_draw(each, text, **ENDED) for each, text in zip(asked, texts, strict=True)]
    table = pl.DataFrame(draws, schema=DRAWS)
    with GradeWorkers(PROBLEMS, workers=1) as processes:
        first = Grading(paths, PROBLEMS, "math", workers=processes)
        first.add(draws[:1])
        kill_judges(processes._lanes[0]._process.pid, times=2)
        outcomes = first.finish(table)["outcome"].to_list()
        assert outcomes == ["unscored", "correct"]
        assert "exit code -9 twice" in read_table(paths.grades(first.version), GRADES)["reason"][0]
        again = Grading(paths, PROBLEMS, "math", workers=processes)
        assert again.finish(table)["outcome"].to_list() == ["incorrect", "correct"]
        assert again.tally.facts() == {"graded": 1, "judgements": 1, "cache_hits": 0}
        stored = read_table(paths.grades(first.version), GRADES)
        assert stored["outcome"].to_list() == ["incorrect", "correct"]
        last = Grading(paths, PROBLEMS, "math", workers=processes)
        assert last.finish(table).equals(stored) and last.tally.graded == 0


def children(pid):
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # a guard ends after its judge
        return []


def kill_judges(parent, *, times):
    """SIGKILL to that many judges of a grading process, each as soon as it can judge."""
    killed = set()
    deadline = time.monotonic() + 120
    while len(killed) < times:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        judges = {pid for guard in children(parent) for pid in children(guard)}
        for pid in judges - killed:
            limits = Path(f"/proc/{pid}/limits").read_text()
            if re.search("Max file size +0 +0 ", limits):  # which it is given last
                os.kill(int(pid), signal.SIGKILL)
                killed.add(pid)


def test_a_grading_process_that_cannot_start_is_the_error_that_is_told(tmp_path, monkeypatch):
    def refuse(_):
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(SpawnProcess, "start", refuse)
    with (
        pytest.raises(BlockingIOError, match="temporarily unavailable"),
        graded(BenchmarkPaths(tmp_path / "m"), "math", workers=1) as grading,
    ):
        grading.add([make_draw(SampleRequest(problem=PROBLEMS[0], draw=0, seed=0), "7", **ENDED)])


@pytest.mark.slow
def test_sampling_does_not_wait_for_a_slow_grader_nor_its_process_end_at_a_stopping_signal(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("evaluators.grading_processes.WAITING_MOST", 2)
    paths = BenchmarkPaths(tmp_path / "m")
    with graded(paths, "math", workers=1) as grading:
        draws = sampled(paths, grading)
        assert grading.tally.graded < 120
        os.kill(grading._workers._lanes[0]._process.pid, signal.SIGTERM)
        assert len(grading.finish(draws)) == grading.tally.graded == 120


def test_prompts_and_instructions_of_ifeval_are_counted_strictly_and_loosely():
    def scores(*reasons):
        rows = [("p", i, "correct", None, reason, "ifeval-1") for i, reason in enumerate(reasons)]
        return levels(pl.DataFrame(rows, schema=GRADES, orient="row"))

    judged = ["2 of 2 strict, 2 loose", "1 of 2 strict, 2 loose", "0 of 1 strict, 0 loose"]
    judged.append("1 of 3 strict, 2 loose")
    found = scores(*judged)
    assert level_line("ifeval", found) == (
        "ifeval, over all judged draws: prompt strict 25.00%, prompt loose 50.00%, "
        "instruction strict 50.00%, instruction loose 75.00%"
    )
    assert scores(*judged, "took more than 10 s") == found
    assert [scores(), scores("equal by math-verify"), scores(None)] == [{}, {}, {}]


def test_rewards_are_stored_in_the_reasons_of_grades_and_read_from_there(tmp_path):
    problem = Problem(
        benchmark="c", problem_id="p", prompt="", target="3256-24", grader="countdown-partial"
    )
    texts = ["6*5-3*2", "6+5+3+2", "6*4", "6+5+3+2"]
    rows = [("p", i, i, text, 7, "stop", None) for i, text in enumerate(texts)]
    paths = BenchmarkPaths(tmp_path / "c")
    with GradeWorkers([problem], workers=1) as workers:
        grading = Grading(paths, [problem], "countdown-partial", workers=workers)
        table = grading.finish(pl.DataFrame(rows, schema=DRAWS, orient="row"))
    assert table["reason"].to_list()[:2] == ["value is the target", "scored 0.1; value is 16"]
    stored = problem_draws(read_table(paths.grades("countdown-partial-1"), GRADES), grading.grader)
    assert stored["p"].n_by_reward == {1.0: 1, 0.1: 2, 0.0: 1}
    reasons = ("value is 3", "scored 5", "scored 5; x", "it returned 0.333333", "scored inf", "\n")
    for outcome, reason, reward in product(
        ("correct", "incorrect"), reasons, (None, 0.0, 1.0, 1 / 3, -2.5, 1e-12, 1e22)
    ):
        grade = Grade(outcome=outcome, extracted=None, reason=reason, reward=reward)
        assert earned_by(outcome, grade.stored_reason) == grade.earned, grade
    unscored = Grade(outcome="unscored", extracted=None, reason="it returned 0.5")
    assert unscored.stored_reason == "it returned 0.5" and earned_by("unscored", "scored 5") == 0
    followed = reward_of("ifeval")
    assert followed("incorrect", "2 of 3 strict, 3 loose") == 2 / 3
    assert followed("correct", "0 of 0 strict, 0 loose") == 1
    assert followed("unscored", "took more than 10 s") == 0
