"""SLURM's programs answer with exit code 0 and nonsense: it is said, and decides nothing.

The cluster is real; scripts in front of its programs print what they should not.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.stages.attempts import attempts
from sweeps.cli import main
from sweeps.slurm import decide, drive, tick
from tests.slurm.running import (
    POINT,
    check_begun_once,
    check_fake,
    fake_until,
    hold,
    job_at_hold,
    start_fake,
)
from tests.slurm.shims import Liar
from tests.support.fake_stage import fake_command
from tests.support.ticking import all_done

pytestmark = pytest.mark.usefixtures("cluster")
SLOW = pytest.mark.slow

PAGE = "echo '<html><title>502 Bad Gateway</title></html>'"
NO_STATE = '$real "$@" | sed -E "s/[|](RUNNING|PENDING)[|]/||/"'
CUT_RANGE = '$real "$@" | sed -E "s/^([0-9]+)_[0-9]+[|]/\\\\1_[7-9,...]|/"'
CUT_LINE = '$real "$@" | head -c 30'
NOTHING = "exit 0"
LONG_AGO = (
    '$real "$@" | sed -E "s/[|](RUNNING|PENDING)[|]/|COMPLETED|/; s/Unknown/2020-01-01T00:00:00/"'
)
UNSHOWN = "squeue does not show it, but scontrol does"
SHOWN = {
    PAGE: "`squeue` printed what makes no sense",
    NO_STATE: "`squeue` printed what makes no sense",
    CUT_RANGE: "`squeue` printed what makes no sense",
    CUT_LINE: "`squeue` printed what makes no sense",
    NOTHING: UNSHOWN,
}


@pytest.mark.fault
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(PAGE, id="a-page"),
        pytest.param(NO_STATE, id="no-state", marks=SLOW),
        pytest.param(CUT_RANGE, id="a-cut-range", marks=SLOW),
        pytest.param(CUT_LINE, id="a-cut-line", marks=SLOW),
        pytest.param(NOTHING, id="nothing", marks=SLOW),
    ],
)
def test_while_squeue_makes_no_sense_nothing_is_decided(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
) -> None:
    squeue = Liar("squeue", script, tmp_path / "bin", monkeypatch)
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
        told = capsys.readouterr().out + decision.standings[POINT].exit_reason
        assert SHOWN[script] in told
        assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
        said = capsys.readouterr()
        assert SHOWN[script] in said.out + said.err
        (row,) = [line.split() for line in said.out.splitlines() if line.startswith(POINT + "  tr")]
        assert row[:3] == [POINT, "train", "running"]
    assert paths.submissions.read_bytes() == before
    hold(tmp_path).unlink()
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param(PAGE, UNSHOWN, id="a-page"),
        pytest.param(NO_STATE, UNSHOWN, id="no-state"),
        pytest.param(LONG_AGO, "at work, though SLURM shows it ended", id="ended-long-ago"),
    ],
)
def test_where_sacct_makes_no_sense_controller_and_locks_tell_what_is_not_lost(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    words: str,
) -> None:
    squeue = Liar("squeue", NOTHING, tmp_path / "bin", monkeypatch)
    sacct = Liar("sacct", script, tmp_path / "bin", monkeypatch)
    monkeypatch.setattr(decide, "GRACE_SECONDS", 0.0)
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    job_at_hold(paths)
    time.sleep(2)  # until accounting has heard of it
    before = paths.submissions.read_bytes()
    with squeue.lying(), sacct.lying():
        decision = tick.tick(paths, say=print, command=fake_command)
    told = "warning: `sacct` printed what makes no sense" in capsys.readouterr().out
    assert told == (script != LONG_AGO)
    assert (decision.submit, decision.cancel) == ((), ())
    assert decision.standings[POINT].exit_reason == words
    assert paths.submissions.read_bytes() == before
    hold(tmp_path).unlink()
    fake_until(paths, all_done)
    check_fake(paths)
    check_begun_once(paths)


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
