"""The record of what was said to SLURM, whole and with lines that are lost; no SLURM is asked."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.specs import config, to_dict
from fgrpo_bench.stages.files import write_json
from fgrpo_bench.stages.locks import LOOK_SECONDS, driving
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps.slurm import drive, observe, recover, status, submissions, tick
from sweeps.slurm.attempts import last_note
from sweeps.slurm.scheduler import Call
from sweeps.slurm.submissions import Batch, read


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(root=tmp_path, sweep="smoke", experiment="e", version="v1")


def send(
    paths: RunPaths,
    name: str,
    *stages: str,
    begun: float,
    job_id: str,
    cluster: str | None = None,
) -> None:
    batch = Batch(name=name, kind="train", stages=stages, begun=begun, cluster=cluster)
    submissions.append(paths.submissions, "intent", **batch.intent("/code"))
    recover.write_card(paths, batch, "/code")
    submissions.append(paths.submissions, "submitted", batch=name, job_id=job_id)


def test_what_is_lost_of_a_batch_is_made_up_from_its_folder(paths: RunPaths) -> None:
    submissions.append(paths.submissions, "allow", stages=None, code="/code")
    send(paths, "smoke-train-1", "a", "b", begun=1.0, job_id="7")
    whole = read(paths.submissions)
    lines = paths.submissions.read_bytes().split(b"\n")
    paths.submissions.write_bytes(b"\n".join([lines[0], b"17", *lines[2:]]))
    assert not read(paths.submissions).batches["smoke-train-1"].known
    told: list[str] = []
    made_up = recover.history(paths, told.append)
    (batch,) = made_up.batches.values()
    assert (batch.stages, batch.begun, batch.job_id) == (("a", "b"), 1.0, "7")
    assert made_up.places().keys() == whole.places().keys()
    assert made_up.attempts == {} and whole.attempts == {"a": 1, "b": 1}
    (warning,) = told
    assert warning.startswith(
        f"warning: {paths.submissions}: line 2 is damaged and was passed over"
    )
    submissions.append(paths.submissions, "passed_over", lines=[2])
    recover.history(paths, told.append)
    assert len(told) == 1


def test_a_batch_that_is_made_up_stands_where_it_was_sent(paths: RunPaths) -> None:
    """So that the last place of a stage is the one that it was sent to last."""
    for number in (1, 2, 3):
        send(paths, f"smoke-train-{number}", "a", begun=float(number), job_id=str(number))
    lines = paths.submissions.read_bytes().split(b"\n")
    paths.submissions.write_bytes(b"\n".join([*lines[:2], *lines[4:]]))
    made_up = recover.history(paths, print)
    assert [place.batch.name[-1] for place in made_up.places()["a"]] == ["1", "2", "3"]
    facts = made_up.batches["smoke-train-2"].intent("/code") | {"recovered": True}
    submissions.append(paths.submissions, "intent", **facts)
    written = read(paths.submissions)
    assert [place.batch.name[-1] for place in written.places()["a"]] == ["1", "2", "3"]
    assert written.attempts == {"a": 2}, "what was made up counts as no attempt"


def test_without_a_journal_the_folders_tell_batches_and_code(paths: RunPaths) -> None:
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="1")
    paths.submissions.unlink()
    (paths.batch("smoke-evaluate-2")).mkdir()
    (paths.batch("else")).mkdir()
    made_up = recover.history(paths, print)
    assert made_up.code == "/code"
    assert {name: batch.known for name, batch in made_up.batches.items()} == {
        "smoke-train-1": True,
        "smoke-evaluate-2": False,
    }


@pytest.mark.parametrize(
    "line",
    [
        {"event": "intent", "batch": "smoke-train-1"},
        {"event": "intent", "batch": "smoke-train-1", "kind": "train", "stages": "ab", "time": 1},
        {"event": "intent", "batch": "smoke-train-1", "kind": "train", "stages": [1], "time": 1},
        {"event": "submitted", "batch": "smoke-train-1", "job_id": 7},
        {"event": "uncount", "stages": None},
        {"event": "synced", "done": "7"},
        {"event": "passed_over", "lines": [[]]},
        {"event": "allow", "stages": None, "code": 7},
        {"event": "none of ours"},
        {"event": []},
        {},
    ],
    ids=str,
)
def test_a_line_of_another_shape_is_damaged(paths: RunPaths, line: dict[str, object]) -> None:
    submissions.append(paths.submissions, "hold")
    with paths.submissions.open("a") as file:
        file.write(json.dumps(line) + "\n")
    history = read(paths.submissions)
    assert history.damaged == [2]
    assert history.held and not history.batches


def test_a_card_that_is_another_batchs_or_damaged_tells_nothing(paths: RunPaths) -> None:
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="1")
    card = paths.batch("smoke-train-1") / recover.CARD
    paths.submissions.unlink()
    shutil.copytree(paths.batch("smoke-train-1"), paths.batch("smoke-train-2"))
    assert not recover.history(paths, print).batches["smoke-train-2"].known
    for content in (b"", b"17", card.read_bytes().replace(b'"a"', b'"b"')):
        card.write_bytes(content)
        assert not recover.history(paths, print).batches["smoke-train-1"].known


def test_names_of_batches_tell_run_folders_of_the_same_sweep_apart(
    paths: RunPaths, tmp_path: Path
) -> None:
    other = RunPaths(root=tmp_path / "other", sweep="smoke", experiment="e", version="v1")
    names = {recover.batch_name(paths, "train") for _ in range(100)}
    assert len(names) == 100
    assert all(recover.is_own(paths, name) for name in names)
    assert not any(recover.is_own(other, name) for name in names)
    assert not recover.is_own(paths, "smoke-train-1f0c66a2b9"), "an earlier version's"
    (tmp_path / "link").symlink_to(tmp_path)
    linked = RunPaths(root=tmp_path / "link", sweep="smoke", experiment="e", version="v1")
    assert recover.is_own(linked, recover.batch_name(paths, "report"))


def place_of(paths: RunPaths, rows: str) -> tuple[str | None, bool]:
    """The job id at which stage `a` stands, and whether squeue shows it."""

    def call(command: list[str]) -> str:
        return rows if command[0] == "squeue" else ""

    record = {"name": "a", "kind": "train", "needs": (), "fingerprint": "f", "target": {}}
    (seen,) = observe.observe(paths, [record], call, warn=print).seen
    assert seen.place is not None
    return seen.place.job_id, seen.queued


def test_a_stage_stands_where_something_of_it_can_still_run(paths: RunPaths) -> None:
    """Names decide: job 7 of the second row is somebody else's."""
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7")
    send(paths, "smoke-train-2", "a", begun=2.0, job_id="8")
    assert place_of(paths, "") == ("8", False)
    assert place_of(paths, RUNNING) == ("7", True)
    assert place_of(paths, RUNNING + "8|smoke-train-2|PENDING||0:00|N/A|None\n") == ("8", True)
    assert place_of(paths, "8|smoke-train-1|RUNNING|n1|0:10|N/A|None\n") == ("8", False)
    assert place_of(paths, "8|innocent|RUNNING|n1|0:10|N/A|None\n") == ("8", False)


