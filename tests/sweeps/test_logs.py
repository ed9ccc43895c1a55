"""`fgrpo-bench sweep logs`: which log it prints, how far, and for how long."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json, write_text
from sweeps import REPOSITORY
from sweeps.slurm.packing import output_file
from sweeps.slurm.submissions import JobBatch, Submitted, append
from tests.support.fake_sweep import fake_sweep
from tests.support.plans import frozen
from tests.support.slurm_programs import Programs

Sweeps = Callable[..., tuple[int, str, str]]
TRAIN = "grpo-n4-g0-s11"


def test_logs_print_the_latest_attempt_of_the_stage_started_last(
    sweeps: Sweeps, tmp_path: Path
) -> None:
    paths, _ = frozen(tmp_path)
    point = paths.point(TRAIN)
    for attempt in (1, 2):
        write_text(point.log(attempt), "".join(f"{attempt}: line {n}\n" for n in range(100)))
        note = {"attempt": attempt, "driver": "d", "begun": f"t{attempt}"}
        write_json(point.attempt(attempt), note)
    write_text(paths.warmup(11).log(1), "warming up\n")
    code, said, hint = sweeps("logs", "smoke", TRAIN, "-n", "2")
    assert code == 0
    assert hint == "the train stage; --stage shows evaluate, warmup\n"
    assert said == f"==> {point.log(2)}\n2: line 98\n2: line 99\n"
    code, said, _ = sweeps("logs", "smoke", TRAIN, "--stage", "warmup")
    assert said.endswith("warming up\n")
    code, _, errors = sweeps("logs", "smoke", TRAIN, "--stage", "evaluate")
    assert code == 2
    assert "was never started" in errors


SENT = {"7": ("warmup", "_warmup/s11"), "8": ("train", TRAIN)}
"""Kind and stage of each job of `on_slurm`."""


@pytest.fixture
def on_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """A sweep of which two jobs were sent: both failed, and the second had noted that it began."""
    paths, _ = frozen(tmp_path, "profile=slurm")
    rows = []
    for job_id, (kind, stage) in SENT.items():
        batch = JobBatch(name=f"smoke-{kind}-1", kind=kind, stages=(stage,), begun=0.0)
        append(paths.submissions, batch.intent(None))
        append(paths.submissions, Submitted(batch=batch.name, job_id=job_id))
        rows.append(f"echo '{job_id}|{batch.name}|FAILED|n1|0:01|N/A|NonZeroExitCode'")
    note = {"attempt": 1, "job_id": "8", "batch": "smoke-train-1", "begun": "t", "from_step": None}
    write_json(paths.point(TRAIN).attempt(1), note)
    Programs(tmp_path / "bin", monkeypatch).install("squeue", "\n".join(rows))
    return paths


def job_says(paths: RunPaths, job_id: str, words: str) -> Path:
    """Write a job's own output; the file."""
    output = output_file(paths.batch(f"smoke-{SENT[job_id][0]}-1"), job_id)
    write_text(output, f"{words}\nsrun: error: n1: task 0: Exited with exit code 1\n")
    return output


def test_a_job_that_came_to_no_attempt_is_told_by_its_own_output(
    on_slurm: RunPaths, sweeps: Sweeps
) -> None:
    code, _, errors = sweeps("logs", "smoke", "base-s11", "--stage", "warmup")
    assert (code, "was never started" in errors) == (2, True), "it has not written any yet"
    words = "ModuleNotFoundError: No module named 'submitit'"
    output = job_says(on_slurm, "7", words)
    code, said, _ = sweeps("logs", "smoke", "base-s11", "--stage", "warmup")
    assert (code, said) == (0, f"==> {output}\n{output.read_text()}")
    _, said, _ = sweeps("status", "smoke")
    assert f"never started: {words} ({output}); can n1 see the run root and the interp" in said
    assert f"  | {words}\n" in said and f"\n  {output}\n" in said


def test_a_job_that_began_and_noted_no_end_is_at_work_or_told_by_its_own_output(
    on_slurm: RunPaths, sweeps: Sweeps, tmp_path: Path
) -> None:
    words = "RuntimeError: /r/p is gone: was the run root moved or removed?"
    output = job_says(on_slurm, "8", words)
    _, said, _ = sweeps("status", "smoke")
    assert f"its job failed: {words} ({output})" in said and "memory" not in said
    (tmp_path / "bin" / "squeue").write_text("#!/bin/sh\necho '<html>'\n")
    _, said, _ = sweeps("status", "smoke")
    (row,) = [line.split() for line in said.splitlines() if line.startswith(f"{TRAIN}  train")]
    assert row[2] == "running" and said.count("squeue's answer makes no sense") == 2


def test_logs_of_an_unknown_point_name_the_nearest(sweeps: Sweeps, tmp_path: Path) -> None:
    frozen(tmp_path)
    code, _, errors = sweeps("logs", "smoke", "grpo-n4-g2-s11")
    assert code == 2
    assert "unknown point 'grpo-n4-g2-s11'" in errors
    assert "grpo-n4-g1-s11" in errors
    code, _, errors = sweeps("logs", "smoke", "base-s11", "--stage", "train")
    assert code == 2
    assert "base-s11 has no stage 'train': it has warmup, evaluate" in errors


@pytest.mark.slow
def test_logs_follow_until_the_stage_is_no_longer_at_work(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path)
    sweep.hold.touch()
    driver = sweep.start()
    while not sweep.paths.warmup(11).attempt(1).exists():
        assert driver.poll() is None
    with subprocess.Popen(
        [sys.executable, "-m", "sweeps", "logs", "smoke", "base-s11", "--follow"],
        cwd=REPOSITORY,
        env=os.environ | {"FGRPO_RUN_ROOT": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == f"==> {sweep.paths.warmup(11).log(1)}\n"
        sweep.hold.unlink()
        followed = follower.stdout.read()
        assert follower.wait(timeout=120) == 0
    assert "step 8/8" in followed
    assert "done in" in followed
    driver.terminate()
    assert driver.wait(timeout=120) in (0, 143)
