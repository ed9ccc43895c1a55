"""SLURM's programs answer with exit code 0 and nonsense: it is said, and decides nothing.

A table of answers at the process boundary, and a real cluster with scripts before its programs.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.locks import locked
from sweeps.cli import main
from sweeps.slurm import decide, drive, tick
from tests.slurm.running import (
    POINT,
    all_done,
    check_begun_once,
    check_fake,
    fake_until,
    hold,
    job_at_hold,
    start_fake,
)
from tests.slurm.shims import Liar
from tests.support.fake_stage import fake_command
from tests.support.sent import RUNNING, planned, send

PAGE = "<html><title>502 Bad Gateway</title></html>"
SENSE = "printed what makes no sense"
UNSHOWN = "squeue does not show it, but scontrol does"
SHOWN = "JobId=7 JobName=smoke-train-1 JobState=RUNNING\n"
NO_STATE, CUT_LINE = RUNNING.replace("|RUNNING|", "||"), RUNNING[:30]
CUT_RANGE = RUNNING.replace("7|", "7_[7-9,...]|", 1)
LONG_AGO = RUNNING.replace("RUNNING", "COMPLETED").replace("N/A", "2020-01-01T00:00:00")


@pytest.mark.parametrize(
    ("rows", "accounts", "told", "exit_reason"),
    [
        pytest.param(PAGE, "", f"`squeue` {SENSE}", None, id="a-page"),
        pytest.param(NO_STATE, "", f"`squeue` {SENSE}", None, id="no-state"),
        pytest.param(CUT_RANGE, "", f"`squeue` {SENSE}", None, id="a-cut-range"),
        pytest.param(CUT_LINE, "", f"`squeue` {SENSE}", None, id="a-cut-line"),
        pytest.param("", "", "", UNSHOWN, id="nothing"),
        pytest.param("", PAGE, f"`sacct` {SENSE}", UNSHOWN, id="accounts-a-page"),
        pytest.param("", NO_STATE, f"`sacct` {SENSE}", UNSHOWN, id="accounts-no-state"),
        pytest.param(
            "", LONG_AGO, "", "at work, though SLURM shows it ended", id="accounts-ended-long-ago"
        ),
    ],
)
def test_whatever_the_programs_print_what_is_at_work_is_not_sent_again(
    tmp_path: Path, rows: str, accounts: str, told: str, exit_reason: str | None
) -> None:
    """The job was sent long ago, and its stage holds its lock."""
    paths = RunPaths(root=tmp_path, sweep="smoke", experiment="e", version="v1")
    planned(paths, "a")
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7")
    before, called, said = paths.submissions.read_bytes(), set[str](), list[str]()
    answers = {"squeue": rows, "sacct": accounts, "scontrol": SHOWN}

    def call(command: list[str]) -> str:
        called.add(command[0])
        return answers[command[0]]

    with locked(paths.point("a").lock, wait=False, what="a worker"):
        decision = tick.tick(paths, say=said.append, call=call)
    assert (decision.submit, decision.cancel) == ((), ())
    assert decision.standings["a"].state == "active"
    assert exit_reason in (None, decision.standings["a"].exit_reason)
    assert any(told in line for line in said) if told else not any(SENSE in line for line in said)
    assert paths.submissions.read_bytes() == before and called <= {*answers}


@pytest.mark.usefixtures("cluster")
@pytest.mark.fault
def test_while_squeue_makes_no_sense_nothing_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    squeue = Liar("squeue", f"echo '{PAGE}'", tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(decide, "GRACE_SECONDS", 0.0)
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    job_at_hold(paths)
    before = paths.submissions.read_bytes()
    capsys.readouterr()
    with squeue.lying():
        decision = tick.tick(paths, say=print, command=fake_command)
        assert (decision.submit, decision.cancel) == ((), ())
        assert decision.standings[POINT].state == "active"
        assert f"`squeue` {SENSE}" in capsys.readouterr().out
        assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
        said = capsys.readouterr()
        assert f"`squeue` {SENSE}" in said.out + said.err
        (row,) = [line.split() for line in said.out.splitlines() if line.startswith(POINT + "  tr")]
        assert row[:3] == [POINT, "train", "running"]
    assert paths.submissions.read_bytes() == before
    hold(tmp_path).unlink()
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


@pytest.mark.usefixtures("cluster")
@pytest.mark.fault
def test_a_controller_whose_clock_is_an_hour_behind_is_told_of_when_jobs_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    date = "$(date -d '1 hour ago' +%Y-%m-%dT%H:%M:%S)"
    script = f'$real "$@" | sed "s/data as of .*/data as of {date}/"'
    scontrol = Liar("scontrol", script, tmp_path / "bin", monkeypatch)
    with scontrol.lying():
        paths = start_fake(tmp_path, monkeypatch)
    said = capsys.readouterr().out
    assert "warning: this machine's clock is 1 h 00 min ahead of that of SLURM's controller" in said
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.fault
def test_a_sweep_that_was_sent_from_a_machine_an_hour_ahead_is_done_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = partial(tick.tick, clock=lambda: time.time() + 3600)
    with monkeypatch.context() as patch:
        patch.setattr(drive, "tick", ahead)
        paths = start_fake(tmp_path, monkeypatch)
    assert len(attempts(paths.point(POINT))) <= 1
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)
