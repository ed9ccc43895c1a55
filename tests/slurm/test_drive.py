"""The commands of a sweep, with SLURM's programs answering as told: no cluster is needed."""

from __future__ import annotations

import errno
import os
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.command.runs import address
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import config
from fgrpo_bench.stages.locks import LOOK_SECONDS, driving, is_locked, locked
from sweeps.cli import main
from sweeps.freeze import run_paths
from sweeps.slurm import drive, scheduler, submissions, tick
from sweeps.slurm.submissions import JobBatch, read
from tests.slurm.running import POINT
from tests.support.sent import RUNNING, planned, running_on, send, submitted
from tests.support.slurm_programs import CONFIG, SBATCH, Programs

HANGS = 'case "$*" in *--test-only*) exit 0;; esac; exec sleep 600'


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(root=tmp_path, sweep="smoke", experiment="e", version="v1")


def test_an_sbatch_that_hangs_is_given_up_and_what_slurm_has_of_it_is_found_out_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    programs.install("sbatch", HANGS)

    def call(command: list[str]) -> str:
        with monkeypatch.context() as patch:
            if command[0] == "sbatch" and "--test-only" not in command:
                patch.setattr(scheduler, "CALL_SECONDS", 1.0)
            return scheduler.call(command)

    words = "`sbatch` gave no answer in 1 s.* Whether SLURM has the warmup jobs is not known yet"
    with pytest.raises(ConnectionError, match=words):
        submitted(tmp_path, call=call)
    assert "waiting for `sbatch`, 1 s at most" in capsys.readouterr().err
    paths = run_paths(config.load("smoke", [f"run_root='{tmp_path}'"]))
    assert not is_locked(paths.driver_lock)
    (unknown,) = submissions.read(paths.submissions).batches
    queue = f"echo '7|{unknown}|PENDING||0:00|N/A|Priority'"  # sbatch had sent it before it hung
    programs.install("squeue", queue)
    programs.install("sbatch", SBATCH.format(calls=programs.folder / "calls", folder=tmp_path))
    tick.tick(paths, say=print, clock=lambda: time.time() + 100)
    assert "scancel 7" in programs.calls()
    first, *others = submissions.read(paths.submissions).batches.values()
    assert first.name == unknown and first.void
    assert [batch.kind for batch in others] == ["warmup", "train", "evaluate", "evaluate", "report"]


@pytest.mark.parametrize("others", [[], ["version=v2"]], ids=["alone", "beside-another-version"])
def test_the_commands_that_a_run_names_work_as_they_are_printed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    others: list[str],
) -> None:
    Programs(tmp_path / "bin", monkeypatch)
    root = tmp_path / "my runs"
    for override in others:
        submitted(root, override)
    capsys.readouterr()
    submitted(root)
    status, follow = re.findall("`fgrpo-bench sweep ([^`]+)`", capsys.readouterr().out)
    assert follow == status.replace("status", "follow", 1)
    assert ("smoke/countdown-tiny/v1" in status) == bool(others)
    assert main(shlex.split(status)) == 0
    assert str(root / "smoke/countdown-tiny/v1") in capsys.readouterr().out
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(root))
    paths = RunPaths(root=root, sweep="smoke", experiment="countdown-tiny", version="v1")
    assert address(paths) == status.removeprefix("status ").rpartition(" 'run_root=")[0]


def test_retry_says_that_there_is_nothing_to_retry_and_takes_a_point_as_logs_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    paths = submitted(tmp_path)
    batches = submissions.read(paths.submissions).batches.values()
    rows = [
        f"{batch.element(index)}|{batch.name}|{state}|n1|0:10|N/A|{reason}"
        for batch in batches
        for state, reason in [
            ("PENDING", "Dependency") if batch.kind == "evaluate" else ("RUNNING", "None")
        ]
        for index in range(batch.size)
    ]
    programs.install("squeue", f"cat <<'END'\n{chr(10).join(rows)}\nEND")
    for words in ([POINT], ["--point", POINT]):
        capsys.readouterr()
        assert main(["retry", "smoke", *words, f"run_root={tmp_path}"]) == 0
        said = capsys.readouterr().out
        assert said == f"{POINT}: 2 active (Dependency 1); nothing to retry\n"
    both = ["retry", "smoke", POINT, "--point", POINT]
    for words, said in ((["retry", "smoke", "nope"], "unknown point"), (both, "says nothing here")):
        assert main([*words, f"run_root={tmp_path}"]) == 2
        assert said in capsys.readouterr().err
    assert main(["retry", "smoke", "nope", f"run_root={tmp_path}"]) == 2
    assert "unknown point 'nope': there are base-s11, " in capsys.readouterr().err
    assert len(submissions.read(paths.submissions).batches) == len(batches)


