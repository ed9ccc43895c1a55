"""The judge: limits, deaths, threads, and what is asked once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.core.problems import Grade
from fgrpo_bench.graders import judge as judge_module
from fgrpo_bench.graders.judge import LONGEST_STORED, Judge, VerdictStore
from fgrpo_bench.graders.worker import Worker, interrupted


def pids(judge: Judge) -> list[int]:
    return [worker.process.pid for worker in judge._workers.living]


@pytest.mark.slow
def test_a_judge_killed_in_the_middle_or_between_questions_is_replaced_and_nothing_is_lost():
    with Judge() as judge, ThreadPoolExecutor(1) as pool:
        assert judge.verdict("1", "2").outcome == "incorrect"
        (first,) = pids(judge)
        slow = pool.submit(judge.verdict, "\\sqrt{3}", ",".join(map(str, range(800))))
        time.sleep(0.2)
        os.kill(first, signal.SIGKILL)
        assert slow.result().outcome == "incorrect"
        (second,) = pids(judge)
        assert second != first
        os.kill(second, signal.SIGKILL)  # between questions
        assert judge.verdict("\\frac12", "0.5").outcome == "correct"


@pytest.mark.slow
def test_a_question_whose_processes_are_killed_from_outside_is_unscored_and_asked_again(
    tmp_path, monkeypatch
):
    def die(worker: Worker, *_: object) -> None:
        worker.process.kill()
        raise ConnectionResetError

    with Judge(store=VerdictStore(tmp_path)) as judge:
        monkeypatch.setattr(Worker, "ask", die)
        verdict = judge.verdict("1", "3")
        assert verdict.outcome == "unscored" and "exit code -9 twice" in verdict.reason
        monkeypatch.undo()
        assert len(VerdictStore(tmp_path)) == 0
        assert judge.verdict("1", "3").outcome == "incorrect"
        assert len(VerdictStore(tmp_path)) == 1


@pytest.mark.slow
def test_what_the_question_itself_causes_is_kept_for_all_processes(tmp_path, monkeypatch):
    # a busy machine may give 0.5 s of processor time no sooner than within minutes
    monkeypatch.setattr("fgrpo_bench.graders.judge.WALL_FACTOR", 600.0)
    for judgements in (1, 0):
        with Judge(seconds=0.5, store=VerdictStore(tmp_path)) as judge:
            verdict = judge.verdict("1", "10^{10^{10}}")
            assert judge.judgements == judgements
        assert (verdict.outcome, verdict.reason) == (
            "unscored",
            "took more than 0.5 s of processor time",
        )


def test_an_exception_in_the_judge_is_unscored_and_never_wrong():
    worker = Worker(5.0, 1024, module="fgrpo_bench.graders.judge_worker")
    try:
        worker.wait_ready()
        reply = worker.ask({}, 60.0)  # what it looks for is not there
        assert reply["outcome"] == "unscored"
        assert reply["reason"].startswith("math-verify failed with ")
        assert not interrupted(reply["reason"])  # it would fail again
    finally:
        worker.end()


@pytest.mark.slow
def test_a_stopped_process_is_given_up_after_the_wall_time(monkeypatch):
    with Judge() as judge:
        judge.verdict("1", "2")
        (guard,) = pids(judge)
        (judging,) = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        os.kill(int(judging), signal.SIGSTOP)
        monkeypatch.setattr(judge_module, "WALL_FACTOR", 0.1)
        verdict = judge.verdict("1", "3")
        assert verdict == Grade(
            outcome="unscored", extracted=None, reason="took more than 0.5 s of wall time"
        )
        monkeypatch.undo()
        assert judge.verdict("1", "3").outcome == "incorrect"  # asked again
        assert judge.verdict("1", "4").outcome == "incorrect"


@pytest.mark.slow
def test_an_answer_that_needs_too_much_memory_is_unscored_within_the_limit():
    with Judge(megabytes=256) as judge:
        judge.verdict("1", "2")
        verdict = judge.verdict("42", "1" * 2**20, boxed=False)
        assert (verdict.outcome, verdict.reason) == ("unscored", "needs more than 256 MB of memory")
        assert judge.verdict("\\frac12", "0.5").outcome == "correct"


def test_a_missing_math_verify_is_an_error_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not has_math_verify(path)])
    monkeypatch.setattr(sys, "executable", str(Path(sys.executable).resolve()))  # without the venv
    with Judge() as judge, pytest.raises(RuntimeError, match=r"pip install math-verify=="):
        judge.verdict("1", "2")


def has_math_verify(path: str) -> bool:
    return (Path(path) / "math_verify").is_dir()


PARENT = """
import os, sys
from fgrpo_bench.graders.judge import Judge
judge = Judge()
judge.verdict("1", "2")
print(next(iter(judge._workers.living)).process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
def test_the_processes_end_with_the_one_that_started_them():
    done = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True)
    pid = int(done.stdout)
    deadline = time.monotonic() + 120
    while is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


