"""The judge: limits, deaths, threads, and what is asked once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fgrpo_bench.graders import judge as judge_module
from fgrpo_bench.graders.judge import Judge
from fgrpo_bench.graders.verdicts import VerdictStore
from fgrpo_bench.graders.worker import Worker, interrupted
from fgrpo_bench.records import Grade


def pids(judge: Judge) -> list[int]:
    return [worker.process.pid for worker in judge._workers.living]


@pytest.mark.slow
def test_a_judge_killed_in_the_middle_is_replaced_and_nothing_is_lost():
    with Judge() as judge, ThreadPoolExecutor(1) as pool:
        assert judge.verdict("1", "2").outcome == "incorrect"
        (first,) = pids(judge)
        slow = pool.submit(judge.verdict, "\\sqrt{3}", ",".join(map(str, range(800))))
        time.sleep(0.2)
        os.kill(first, signal.SIGKILL)
        assert slow.result().outcome == "incorrect"
        assert pids(judge) != [first]


@pytest.mark.slow
def test_a_judge_killed_between_questions_is_replaced():
    with Judge() as judge:
        judge.verdict("1", "2")
        os.kill(pids(judge)[0], signal.SIGKILL)
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
        assert verdict.outcome == "unscored"
        assert "exit code -9 twice" in verdict.reason
        monkeypatch.undo()
        assert len(VerdictStore(tmp_path)) == 0
        assert judge.verdict("1", "3").outcome == "incorrect"
        assert len(VerdictStore(tmp_path)) == 1


def test_what_the_question_itself_causes_is_kept_for_all_processes(tmp_path):
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
        os.kill(pids(judge)[0], signal.SIGSTOP)
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


def test_equal_questions_are_judged_once_from_any_number_of_threads():
    with Judge(workers=2) as judge, ThreadPoolExecutor(8) as pool:
        answers = [f"{i % 5}/4" for i in range(40)]
        verdicts = list(pool.map(lambda answer: judge.verdict("\\frac12", answer), answers))
        assert [verdict.outcome == "correct" for verdict in verdicts] == [
            i % 5 == 2 for i in range(40)
        ]
        assert judge.judgements == 5


def test_a_closed_judge_ends_its_processes_and_refuses_questions():
    judge = Judge()
    judge.verdict("1", "2")
    (pid,) = pids(judge)
    judge.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(RuntimeError, match="closed"):
        judge.verdict("1", "3")


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


def test_a_judge_closed_while_it_works_says_so():
    with Judge() as judge:
        judge.verdict("1", "2")
        threading.Timer(0.3, judge.close).start()
        with pytest.raises(RuntimeError, match="closed"):
            judge.verdict("1", "10^{10^{10}}")
