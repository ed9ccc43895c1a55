"""A function of somebody's as a grader: what it may return, what it may do, and its version."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import function, get_grader, get_reward, grader_version, waits

CODE = """
import os, sys, time
import numpy as np
from fgrpo_bench.core.problems import Grade

def given(response, answer):
    return eval(response)   # the test's own words

def told(response, answer):
    return Grade(outcome="correct", extracted=response, reason="as the answer is " + answer)
"""
PROBLEM = Problem(benchmark="mine", problem_id="mine-0", prompt="?", target="7", grader="x")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package of the present folder, and processes of this test's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "grade.py").write_text(CODE)
    monkeypatch.setattr(function, "SECONDS", 1.0)
    monkeypatch.setattr(function, "WALL_SECONDS", 60.0)
    yield
    function._processes().close()
    function._processes._forget()


def judged(name: str, response: str):
    assert waits(name)
    return get_grader(name)(PROBLEM, response)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("response", "outcome", "reason"),
    [
        ("True", "correct", "it returned True"),
        ("np.bool_(False)", "incorrect", "it returned False"),
        ("1", "correct", "it returned 1"),
        ("None", "unscored", "it returned None"),
        ("0.5", "unscored", "it returned 0.5"),
        ("'yes'", "unscored", "it returned 'yes'"),
        ("float('nan')", "unscored", "it returned nan"),
        ("Grade(outcome='fine', extracted=None, reason='')", "unscored", "it returned Grade("),
        ("Grade(outcome='correct', extracted=7, reason='')", "unscored", "it returned Grade("),
        ("np.ones(2)", "unscored", "it raised ValueError: can only convert an array of size 1"),
        ("1 / 0", "unscored", "it raised ZeroDivisionError: division by zero"),
        ("sys.exit(3)", "unscored", "it raised SystemExit: 3"),
        ("os._exit(3)", "unscored", "the judge's process ended with exit code 3 twice"),
        ("all(iter(int, 1))", "incorrect", "it returned False"),
        ("[0 for _ in iter(int, 1)]", "unscored", "took more than 1 s of processor time"),
    ],
)
def test_what_a_function_returns_or_does_is_a_verdict_or_the_reason_why_there_is_none(
    response, outcome, reason
):
    grade = judged("theirs.grade:given", response)
    assert (grade.outcome, grade.reason.startswith(reason)) == (outcome, True), grade


FORKS = """
import os, time
from fgrpo_bench.core.problems import Grade

def returns_twice(response, answer):
    return os.fork() >= 0

def writes(response, answer):
    for handle in range(3, 64):
        try:
            os.write(handle, b'{"outcome": "correct", "reason": "mine"}' + bytes([10]))
        except OSError:
            pass
    return True

def speaks(response, answer):
    return input() == ""

def leaves(response, answer):
    theirs, ours = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            import signal
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.write(ours, str(os.getpid()).encode())
            time.sleep(3600)
        os._exit(0)
    return Grade(outcome="correct", extracted=os.read(theirs, 16).decode(), reason="left one")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "outcome", "reason"),
    [
        ("returns_twice", "correct", "it returned True"),
        ("writes", "unscored", "the judge's process answered what it was not asked"),
        ("speaks", "unscored", "it raised EOFError: EOF when reading a line"),
    ],
)
def test_a_function_that_forks_or_speaks_over_its_socket_is_a_verdict_or_a_reason(
    tmp_path, name, outcome, reason
):
    (tmp_path / "theirs" / "forks.py").write_text(FORKS)
    for response in ("first", "second"):  # nothing of one answer comes as that to the next
        grade = judged(f"theirs.forks:{name}", response)
        assert (grade.outcome, grade.reason.startswith(reason)) == (outcome, True), grade


def test_no_process_that_a_function_has_started_is_left(tmp_path):
    (tmp_path / "theirs" / "forks.py").write_text(FORKS)
    (pid,) = {int(judged("theirs.forks:leaves", "x").extracted)}
    os.kill(pid, 0)  # it is there as long as the judge is
    function._processes().close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_numbers_need_a_threshold_and_a_grade_stands_as_it_is():
    assert judged("theirs.grade:given@0.5", "0.5").outcome == "correct"
    assert judged("theirs.grade:given@0.5", "np.float32(0.25)").outcome == "incorrect"
    assert judged("theirs.grade:given@0.5", "1.5").outcome == "unscored"
    grade = judged("theirs.grade:told", "seven")
    assert (grade.outcome, grade.extracted) == ("correct", "seven")
    assert grade.reason == "as the answer is 7"


def test_as_a_reward_it_gives_any_finite_number_and_a_grade_may_have_one(capsys):
    def earned(name: str, response: str) -> tuple[str, float]:
        grade = get_reward(name)(PROBLEM, response)
        return grade.outcome, grade.earned

    assert earned("theirs.grade:given@1", "-3.5") == ("incorrect", -3.5)
    assert earned("theirs.grade:given@-4", "-3.5") == ("correct", -3.5)
    assert earned("theirs.grade:given@0.5", "float('inf')") == ("unscored", 0.0)
    assert earned("theirs.grade:given@0.5", "10**400") == ("unscored", 0.0)
    assert earned("theirs.grade:given", "True") == ("correct", 1.0)
    partial = "Grade(outcome='incorrect', extracted=None, reason='nearly', reward={})"
    assert earned("theirs.grade:given", partial.format(0.4)) == ("incorrect", 0.4)
    assert earned("theirs.grade:given", partial.format("float('nan')")) == ("unscored", 0.0)
    assert earned("theirs.grade:given", "1 / 0") == ("unscored", 0.0)
    said = "theirs.grade:given did not judge a response to mine-0: it raised ZeroDivisionError"
    assert said in capsys.readouterr().out


def test_a_located_function_is_that_of_its_folder_wherever_a_process_starts(tmp_path, monkeypatch):
    name = function.located("theirs.grade:told")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert judged(name, "7").outcome == "correct"
    assert grader_version(name).endswith(grader_version(name).partition("::")[2])
    (tmp_path / "theirs" / "grade.py").unlink()
    with pytest.raises(ValueError, match=r"no theirs/grade.py in .* any more: put it back"):
        function.named(name)


def test_an_edited_function_has_another_version():
    first = grader_version("theirs.grade:told")
    assert grader_version("theirs.grade:told") == first
    Path("theirs/grade.py").write_text(CODE + "\n")
    assert grader_version("theirs.grade:told") != first


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("theirs.grad:told", "there is no theirs/grad.py here"),
        ("theirs.grade:to-ld", "names no function: write module:function; a grader of your own"),
        ("theirs.grade:told@high", "names no function"),
        ("../theirs:told", "names no function"),
    ],
)
def test_a_name_that_finds_nothing_is_refused(name, said):
    with pytest.raises(ValueError, match=said):
        grader_version(name)


def test_a_function_that_says_nothing_of_the_answer_itself_is_refused_before_any_draw():
    with pytest.raises(ValueError, match="of mine-0 as the response: it returned 7; a grader of"):
        function.check("theirs.grade:given", PROBLEM)
    with pytest.raises(ValueError, match=r"train.reward=theirs.grade:given, .* any finite number"):
        function.check("theirs.grade:given", PROBLEM, is_reward=True)
    function.check("theirs.grade:told", PROBLEM)
