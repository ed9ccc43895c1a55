"""The commands of a sweep, with SLURM's programs answering as told: no cluster is needed."""

from __future__ import annotations

import errno
import os
import re
import shlex
import time
from collections.abc import Callable
from functools import partial
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
from sweeps.slurm.packing import sent_file
from sweeps.slurm.submissions import JobBatch, read
from tests.slurm.running import POINT
from tests.support.sent import RUNNING, Queue, planned, running_on, send, submitted
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


DOWN = ConnectionError("`squeue` cannot reach SLURM: Unable to contact slurm controller")


@pytest.mark.fault
def test_while_the_controller_is_down_status_tells_what_the_files_say_and_nothing_else_is_done(
    tmp_path: Path,
) -> None:
    queue = Queue()
    paths = submitted(tmp_path, call=queue)
    before, queue.refusals["squeue"] = paths.submissions.read_bytes(), DOWN
    warned = list[str]()
    shown = drive.report(paths, warn=warned.append, call=queue)
    assert "SLURM was not asked, so this is what the files tell: `squeue` cannot" in warned[0]
    assert shown["stages"] == {"waiting": 6}
    for command in (tick.tick, drive.cancel, partial(drive.retry, point_id=None)):
        with pytest.raises(ConnectionError, match="Unable to contact"):
            command(paths, say=print, call=queue)
    assert paths.submissions.read_bytes() == before
    with pytest.raises(KeyboardInterrupt):
        drive.follow(paths, seconds=0, say=_until("6 active", queue), call=queue)


def _until(last: str, queue: Queue) -> Callable[[str], None]:
    """`say` of a `follow` that is told that the controller is down, which then is up."""

    def say(text: str) -> None:
        queue.refusals.clear()
        if last in text:
            raise KeyboardInterrupt

    return say


@pytest.mark.fault
def test_jobs_that_end_while_accounting_is_down_are_judged_when_it_is_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controller has forgotten them."""
    queue = Queue()
    paths = submitted(tmp_path, call=queue)
    (job,) = (job for job in queue.active() if "-warmup-" in job.name)
    del queue.jobs[job.job_id]
    queue.refusals["sacct"] = ValueError("`sacct` was refused by SLURM: Connection refused")
    unknown = tick.tick(paths, say=print, call=queue)
    assert "warning: accounting gives no answer" in capsys.readouterr().out
    assert unknown.standings["_warmup/s11"].state == "active", "nobody can tell yet"
    assert unknown.submit == ()
    queue.refusals.clear()

    def call(command: list[str]) -> str:
        row = f"{job.job_id}|{job.name}|FAILED|n1|0:10|2020-01-01T00:00:00|None\n"
        return row if command[0] == "sacct" else queue(command)

    assert tick.tick(paths, say=print, call=call).standings["_warmup/s11"].state == "failed"


@pytest.mark.fault
def test_where_slurm_refuses_the_second_array_the_first_is_taken_back(tmp_path: Path) -> None:
    queue = Queue()

    def call(command: list[str]) -> str:
        if command[0] == "sbatch" and "-train-" in command[-1] and len(command) == 2:
            raise ValueError("sbatch: error: Invalid job array specification")
        return queue(command)

    with pytest.raises(ValueError, match="it said: sbatch: error: Invalid job array specification"):
        submitted(tmp_path, call=call)
    assert queue.jobs and queue.active() == []
    paths = run_paths(config.load("smoke", [f"run_root='{tmp_path}'"]))
    assert all(batch.void for batch in submissions.read(paths.submissions).batches.values())


def test_what_a_wrapper_of_sbatch_prints_is_not_taken_for_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    banner = "echo 'Note: every job 24 hours or longer needs approval'"
    sbatch = SBATCH.format(calls=programs.folder / "calls", folder=programs.folder)
    programs.install("sbatch", f"{banner}\n{sbatch}")
    paths = submitted(tmp_path)
    ids = [batch.job_id for batch in read(paths.submissions).batches.values()]
    assert "24" not in ids and len({*ids}) == len(ids) == 5


@pytest.mark.fault
def test_jobs_that_were_renamed_are_neither_sent_again_nor_left_by_cancel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of them by a driver that died before it knew the id."""
    queue = Queue()
    paths = submitted(tmp_path, call=queue)
    lines = paths.submissions.read_bytes().splitlines(keepends=True)
    submitted_train = next(
        n for n, line in enumerate(lines) if b'"submitted"' in line and b"-train-" in line
    )
    paths.submissions.write_bytes(b"".join(lines[:submitted_train] + lines[submitted_train + 1 :]))

    def call(command: list[str]) -> str:
        """Everything is called mywork."""
        if command[0] != "squeue":
            return queue(command)
        rows = [line.split("|") for line in queue(["squeue"]).splitlines()]
        names = {*command[-1].removeprefix("--name=").split(",")}
        shown = [row for row in rows if "--name=" not in command[-1] or "mywork" in names]
        return "".join("|".join([row[0], "mywork", *row[2:]]) + "\n" for row in shown)

    capsys.readouterr()
    decision = tick.tick(paths, say=print, call=call, clock=lambda: time.time() + 1000)
    assert decision.submit == () and len(queue.active()) == 7
    assert "SLURM shows 7 jobs of this sweep under another name (mywork)" in capsys.readouterr().out
    assert all(batch.job_id for batch in read(paths.submissions).batches.values())
    drive.cancel(paths, call=call)
    assert "cancelled 7 jobs" in capsys.readouterr().out
    assert queue.active() == []


@pytest.mark.fault
def test_a_stage_that_was_out_of_memory_gets_half_as_much_again_as_long_as_a_node_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = Queue()
    paths = submitted(tmp_path, "profile.memory_growth=true", "profile.mem_gb=40", call=queue)
    asked = list[str]()
    for _ in range(2):
        (job,) = (job for job in queue.active() if "-warmup-" in job.name)
        asked += re.findall(
            r"--mem=(\S+)", sent_file(paths.batch(job.name), job.job_id).read_text()
        )
        queue.change(job.job_id, state="OUT_OF_MEMORY", ended=0.0)
        decision = tick.tick(paths, say=print, call=queue)
    assert asked == ["40960MB", "61440MB"]
    assert "out of memory (1.5 times profile.mem_gb is next)" in capsys.readouterr().out
    given_up = decision.standings["_warmup/s11"]
    assert given_up.state == "failed", "its node has 64000 MB"
    assert "raise profile.mem_gb, or set profile.memory_growth" in given_up.exit_reason


def test_a_run_says_what_the_shell_sets_and_jobs_do_not_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SBATCH_TIMELIMIT", "2")
    submitted(tmp_path, call=Queue())
    assert capsys.readouterr().out.count("SBATCH_TIMELIMIT (profile.time_minutes)") == 1


def test_a_run_root_that_slurm_would_expand_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match="SLURM reads % in the names of files"):
        submitted(tmp_path / "x%j", call=Queue())
    assert not (tmp_path / "x%j").exists()