def test_another_users_sweep_is_refused_before_its_plan_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder may be written and the record of submissions not, as with umask 002."""
    programs = Programs(tmp_path / "bin", monkeypatch)
    paths = submitted(tmp_path)
    kept = (paths.plan, paths.sweep_json, paths.submissions)
    before = [path.read_bytes() for path in kept]
    opened = os.open

    def refusing(path: Any, flags: int, *mode: Any, **named: Any) -> int:
        if path == paths.submissions and flags & os.O_WRONLY:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *mode, **named)

    monkeypatch.setattr(os, "open", refusing)
    more = ["profile=slurm", "sweep.grid.seed=[11,12]"]
    for command in (["run", *more], ["tick"], ["follow"], ["cancel"], ["retry"]):
        sent = programs.calls()
        assert main([command[0], "smoke", *command[1:], f"run_root={tmp_path}"]) == 2
        said = capsys.readouterr().err
        owner = paths.submissions.owner()
        assert f"{paths.submissions} is {owner}'s and cannot be written by you" in said
        assert f"jobs are {owner}'s" in said and "run_root=<folder>" in said
        asked = [each for each in programs.calls()[len(sent) :] if "--test-only" not in each]
        assert not [each for each in asked if each.startswith(("sbatch", "scancel"))]
    assert [path.read_bytes() for path in kept] == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.ESTALE, errno.EIO])
@pytest.mark.parametrize("what", ["lock", "record"])
def test_a_sweep_can_be_cancelled_where_nothing_can_be_written(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, number: int, what: str
) -> None:
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7")
    told, said = list[list[str]](), list[str]()
    before = paths.submissions.read_bytes()
    file = {"lock": paths.driver_lock, "record": paths.submissions}[what]

    def read_only(opened: Callable[..., Any]) -> Callable[..., Any]:
        def refusing(path: Any, *given: Any, **named: Any) -> Any:
            if path == file and named.get("mode", given[:1]) not in ("r", "rb"):
                raise OSError(number, os.strerror(number), str(path))
            return opened(path, *given, **named)

        return refusing

    monkeypatch.setattr(os, "open", read_only(os.open))
    monkeypatch.setattr(Path, "open", read_only(Path.open))
    with pytest.raises(
        OSError, match=f"cancelled cannot be noted .{os.strerror(number)}.*end a `f"
    ):
        drive.cancel(paths, say=said.append, call=running_on(told, rows=RUNNING))
    assert told[-1] == ["scancel", "7"]
    assert said == ["cancelled 1 job; `run` or `retry` resumes them where they saved"]
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
    report = JobBatch(name="smoke-report-2", kind="report", begun=1.0)
    submissions.append(paths.submissions, report.intent("/code"))
    submissions.append(paths.submissions, submissions.Submitted(batch="smoke-report-2", job_id="8"))
    waits = f"PENDING||0:00|N/A|{reason}\n"
    rows = f"8|smoke-report-2|{waits}9|others-report-2|{waits}"
    told: list[list[str]] = []
    call = running_on(told, rows=f"{RUNNING}{rows}")
    tick.tick(paths, say=print, call=call)
    assert "scancel" not in {command[0] for command in told}, "a stage is not done"
    write_json(paths.point("a").done, {"fingerprint": "f", "target": {}, "outputs": {}})
    tick.tick(paths, say=print, call=call)
    cancelled = [command for command in told if command[0] == "scancel"]
    assert cancelled == ([["scancel", "8"]] if is_cancelled else [])


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
        shown = drive.report(paths, warn=said.append, call=call)
    assert shown["stages"] == {"running": 1}
    assert (decision.submit, decision.cancel) == ((), ())
    assert decision.standings["a"].state == "active"
    assert exit_reason in (None, decision.standings["a"].exit_reason)
    assert any(told in line for line in said) if told else not any(SENSE in line for line in said)
    assert paths.submissions.read_bytes() == before and called <= {*answers}


def test_a_controller_whose_clock_is_an_hour_behind_is_told_of_when_jobs_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = "echo Configuration data as of $(date -d '1 hour ago' +%Y-%m-%dT%H:%M:%S)"
    Programs(tmp_path / "bin", monkeypatch).install("scontrol", f"{clock}; {CONFIG}")
    submitted(tmp_path)
    said = capsys.readouterr().out
    assert "warning: this machine's clock is 1 h 00 min ahead of that of SLURM's controller" in said
