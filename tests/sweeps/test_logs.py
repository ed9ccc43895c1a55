"""`python -m sweeps logs`: which log it prints, how far, and for how long."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.stages.files import write_json, write_text
from fgrpo_bench.stages.paths import RunPaths
from sweeps import REPOSITORY, logs
from sweeps.slurm.packing import output_file
from sweeps.slurm.submissions import Batch, append
from tests.support.fake_sweep import fake_sweep

Sweeps = Callable[..., tuple[int, str, str]]
Frozen = Callable[..., RunPaths]


def test_logs_print_the_latest_attempt_of_the_stage_started_last(
    sweeps: Sweeps, frozen: Frozen
) -> None:
    paths = frozen()
    point = paths.point("grpo-n4-g0-s11")
    for attempt in (1, 2):
        write_text(point.log(attempt), "".join(f"{attempt}: line {n}\n" for n in range(100)))
        note = {"attempt": attempt, "driver": "d", "begun": f"t{attempt}"}
        write_json(point.attempt(attempt), note)
    write_text(paths.warmup(11).log(1), "warming up\n")
    code, said, hint = sweeps("logs", "smoke", "grpo-n4-g0-s11", "-n", "2")
    assert code == 0
    assert hint == "the train stage; --stage shows evaluate, warmup\n"
    assert said == f"==> {point.log(2)}\n2: line 98\n2: line 99\n"
    code, said, _ = sweeps("logs", "smoke", "grpo-n4-g0-s11", "--stage", "warmup")
    assert said.endswith("warming up\n")
    code, _, errors = sweeps("logs", "smoke", "grpo-n4-g0-s11", "--stage", "evaluate")
    assert code == 2
    assert "was never started" in errors


def test_logs_of_a_job_that_came_to_no_attempt_are_its_own_output(
    sweeps: Sweeps, frozen: Frozen
) -> None:
    paths = frozen()
    batch = Batch(name="smoke-warmup-1", kind="warmup", stages=("_warmup/s11",), begun=0.0)
    append(paths.submissions, "intent", **batch.intent(None))
    append(paths.submissions, "submitted", batch=batch.name, job_id="7")
    code, _, errors = sweeps("logs", "smoke", "base-s11", "--stage", "warmup")
    assert (code, "was never started" in errors) == (2, True), "it has not written any yet"
    output = output_file(paths.batch(batch.name), "7")
    write_text(output, "ModuleNotFoundError: No module named 'submitit'\n")
    code, said, _ = sweeps("logs", "smoke", "base-s11", "--stage", "warmup")
    assert said == f"==> {output}\nModuleNotFoundError: No module named 'submitit'\n"
    failed = {"name": "_warmup/s11", "kind": "warmup", "state": "failed"}
    answer = {"points": [{"point_id": "base-s11", "stages": [failed]}]}
    shown = logs.render_failures(logs.with_last_lines(paths, answer))
    assert "  | ModuleNotFoundError: No module named 'submitit'\n" in shown
    assert f"  {output}\n" in shown


def test_logs_of_an_unknown_point_name_the_nearest(sweeps: Sweeps, frozen: Frozen) -> None:
    frozen()
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
