"""The engines of an evaluation: who draws what, and how they end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from evaluators.engines import deal, shares, start_engines
from evaluators.records import Wanted
from fgrpo_bench.records import Problem
from tests.support.fake_engine import make


def wanted(n_problems: int, n_samples: int) -> list[Wanted]:
    problems = [
        Problem(benchmark="x", problem_id=f"p{i}", prompt="?", target="1", grader="countdown")
        for i in range(n_problems)
    ]
    return [Wanted(problem=p, draw=i, seed=i) for p in problems for i in range(n_samples)]


def children() -> set[int]:
    found = set()
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        found |= {int(pid) for pid in (task / "children").read_text().split()}
    return found


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_every_draw_is_made_once_and_those_of_a_problem_by_one_engine(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    before = children()
    draw, facts, canaries = start_engines(partial(make, "answer"), engines=2, gpus_each=2)
    asked = wanted(5, 3)
    for _ in range(2):  # the engines stay for the next benchmark
        assert [each.alone for each in canaries([w.problem for w in wanted(5, 1)])] == [
            ("p0", "p1", "p2")
        ] * 2
        made = [each for draws in draw(asked) for each in draws]
        assert sorted((d.problem_id, d.draw) for d in made) == [
            (w.problem.problem_id, w.draw) for w in asked
        ]
        by = {
            problem: {d.response for d in made if d.problem_id == problem}
            for problem in ("p0", "p1")
        }
        assert all(len(engines) == 1 for engines in by.values()) and by["p0"] != by["p1"]
    assert {d.response.split()[1] for d in made} == {"4,5", "6,7"}
    assert facts["engines"] == 2 and facts["engine"] == "fake"
    assert len(children() - before) >= 2


def test_engines_end_with_their_sampler_and_not_while_it_draws():
    """So that the likelihoods that a stage asks for next find the GPUs free."""
    draw, facts, canaries = start_engines(partial(make, "answer"), engines=1, gpus_each=0)
    drawing = draw(wanted(2, 2))
    del draw, canaries
    gc.collect()
    assert sum(map(len, drawing)) == 4 and "engines" not in facts
    del drawing
    assert gone(facts["pid"])


def test_fewer_problems_than_engines_leave_some_idle():
    draw = start_engines(partial(make, "answer"), engines=3, gpus_each=0).draw
    assert sum(map(len, draw(wanted(1, 4)))) == 4
    assert [len(part) for part in deal(wanted(2, 4), 3, {})] == [4, 4, 0]


@pytest.mark.parametrize(
    ("what", "said"),
    [("refuse", "ValueError: no such checkpoint"), ("raise", "MemoryError: out of memory")],
)
def test_an_engine_that_fails_ends_the_evaluation_with_its_words(what, said):
    with pytest.raises(RuntimeError, match=said):
        draw = start_engines(partial(make, what), engines=2, gpus_each=0).draw
        list(draw(wanted(2, 2)))


def test_an_engine_that_is_killed_is_named_by_its_exit_code():
    draw, facts, _ = start_engines(partial(make, "slow"), engines=2, gpus_each=0)
    drawing = draw(wanted(4, 50))
    next(drawing)
    os.kill(facts["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="ended with exit code -9; the draws are stored"):
        list(drawing)


def test_stopping_in_the_middle_ends_the_engines():
    draw, facts, _ = start_engines(partial(make, "slow"), engines=2, gpus_each=0)
    drawing = draw(wanted(4, 50))
    next(drawing)
    drawing.close()
    assert gone(facts["pid"])


@pytest.mark.parametrize("signum", [None, signal.SIGKILL])
def test_engines_end_with_the_process_that_started_them(signum):
    command = [sys.executable, "-m", "tests.support.fake_engine", "0" if signum is None else "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "started\n"
        listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        engines = [int(pid) for pid in listed.read_text().split()]
        assert len(engines) >= 2
        if signum is not None:
            parent.send_signal(signum)
        assert parent.wait(20) == (0 if signum is None else -signum)
    deadline = time.monotonic() + 120
    while not all(map(gone, engines)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert all(map(gone, engines))


def test_gpus_are_shared_out_and_too_few_are_refused():
    assert shares(None, 2, 2) == ["0,1", "2,3"]
    assert shares("3,1,2", 3, 1) == ["3", "1", "2"]
    assert shares(None, 2, 0) == [None, None]
    with pytest.raises(ValueError, match=r"evaluation_engines=2 of 2 GPUs need 4.*sees 3"):
        shares("0,1,2", 2, 2)