def test_a_job_is_not_held_to_what_another_one_of_its_id_noted(tmp_path: Path) -> None:
    stage = StagePaths(tmp_path)
    write_json(stage.attempt(1), {"attempt": 1, "job_id": "7", "outcome": "failed"})
    assert last_note(stage, "7", "new") is not None, "an earlier version named no batch"
    write_json(stage.attempt(1), {"attempt": 1, "job_id": "7", "batch": "old"})
    assert last_note(stage, "7", "new") is None
    assert last_note(stage, "7", "old") is not None


def running_on(told: list[list[str]], cluster: str = "near", rows: str = "") -> Call:
    """A cluster whose queue has these rows; what it is told is noted."""
    said = {"squeue": rows, "scontrol": f"ClusterName             = {cluster}\n"}

    def call(command: list[str]) -> str:
        told.append(command)
        return said.get(command[0], "")

    return call


RUNNING = "7|smoke-train-1|RUNNING|n1|0:10|N/A|None\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("what", ["lock", "record"])
def test_a_sweep_can_be_cancelled_where_nothing_can_be_written(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, number: int, what: str
) -> None:
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7")
    told, said = list[list[str]](), list[str]()
    before = paths.submissions.read_bytes()
    opened = Path.open

    def unwritable(*given: Any, **named: Any) -> Any:
        if what == "record" or given[0] == paths.driver_lock:
            raise OSError(number, os.strerror(number), str(given[0]))
        return opened(*given, **named)

    monkeypatch.setattr(
        *((submissions, "append") if what == "record" else (Path, "open")), unwritable
    )
    with pytest.raises(
        OSError, match=f"cancelled cannot be noted .{os.strerror(number)}.*end a `f"
    ):
        drive.cancel(paths, say=said.append, call=running_on(told, rows=RUNNING))
    assert told[-1] == ["scancel", "7"]
    assert said == ["cancelled 1 job; `run` or `retry` goes on where they saved"]
    assert paths.submissions.read_bytes() == before