FORKED = """
import os
from fgrpo_bench.graders.judge import default_judge
default_judge().verdict("1", "2")
child = os.fork()
if child == 0:
    verdict = default_judge().verdict("\\\\frac12", "0.5")
    default_judge().close()
    os._exit(0 if verdict.outcome == "correct" else 1)
assert default_judge().verdict("\\\\frac12", "0.25").outcome == "incorrect"
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
def test_a_forked_process_has_a_judge_of_its_own():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr


@pytest.mark.slow
def test_a_judge_closed_while_it_works_says_so_ends_its_processes_and_refuses_questions():
    with Judge() as judge:
        judge.verdict("1", "2")
        (pid,) = pids(judge)
        threading.Timer(0.3, judge.close).start()
        for answer in ("10^{10^{10}}", "3"):
            with pytest.raises(RuntimeError, match="closed"):
                judge.verdict("1", answer)
        assert not is_alive(pid)


HALF = ("\\frac{1}{2}", "0.5", True)
EQUAL = Grade(outcome="correct", extracted="0.5", reason="equal")


@pytest.mark.slow
def test_a_question_is_judged_once_over_all_processes(tmp_path):
    with Judge(store=VerdictStore(tmp_path)) as first:
        said = [first.verdict("\\frac{1}{2}", answer) for answer in ("0.5", "0.25", "0.5")]
        assert first.judgements == 2
    with Judge(store=VerdictStore(tmp_path)) as second:
        assert [second.verdict("\\frac{1}{2}", a) for a in ("0.5", "0.25", "0.5")] == said
        assert second.judgements == 0
        assert second.verdict("\\frac{1}{2}", "0.5", boxed=False).outcome == "correct"
        assert second.judgements == 1  # in a text it is another question


def test_stores_of_several_processes_are_read_together_and_never_written_over(tmp_path):
    stores = [VerdictStore(tmp_path) for _ in range(3)]
    for i, store in enumerate(stores):
        store.add((str(i), "0.5", True), EQUAL)
    assert len(VerdictStore(tmp_path)) == 3
    assert len(list(tmp_path.iterdir())) == 3
    assert stores[0].get(("1", "0.5", True)) is None  # it was opened before


def test_what_a_crash_or_another_program_left_in_a_file_is_passed_over(tmp_path):
    VerdictStore(tmp_path).add(HALF, EQUAL)
    (path,) = tmp_path.iterdir()
    torn = path.read_text()
    odd = '[1]\n{"a": 1}\n["k", "perfect", "x", "y"]\n["k", "correct", 3, "y"]\n'
    path.write_text(torn + odd + torn[: len(torn) // 2])
    store = VerdictStore(tmp_path)
    assert len(store) == 1 and store.get(HALF) == EQUAL


def test_a_very_long_answer_is_judged_again(tmp_path):
    VerdictStore(tmp_path).add(HALF, replace(EQUAL, extracted="x" * (LONGEST_STORED + 1)))
    assert len(VerdictStore(tmp_path)) == 0


def test_any_text_can_be_kept(tmp_path):
    question = ("\ud800", "a\x00\u2028b", False)
    late = Grade(outcome="unscored", extracted=None, reason="took more than 5 s")
    VerdictStore(tmp_path).add(question, late)
    assert VerdictStore(tmp_path).get(question) == late


@pytest.mark.slow
def test_equal_questions_are_judged_and_stored_once_from_any_number_of_threads(tmp_path):
    answers = [f"{i % 5}/4" for i in range(40)]
    with Judge(workers=2, store=VerdictStore(tmp_path)) as judge, ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda answer: judge.verdict("\\frac12", answer), answers))
        assert judge.judgements == len(VerdictStore(tmp_path)) == 5
    assert [verdict.outcome == "correct" for verdict in found] == [i % 5 == 2 for i in range(40)]
