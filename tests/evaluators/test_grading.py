"""Grading while sampling: the same table as afterwards, and nothing is judged twice."""

import os
import re
import signal
import time
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

from evaluators.grading import GradeWorkers, Grading
from evaluators.records import RequestQueue, SampleRequest, drawn
from evaluators.sample import complete_draws
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.stages.stage import Stopped
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table

GOLDS = ("\\frac{1}{2}", "3\\sqrt{2}", "12")
ANSWERS = ("\\frac{2}{4}", "\\sqrt{18}", "12", "x+y", "12.5")
PROBLEMS = [
    Problem(benchmark="m", problem_id=f"m-{i}", prompt=f"{i}?", target=gold, grader="math")
    for i, gold in enumerate(GOLDS)
]
ASKED = len(GOLDS) * len(ANSWERS) - 1  # all pairs but 12 with 12


def responses(wanted):
    """A back end: draws in parts of 10 whose texts differ and whose answers are ANSWERS in turn."""
    wanted = RequestQueue(wanted).take()
    for start in range(0, len(wanted), 10):
        yield [
            drawn(
                each,
                f"Text {each.draw % 20}. \\boxed{{{ANSWERS[each.draw % 5]}}}",
                n_tokens=9,
                end_token=1,
            )
            for each in wanted[start : start + 10]
        ]


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
        paths, PROBLEMS, n_samples=n_samples, seed=0, sampler=lambda: responses, on_draws=on_draws
    )[0]


@pytest.mark.slow
def test_grading_while_sampling_gives_the_table_of_grading_afterwards(tmp_path):
    paths = BenchmarkPaths(tmp_path / "while")
    with graded(paths, "math", workers=2) as grading:
        draws = sampled(paths, grading)
        table = grading.finish(draws)
    assert grading.tally.facts() == {
        "graded": 120,
        "judgements": ASKED,
        "cache_hits": 120 - ASKED,
    }
    by_problem = table.group_by("problem_id").agg((pl.col("outcome") == "correct").mean())
    assert by_problem.sort("problem_id")["outcome"].to_list() == [0.2, 0.2, 0.2]
    assert grading.pass_at_1 == pytest.approx(0.2)

    later = BenchmarkPaths(tmp_path / "later")
    with graded(later, "math", workers=1) as grading:
        assert grading.finish(draws).equals(table)
    assert grading.tally.graded == 120 and grading.tally.judgements == 0  # known from before
    assert read_table(later.grades("math-3"), GRADES).equals(table)
    assert not later.judging("math-3").exists()


@pytest.mark.slow
def test_more_draws_keep_their_grades_and_only_new_ones_are_graded(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    for n_samples, fresh in ((20, 60), (40, 60), (40, 0)):
        with graded(paths, "math", workers=1) as grading:
            table = grading.finish(sampled(paths, grading, n_samples))
        assert len(table) == 3 * n_samples and grading.tally.graded == fresh


@pytest.mark.slow
def test_what_a_stopped_run_has_judged_is_not_judged_again(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    with graded(paths, "math", workers=1) as first:
        with pytest.raises(Stopped):
            sampled(paths, first, until=60)
        first._take(first._workers.answers("math", wait=True))
    assert paths.judging("math-3").exists() and not paths.grades("math-3").exists()
    with graded(paths, "math", workers=1) as second:
        table = second.finish(sampled(paths, second))
    assert len(table) == 120 and second.tally.graded == 60


def test_a_grading_process_that_dies_is_named_and_the_draws_stay(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    with graded(paths, "math", workers=1) as grading:
        grading.add([drawn(SampleRequest(problem=PROBLEMS[0], draw=0, seed=0), "7", **ENDED)])
        lane = grading._workers._lanes[0]
        os.kill(lane._process.pid, signal.SIGKILL)
        grading.add([drawn(SampleRequest(problem=PROBLEMS[0], draw=1, seed=1), "8", **ENDED)])
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
    draws = [drawn(each, text, **ENDED) for each, text in zip(asked, texts, strict=True)]
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


def kill_judges(parent, *, times):
    """SIGKILL to that many judges of a grading process, each as soon as it can judge."""
    killed = set()
    deadline = time.monotonic() + 120
    while len(killed) < times:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        for pid in set(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()) - killed:
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
        grading.add([drawn(SampleRequest(problem=PROBLEMS[0], draw=0, seed=0), "7", **ENDED)])


@pytest.mark.slow
def test_sampling_does_not_wait_for_a_slow_grader(tmp_path, monkeypatch):
    monkeypatch.setattr("evaluators.grading.WAITING_MOST", 2)
    paths = BenchmarkPaths(tmp_path / "m")
    with graded(paths, "math", workers=1) as grading:
        draws = sampled(paths, grading)
        assert grading.tally.graded < 120
        assert len(grading.finish(draws)) == grading.tally.graded == 120


@pytest.mark.slow
def test_a_stopping_signal_leaves_the_grading_processes_to_their_stage(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    with graded(paths, "math", workers=1) as grading:
        grading.add(
            [drawn(SampleRequest(problem=PROBLEMS[0], draw=0, seed=0), "\\boxed{7x}", **ENDED)]
        )
        os.kill(grading._workers._lanes[0]._process.pid, signal.SIGTERM)
        grading._take(grading._workers.answers("math", wait=True))
        assert grading.tally.graded == 1


@pytest.mark.slow
def test_graders_of_one_benchmark_share_what_is_judged(tmp_path):
    paths = BenchmarkPaths(tmp_path / "m")
    with GradeWorkers(PROBLEMS, workers=2) as processes:
        both = [
            Grading(paths, PROBLEMS, grader, workers=processes)
            for grader in ("math", "math-tolerance")
        ]
        draws = sampled(paths, SimpleNamespace(add=lambda made: [each.add(made) for each in both]))
        tables = [each.finish(draws) for each in both]
    assert len(tables[0]) == len(tables[1]) == 120
    assert sum(each.tally.judgements for each in both) == ASKED
