"""Why a job failed that is not its stage's fault, and what becomes of it: no SLURM is asked."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.stages import attempts as of_stages
from fgrpo_bench.stages.attempts import Note, attempts, end
from fgrpo_bench.stages.locks import is_locked, locked
from fgrpo_bench.stages.watch import Progress
from sweeps import REPOSITORY
from sweeps.slurm import drive, submissions
from sweeps.slurm.attempts import (
    IDLE_ATTEMPTS,
    UNREADY,
    check_room,
    damaged_path,
    failure_reason,
    is_memory_kill,
    last_output_line,
    no_progress,
    start_failure,
)
from sweeps.slurm.code import freeze_code
from sweeps.slurm.decide import (
    STALE_RESOURCES,
    Decision,
    StageDecision,
    StageObservation,
    decide,
    decide_stage,
    remedy,
)
from sweeps.slurm.drive import standing_now, stuck
from sweeps.slurm.packing import Packing, output_file
from sweeps.slurm.payload import Payload
from sweeps.slurm.scheduler import Job
from sweeps.slurm.submissions import JobBatch, Place
from sweeps.slurm.submit import options
from tests.support.plans import planned as planned_sweep
from tests.support.sent import planned, stage_record
from tests.support.slurm_programs import Programs

FULL = os.strerror(errno.ENOSPC)
NOW = 1_000_000.0


@pytest.fixture
def stage(tmp_path: Path) -> StagePaths:
    paths = StagePaths(tmp_path / "point")
    write_json(paths.spec, {"kind": "train", "fingerprint": "ff", "target": {}})
    paths.logs.mkdir()
    return paths


def observation(state: str = "FAILED", **facts: Any) -> StageObservation:
    batch = JobBatch(name="b", kind="train", stages=("p",), begun=NOW - 9000, job_id="12")
    job = Job(job_id="12", name="b", state=state, ended=NOW - 5000)
    if isinstance(note := facts.get("note"), dict):
        facts["note"] = Note.parsed({"attempt": 1} | note)
    defaults: dict[str, Any] = {"record": stage_record("p"), "done": False}
    defaults |= {"attempts": 1, "place": Place(batch=batch, index=0), "job": job, "queued": True}
    return StageObservation(**(defaults | facts))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (f"OSError: [Errno 28] cannot append to /r/a.jsonl: {FULL}; nothing w", "/r/a.jsonl"),
        (f"OSError: [Errno 28] {FULL}: '/r/b'", "'/r/b'"),
        (f"RuntimeError: write failed: {FULL}", "(it wrote "),
        ("OSError: [Errno 122] cannot write /r/c: Disk quota exceeded", "/r/c"),
    ],
)
def test_a_log_that_says_that_the_disk_is_full_names_the_file(
    stage: StagePaths, log: str, words: str
) -> None:
    stage.log(1).write_text(f"step 1\nTraceback\n{log}\nstep 2 was not made\n")
    why = failure_reason(stage, stage.log(1), REPOSITORY)
    assert why is not None and why.startswith("disk full: ") and words in why
    note = {"outcome": "failed", "exit_code": 1, "why": why}
    standing = decide_stage(observation(note=note), now=NOW, max_attempts=3)
    assert (standing.state, standing.exit_reason) == ("again", why)


def test_what_has_another_cause_is_the_stages_own_fault(stage: StagePaths) -> None:
    stage.log(1).write_text("RuntimeError: the loss is not finite\n")
    assert failure_reason(stage, stage.log(1), REPOSITORY) is None
    assert failure_reason(stage, stage.log(2), REPOSITORY) is None


def test_a_disk_that_takes_no_more_is_named_before_anything_is_sent(
    stage: StagePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_room(stage.folder)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, FULL)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=f"disk full: cannot write under {stage.folder}: {FULL}; noth"
    ):
        check_room(stage.folder)
    stage.log(1).write_text("")
    assert f"under {stage.folder}" in str(failure_reason(stage, stage.log(1), REPOSITORY))


def test_on_a_full_disk_the_end_of_an_attempt_is_noted_over_its_beginning(
    stage: StagePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = Note(attempt=1, job_id="12", batch="b")
    write_json(stage.attempt(1), note.as_json())

    def full(path: Path, value: object) -> None:
        raise OSError(errno.ENOSPC, f"cannot write {path}")

    monkeypatch.setattr(of_stages, "write_json", full)
    end(stage, note, exit_code=1, outcome="failed", seconds=1.0, why="disk full: ...")
    (kept,) = attempts(stage)
    assert (kept.why, kept.outcome, kept.job_id) == ("disk full: ...", "failed", "12")


def test_a_lock_holds_on_a_full_disk_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int, content: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, FULL)

    monkeypatch.setattr(os, "pwrite", full)
    with locked(tmp_path / "lock", wait=False, what="it"):
        assert is_locked(tmp_path / "lock")
    assert not is_locked(tmp_path / "lock")


@pytest.mark.parametrize(
    ("said", "exit_reason"),
    [
        (
            "a/b.py: FAILED open or read\nc.py: FAILED\nsha256sum: WARNING: 1 listed file ...\n",
            "a/b.py is missing and 1 more",
        ),
        ("c.py: FAILED\n", "c.py was changed"),
        ("line 31: cd: /r/code/ab: No such file\n", "line 31: cd: /r/code/ab"),
    ],
)
def test_a_job_that_found_its_code_damaged_did_not_never_start(
    tmp_path: Path, said: str, exit_reason: str
) -> None:
    damaged_path(tmp_path, "12_3").write_text(said)
    note = start_failure(tmp_path, "12_3")
    standing = decide_stage(observation(note=note), now=NOW, max_attempts=3)
    assert standing.state == "again"
    assert standing.exit_reason.startswith(f"its code was damaged: {exit_reason}")
    assert start_failure(tmp_path, "12_4") is None


def test_a_job_that_could_not_even_write_its_log_met_a_full_disk(tmp_path: Path) -> None:
    output_file(tmp_path, "12").touch()
    note = start_failure(tmp_path, "12")
    assert note is not None and note.why.startswith("disk full? it could not even write its log")
    output_file(tmp_path, "12").write_text(f"OSError: [Errno 28] cannot write /r/x: {FULL}\n")
    note = start_failure(tmp_path, "12")
    assert note is not None and note.why == f"disk full: cannot write /r/x: {FULL}"
    output_file(tmp_path, "12").write_text("ModuleNotFoundError: No module named 'numpy'\n")
    assert start_failure(tmp_path, "12") is None


@pytest.mark.parametrize(
    ("lines", "note", "exit_reason"),
    [
        (
            "ModuleNotFoundError: No module named 'submitit'\n",
            None,
            "never started: ModuleNotFoundError: No module named 'submitit' ({output})",
        ),
        ("", None, "never started"),
        (
            "Traceback (most recent call last):\nRuntimeError: /r/p is gone: was it moved?\n",
            {"attempt": 1},
            "its job failed: RuntimeError: /r/p is gone: was it moved? ({output})",
        ),
        ("step 3/8\x1b[2J\n", {"attempt": 1}, "killed (by hand, with its node, or for want of"),
    ],
)
def test_a_job_that_noted_no_end_is_told_by_its_own_last_line(
    tmp_path: Path, lines: str, note: dict[str, Any] | None, exit_reason: str
) -> None:
    output = output_file(tmp_path, "12")
    output.write_text(lines and f"{lines}srun: error: n1: task 0: Exited with exit code 1\n")
    said = last_output_line(output)
    assert "\x1b" not in said and "srun" not in said
    standing = decide_stage(observation(note=note, last_output=said), now=NOW, max_attempts=3)
    assert standing.exit_reason.startswith(exit_reason.format(output=output))
    assert last_output_line(tmp_path / "none") == ""


@pytest.mark.parametrize(
    ("line", "is_memory"),
    [
        (
            "slurmstepd-n1: error: StepId=29.0 exceeded memory limit (2126 > 1614), being killed",
            True,
        ),
        ("slurmstepd: error: Exceeded job memory limit", True),
        (
            "slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=3.0. Some of your "
            "processes may have been killed by the cgroup out-of-memory handler.",
            True,
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=3.0. Some of the step tasks",
            True,
        ),
        ("srun: error: n1: task 0: Out Of Memory", True),
        ("slurmstepd: error: *** STEP 29.0 ON n1 CANCELLED AT 2026-11-28T11:09:34 ***", False),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", False),
        ("the stage says: oom-kill", False),
    ],
)
def test_slurms_own_words_tell_a_kill_for_memory(
    tmp_path: Path, line: str, is_memory: bool
) -> None:
    output = output_file(tmp_path, "12")
    output.write_text(f"submitit INFO - Loading pickle\n{line}\nsrun: error: n1: task 0: Killed\n")
    assert is_memory_kill(output) == is_memory
    assert not is_memory_kill(tmp_path / "none")


def test_an_attempt_that_fails_while_its_code_goes_says_that_it_was_the_code(
    stage: StagePaths, tmp_path: Path
) -> None:
    checkout = tmp_path / "checkout" / "sweeps"
    checkout.mkdir(parents=True)
    (checkout / "late.py").write_text("")
    code = freeze_code(tmp_path / "code", checkout.parent)
    fails = "import pathlib; pathlib.Path('sweeps/late.py').unlink(); import sweeps.late"
    payload = Payload(
        folder=str(stage.folder),
        needs=(),
        command=(sys.executable, "-c", fails),
        cwd=str(code),
        environment=(("PYTHONPATH", str(code)),),
        batch="b",
    )
    file = tmp_path / "payload.pkl"
    file.write_bytes(pickle.dumps(payload))
    run = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))()"
    done = subprocess.run(
        [sys.executable, "-c", run, str(file)], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "its code was damaged: sweeps/late.py is missing" in done.stderr
    assert attempts(stage)[-1].why == "its code was damaged: sweeps/late.py is missing"


def test_what_stands_still_is_given_up_whatever_ended_it(stage: StagePaths) -> None:
    began = [Note(attempt=n, from_step=step) for n, step in enumerate((None, 4, 4, 4), 1)]
    write_json(stage.progress, Progress(step=4, of=8, eta_seconds=None).as_json())
    assert no_progress(stage, began)
    assert not no_progress(stage, began[:-1]), "the first of these three brought it from 0 to 4"
    assert not no_progress(stage, [*began[:-1], replace(began[-1], outcome=UNREADY)])
    fates = {"FAILED": "killed", "NODE_FAIL": "node failure", "TIMEOUT": "timed"}
    for state, exit_reason in fates.items():
        idle = observation(state, note={"attempt": 3}, idle=True, starts=3)
        standing = decide_stage(idle, now=NOW, max_attempts=9)
        assert standing.state == "failed"
        assert standing.exit_reason.startswith(exit_reason)
        assert f"it got no further in {IDLE_ATTEMPTS} attempts" in standing.exit_reason
    unready = observation(note={"outcome": UNREADY}, idle=True)
    assert decide_stage(unready, now=NOW, max_attempts=9).state == "again"
    allowed = observation(note={"attempt": 3}, idle=True, attempts=0)
    assert decide_stage(allowed, now=NOW, max_attempts=9).state == "again"


def test_only_what_waits_is_sent_again_when_something_else_is_asked_for() -> None:
    waits = observation("PENDING", anew="--time=2 in place of --time=5")
    decision = decide([waits], now=NOW, max_attempts=1)
    assert decision.standings["p"].exit_reason == STALE_RESOURCES
    assert (decision.cancel, decision.uncount) == ((waits.job,), ("p",))
    assert [record.name for record in decision.submit] == ["p"]
    runs = decide_stage(
        observation("RUNNING", anew="--time=2 in place of --time=5"), now=NOW, max_attempts=1
    )
    assert (runs.state, runs.cancel) == ("active", None)


def test_what_a_batch_asks_of_slurm_leaves_out_what_is_its_own() -> None:
    text = "#!/bin/bash\n#SBATCH --time=5\n#SBATCH --requeue\n#SBATCH --array=0-3%2\n"
    text += "#SBATCH --job-name=b\n#SBATCH --dependency=afterok:7\n#SBATCH --output=/x\nsrun x\n"
    assert options(text) == {"time": "5", "requeue": ""}


def decided(**fates: str) -> Decision:
    """What an update says: done, failed, or active with this reason of SLURM's."""
    standings = {
        name: StageDecision(state=fate)
        if fate in ("done", "failed")
        else StageDecision(state="active", exit_reason=fate)
        for name, fate in fates.items()
    }
    return Decision(standings=standings, cancel=(), submit=(), uncount=())