def test_cancel_waits_for_a_driver_at_work_and_then_says_what_to_do(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7")
    told: list[list[str]] = []
    call = running_on(told, rows=RUNNING)
    driver = driving(paths)
    driver.__enter__()
    monkeypatch.setattr(drive, "CANCEL_SECONDS", 0.0)
    with pytest.raises(BlockingIOError) as refused:
        drive.cancel(paths, say=print, call=call)
    who = f"process {os.getpid()} on {os.uname().nodename}"
    assert str(refused.value).startswith(f"{who} since 2")
    assert "stop that process (Ctrl-C), then `cancel` again" in str(refused.value)
    assert told == [] and not read(paths.submissions).held
    assert f"waiting for {who}" in capsys.readouterr().out
    monkeypatch.setattr(drive, "CANCEL_SECONDS", 60.0)

    def end_of_driver(seconds: float) -> None:
        if seconds == LOOK_SECONDS:
            driver.__exit__(None, None, None)

    monkeypatch.setattr("time.sleep", end_of_driver)
    assert drive.cancel(paths, say=print, call=call) == 0
    assert told[-1] == ["scancel", "7"] and read(paths.submissions).held


def planned(paths: RunPaths, *names: str) -> None:
    """A plan of training runs."""
    facts = {"kind": "train", "environment": "base", "needs": [], "fingerprint": "f", "target": {}}
    stages = [facts | {"name": name, "point_id": name} for name in names]
    write_json(paths.plan, {"points": [], "stages": stages})
    write_json(paths.sweep_json, {"declaration": to_dict(config.load("smoke", ["profile=slurm"]))})


def test_another_cluster_than_the_sweeps_decides_nothing_and_cancels_nothing(
    paths: RunPaths,
) -> None:
    planned(paths, "a", "b")
    send(paths, "smoke-train-1", "a", "b", begun=1.0, job_id="7", cluster="near")
    before, told = paths.submissions.read_bytes(), list[list[str]]()
    far = running_on(told, "far")
    words = (
        f"this is cluster far, and 2 stages of {paths.folder} that are not done went to cluster "
        "near, .* give this command on a machine that submits to near, or `cancel` there first"
    )
    for command in (drive.update, partial(drive.follow, seconds=0), drive.cancel):
        with pytest.raises(ValueError, match=words):
            command(paths, say=print, call=far)
    with pytest.raises(ValueError, match=words):
        drive.retry(paths, "a", say=print, call=far)
    warned: list[str] = []
    shown = status.report(paths, warn=warned.append, call=far)
    assert shown["stages"]["waiting"] == 2 and re.search(words, warned[0])
    assert paths.submissions.read_bytes() == before
    assert {command[0] for command in told} == {"squeue", "scontrol"}
    assert drive.cancel(paths, say=print, call=running_on(told, "near")) == 0
    assert tick.tick(paths, say=print, call=far).submit == (), "cancelled at home, it is held"


def test_a_sweep_of_which_nothing_is_left_to_run_is_bound_to_no_cluster(paths: RunPaths) -> None:
    """One stage is done, and the job of the other noted that it failed."""
    planned(paths, "a", "b")
    send(paths, "smoke-train-1", "a", "b", begun=1.0, job_id="7", cluster="near")
    write_json(paths.point("a").done, {"fingerprint": "f", "target": {}})
    note = {"attempt": 1, "job_id": "7_1", "batch": "smoke-train-1", "outcome": "stopped"}
    write_json(paths.point("b").attempt(1), note)
    with pytest.raises(ValueError, match="that is not done went to cluster near"):
        tick.tick(paths, say=print, call=running_on([], "far"))
    write_json(paths.point("b").attempt(1), note | {"outcome": "failed", "exit_code": 1})
    decision = tick.tick(paths, say=print, call=running_on([], "far"))
    assert {name: each.state for name, each in decision.standings.items()} == {
        "a": "done",
        "b": "failed",
    }


def test_where_the_journal_is_lost_the_folders_tell_the_cluster(paths: RunPaths) -> None:
    planned(paths, "a")
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7", cluster="near")
    paths.submissions.unlink()
    with pytest.raises(ValueError, match=r"this is cluster far, .* went to cluster near"):
        drive.cancel(paths, say=print, call=running_on([], "far"))
    assert not paths.submissions.exists()


@pytest.mark.parametrize(
    ("reason", "is_cancelled"),
    [
        ("launch failed requeued held", True),
        ("job requeued in held state", True),
        ("JobHeldUser", True),
        ("Priority", False),
    ],
)
def test_a_report_that_slurm_holds_is_removed_once_every_stage_is_done(
    paths: RunPaths, reason: str, is_cancelled: bool
) -> None:
    planned(paths, "a")
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7")
    report = Batch(name="smoke-report-2", kind="report", begun=1.0)
    submissions.append(paths.submissions, "intent", **report.intent("/code"))
    submissions.append(paths.submissions, "submitted", batch="smoke-report-2", job_id="8")
    waits = f"PENDING||0:00|N/A|{reason}\n"
    rows = f"8|smoke-report-2|{waits}9|others-report-2|{waits}"
    told: list[list[str]] = []
    call = running_on(told, rows=f"{RUNNING}{rows}")
    tick.tick(paths, say=print, call=call)
    assert "scancel" not in {command[0] for command in told}, "a stage is not done"
    write_json(paths.point("a").done, {"fingerprint": "f", "target": {}})
    tick.tick(paths, say=print, call=call)
    cancelled = [command for command in told if command[0] == "scancel"]
    assert cancelled == ([["scancel", "8"]] if is_cancelled else [])
