"""Answers of SLURM's programs that make no sense: what is read of them, and what they decide."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from fgrpo_bench.stages.attempts import Note
from sweeps.slurm import scheduler, tick
from sweeps.slurm.decide import StageObservation, decide_stage
from sweeps.slurm.scheduler import INVALID_ID, Answer, Call, Job, parse
from sweeps.slurm.submissions import JobBatch, Place
from tests.support.sent import stage_record

NOW = datetime(2026, 11, 22, 12).timestamp()
ROW = "17_0|smoke-train-1f|RUNNING|n1|0:10|N/A|None\n"
PAGE = "<html>\n<head><title>502 Bad Gateway</title></head>\n</html>\n"


@pytest.mark.parametrize(
    ("said", "first", "ids"),
    [
        (PAGE, "<html>", []),
        (ROW + PAGE, "<html>", ["17_0"]),
        ("17_1|b||n1|0:10|N/A|None\n" + ROW, "17_1|b||n1|0:10|N/A|None", ["17_0"]),
        ("17_1|b|WOBBLING|n1|0:10|N/A|None", "17_1|b|WOBBLING", []),
        ("17_[0-1,...]|b|PENDING||0:00|N/A|Priority", "17_[0-1,...]", ["17_0", "17_1"]),
        ("17_[0-99999999999]|b|PENDING||0:00|N/A|Priority", "17_[0-9", []),
        ("17_0|smoke-train-1f|RUNN", "17_0|smoke-train-1f|RUNN", []),
        ("banner|smoke-train-1f|RUNNING|n1|0:10|N/A|None", "banner|", []),
    ],
)
def test_lines_that_make_no_sense_are_told_apart_from_rows(
    said: str, first: str, ids: list[str]
) -> None:
    answer = parse(said)
    assert answer.nonsense is not None and answer.nonsense.startswith(first)
    assert [*answer] == ids
    (warning,) = scheduler.nonsense("sacct", answer)
    assert warning.startswith("warning: `sacct` printed what makes no sense, which decides nothing")
    assert scheduler.nonsense("squeue", parse(ROW + "\n")) == [], "this makes sense"


def batch(name: str = "smoke-train-1f", *, begun: float = NOW - 600, size: int = 2) -> JobBatch:
    stages = tuple(f"p{index}" for index in range(size))
    return JobBatch(name=name, kind="train", stages=stages, begun=begun, job_id="17")


def absent(of: JobBatch, index: int = 0, **facts: Any) -> StageObservation:
    """A stage whose job squeue does not show."""
    observation = StageObservation(
        record=stage_record(f"p{index}"),
        done=False,
        attempts=1,
        place=Place(batch=of, index=index),
    )
    return replace(observation, **facts)


@pytest.mark.parametrize(
    ("hours", "words"), [(1, "1 h 00 min ahead of"), (-1, "1 h 00 min behind"), (0.01, None)]
)
def test_a_clock_that_is_not_the_controllers_is_said(hours: float, words: str | None) -> None:
    said = "Configuration data as of 2026-11-22T12:00:00\nMaxArraySize = 1001\n"
    warnings = scheduler.controllers_clock(said, NOW + hours * 3600)
    assert [words in warning for warning in warnings] == ([True] if words else [])
    assert scheduler.controllers_clock("MaxArraySize = 1001\n", NOW) == []


KNOWN = "JobId=17 ArrayJobId=17 ArrayTaskId=0 JobName=smoke-train-1f JobState=RUNNING Reason=None\n"


@pytest.mark.parametrize(
    ("said", "doubt"),
    [
        (KNOWN, "squeue does not show it, but scontrol does"),
        (KNOWN.replace("=0", "=1-9%2"), ""),
        (KNOWN.replace("=0", "=1,3,..."), "squeue does not show it, but scontrol does"),
        (KNOWN.replace("smoke", "other"), ""),
        (PAGE, "scontrol says: `scontrol` printed what makes no sense: '<html>"),
        ("", "scontrol says: `scontrol` printed what makes no sense"),
        (ValueError(f"slurm_load_jobs error: {INVALID_ID} specified"), ""),
        (ConnectionError("no answer"), "scontrol says: no answer"),
    ],
)
def test_nothing_is_lost_that_the_controller_still_knows_by_name(
    said: str | Exception, doubt: str
) -> None:
    def call(command: list[str]) -> str:
        assert command == ["scontrol", "show", "job", "-o", "17"]
        if isinstance(said, Exception):
            raise said
        return said

    (seen,) = tick.confirmed([absent(batch())], Answer(), call)
    assert doubt in seen.doubt and bool(doubt) == bool(seen.doubt)
    standing = decide_stage(seen, now=NOW, max_attempts=3)
    assert (standing.state, standing.exit_reason) == (
        ("active", seen.doubt) if doubt else ("again", "lost")
    )


def never(command: list[str]) -> str:
    raise AssertionError(f"asked {command}")


def test_where_squeue_makes_no_sense_nothing_is_decided_of_what_it_does_not_show() -> None:
    job = Job(job_id="17_0", name="smoke-train-1f", state="FAILED", ended=NOW - 500)
    note = Note(attempt=1, outcome="failed", exit_code=1)
    (seen,) = tick.confirmed([absent(batch(), job=job, note=note)], parse(PAGE), never)
    standing = decide_stage(seen, now=NOW, max_attempts=3)
    assert (standing.state, standing.exit_reason) == ("active", "squeue's answer makes no sense")


def test_the_controller_is_asked_once_for_a_batch_and_not_for_what_is_clear() -> None:
    asked: list[str] = []

    def call(command: list[str]) -> str:
        asked.append(command[-1])
        return KNOWN

    of = batch()
    tick.confirmed([absent(of), absent(of, 1)], Answer(), call)
    assert asked == ["17"]
    unsent: Call = never
    tick.confirmed(
        [
            absent(of, done=True),
            absent(of, note=Note(attempt=1, outcome="failed", exit_code=1)),
            absent(of, job=Job(job_id="17_0", name=of.name, state="FAILED", ended=NOW - 500)),
            absent(of, place=None),
        ],
        Answer(),
        unsent,
    )