def test_why_jobs_wait_is_counted_and_what_no_waiting_ends_comes_with_a_remedy() -> None:
    wall = "QOSMaxWallDurationPerJobLimit"
    decision = decided(a=wall, b=wall, c="Dependency", d="done", e="")
    assert standing_now(decision) == f"4 active (Dependency 1, {wall} 2), 1 done"
    (line,) = stuck(decision)
    assert line.startswith(f"2 stages (a, ...) will not begin by waiting, as SLURM says {wall}")
    assert line.endswith(f": {remedy(wall)}")
    assert stuck(decided(c="Priority", e="QOSMaxJobsPerUserLimit")) == []


@pytest.mark.slow
def test_where_what_jobs_run_cannot_be_written_nothing_is_left_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Programs(tmp_path / "bin", monkeypatch)

    def full(packing: Packing, jobs: object, call: object) -> str:
        raise OSError(errno.ENOSPC, FULL)

    monkeypatch.setattr(Packing, "send", full)
    paths, plan = planned_sweep(tmp_path, "smoke", "profile=slurm")
    with pytest.raises(OSError, match=f"jobs run, under {paths.folder}/slurm: {FULL}; nothing of"):
        drive.run(plan.declaration, say=lambda text: None)
    batches = submissions.read(paths.submissions).batches.values()
    assert [batch.void for batch in batches] == [True]


