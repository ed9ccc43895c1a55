"""The engines of an evaluation: who draws what, and how they end."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import pytest

from evaluators.engines import deal, shares
from evaluators.records import SampleRequest
from fgrpo_bench.core.problems import Problem
from tests.evaluators.fake_engine import started


def wanted(n_problems: int, n_samples: int) -> list[SampleRequest]:
    problems = [
        Problem(benchmark="x", problem_id=f"p{i}", prompt="?", target="1", grader="countdown")
        for i in range(n_problems)
    ]
    return [SampleRequest(problem=p, draw=i, seed=i) for p in problems for i in range(n_samples)]


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


@pytest.mark.slow
def test_every_draw_is_made_once_and_every_engine_makes_some(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    before = children()
    draw, facts = started("answer", gpus_each=2)
    asked = wanted(5, 9)
    for _ in range(2):  # the engines stay for the next benchmark
        made = [each for draws in draw(asked) for each in draws]
        assert sorted((d.problem_id, d.draw, d.seed) for d in made) == [
            (w.problem.problem_id, w.draw, w.seed) for w in asked
        ]
        assert {d.response.split()[1] for d in made} == {"4,5", "6,7"}
    assert sum(map(len, draw(wanted(1, 1)))) == 1  # which leaves one idle
    assert facts["engines"] == 2 and facts["engine"] == "fake"
    assert len(children() - before) >= 2


def tokens(each: SampleRequest) -> int:
    """Of a draw: ten times as many for the last problem as for the first, half of it up or down."""
    mean = 1000 + 9000 * int(each.problem.problem_id[1:]) / 29
    return int(mean * (0.5 + each.draw * 37 % 101 / 100))


def share_at_work(
    asked: list[SampleRequest], at_once: int, hand_out: Callable[..., list[Any]]
) -> float:
    """Of the time of 8 engines up to the last draw, before each runs out of draws. An engine makes
    so many draws at once, a token of each at every tick."""
    queue, waiting = deque(asked), [deque[SampleRequest]() for _ in range(8)]
    ends: list[list[int]] = [[] for _ in waiting]  # of the draws that are in the making
    clock, last = 0, [0] * 8
    while True:
        held = [len(ready) + len(own) for ready, own in zip(waiting, ends, strict=True)]
        parts = hand_out(queue, held, at_once)
        for ready, own, part in zip(waiting, ends, parts, strict=True):
            ready += part
            while ready and len(own) < at_once:
                heappush(own, clock + tokens(ready.popleft()))
        if not any(ends):
            return sum(last) / (8 * clock)
        clock = min(own[0] for own in ends if own)
        for i, own in enumerate(ends):
            while own and own[0] == clock:
                last[i] = heappop(own)


def by_problem(
    queue: deque[SampleRequest], held: list[int], at_once: int
) -> list[list[SampleRequest]]:
    """What there would be without a queue: all draws of a problem to one engine, in turn."""
    taken = [queue.popleft() for _ in range(len(queue))]
    return [[w for w in taken if int(w.problem.problem_id[1:]) % 8 == i] for i in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize(("n_samples", "at_once"), [(64, 16), (64, 64), (64, 512), (512, 256)])
def test_thirty_problems_of_unequal_lengths_keep_eight_engines_at_work(n_samples, at_once):
    asked = wanted(30, n_samples)
    assert share_at_work(asked, at_once, deal) > 0.95
    assert share_at_work(asked, at_once, by_problem) < 0.9


def test_an_engine_always_has_what_it_draws_at_once_and_a_block_to_begin():
    queue, held = deque(wanted(30, 64)), [0] * 3
    while queue:
        before = len(queue)
        parts = deal(queue, held, 80)
        assert sum(map(len, parts)) == before - len(queue)
        held = [own + len(part) for own, part in zip(held, parts, strict=True)]
        assert max(held) < 80 + 2 * 10 and (min(held) >= 80 + 10 or not queue)
        held[before % 3] -= 7
    assert [len(part) for part in deal(deque(wanted(1, 2)), [3, 0, 0], 1)] == [0, 1, 1]
    assert [len(part) for part in deal(deque(wanted(1, 1)), [2, 2, 2], 1)] == [0, 0, 0]


@pytest.mark.slow
def test_a_problem_that_no_engine_takes_is_told_before_the_first_draw():
    def check(problem):
        if problem.problem_id == "p4":
            raise ValueError("the prompt of problem p4 has 9 tokens")

    with pytest.raises(ValueError, match="problem p4 has 9"):
        next(started("answer", at_once=1, check=check).draw(wanted(5, 9)))


@pytest.mark.slow
def test_engines_end_with_their_sampler_and_not_while_it_draws():
    """So that the likelihoods that a stage asks for next find the GPUs free."""
    draw, facts = started("answer", engines=1)
    drawing = draw(wanted(2, 2))
    del draw
    gc.collect()
    assert sum(map(len, drawing)) == 4 and "engines" not in facts
    del drawing
    assert gone(facts["pid"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "said"),
    [("refuse", "ValueError: no such checkpoint"), ("raise", "MemoryError: out of memory")],
)
def test_an_engine_that_fails_ends_the_evaluation_with_its_words(what, said):
    with pytest.raises(RuntimeError, match=said):
        draw = started(what).draw
        list(draw(wanted(2, 2)))


@pytest.mark.slow
def test_a_killed_engine_is_named_by_its_exit_code_and_stopping_in_the_middle_ends_engines():
    draw, facts = started("slow")
    drawing = draw(wanted(4, 50))
    next(drawing)
    drawing.close()
    assert gone(facts["pid"])
    draw, facts = started("slow")
    drawing = draw(wanted(4, 50))
    next(drawing)
    os.kill(facts["pid"], signal.SIGKILL)
    with pytest.raises(RuntimeError, match="ended with exit code -9; the draws are stored"):
        list(drawing)


@pytest.mark.slow
@pytest.mark.parametrize("signum", [pytest.param(None, marks=pytest.mark.rare), signal.SIGKILL])
def test_engines_end_with_the_process_that_started_them(signum):
    seconds = "0" if signum is None else "60"
    command = [sys.executable, "-m", "tests.evaluators.fake_engine", seconds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stdout.readline() == "started\n"
        listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        engines = [int(pid) for pid in listed.read_text().split()]
        assert len(engines) >= 2
        if signum is not None:
            parent.send_signal(signum)
        assert parent.wait(200) == (0 if signum is None else -signum)
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