@pytest.fixture
def follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, list[str], list[bool]]]:
    """follow(answers of an update, in order) -> exit code, what was said, which looks at MLflow
    there were and whether each was the last."""

    def call(*answers: Decision | OSError) -> tuple[int, list[str], list[bool]]:
        left, said, looks = list(answers), list[str](), list[bool]()

        class Recorder:
            def __init__(self, paths: RunPaths, say: Callable[[str], None]) -> None:
                assert paths.root == tmp_path

            def look(self, *, last: bool = False) -> None:
                looks.append(last)

        def update(paths: RunPaths, *, say: Callable[[str], None], **given: object) -> Decision:
            answer = left.pop(0)
            if isinstance(answer, OSError):
                raise answer
            say(f"warning: a batch was sent {len(left)} min from now")
            return answer

        monkeypatch.setattr(drive, "LiveSync", Recorder)
        monkeypatch.setattr(drive, "update", update)
        paths = RunPaths(root=tmp_path, sweep="s", experiment="e", version="v1")
        planned(paths)
        return drive.follow(paths, seconds=0, say=said.append), said, looks

    return call


Follow = Callable[..., tuple[int, list[str], list[bool]]]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "disk full"),
        (errno.EROFS, "Read-only file system"),
        (errno.ESTALE, "Stale file handle"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_follow_outlasts_a_disk_that_takes_no_more_and_says_it_once(
    follow: Follow, number: int, words: str
) -> None:
    code, said, _ = follow(OSError(number, words, "/r"), OSError(number, words, "/r"), DONE)
    assert (code, said) == (
        0,
        [f"{words}: /r", "warning: a batch was sent 0 min from now", "1 done"],
    )
    with pytest.raises(OSError, match="not a full disk"):
        follow(OSError(errno.EACCES, "not a full disk"))


def test_follow_brings_mlflow_what_runs_have_trained_and_that_they_failed(follow: Follow) -> None:
    code, _, looks = follow(decided(p=""), decided(p=""), decided(p="failed"))
    assert (code, looks) == (1, [False, False, True])


def test_follow_says_a_warning_once_whatever_its_numbers(follow: Follow) -> None:
    waits = decided(p="JobHeldUser")
    code, said, _ = follow(waits, waits, waits, DONE)
    warning = "warning: a batch was sent 3 min from now"
    assert (code, said) == (0, [warning, "1 active (JobHeldUser 1)", *stuck(waits), "1 done"])


DONE = decided(p="done")
