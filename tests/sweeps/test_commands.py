"""The command and the environment that a stage runs with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fgrpo_bench.specs import config
from fgrpo_bench.stages.paths import RunPaths
from sweeps import REPOSITORY
from sweeps.commands import stage_command, stage_environment


def test_a_stage_is_a_command_that_anybody_may_run() -> None:
    profile = config.load("smoke", ["profile.threads_per_worker=2"]).profile
    folder = Path("/runs/s/e/v1/p")
    options = ["/runs/s/e/v1/p", "--device", "cpu", "--threads", "2"]
    python = [sys.executable, "-m"]
    training = [*python, "fgrpo_bench.engines.embedded", *options]
    assert stage_command("warmup", folder, profile, "base") == training
    assert stage_command("train", folder, profile, "base") == training
    evaluation = [*python, "evaluators", "run", *options]
    assert stage_command("evaluate", folder, profile, "base") == evaluation


def test_a_worker_finds_this_checkout_and_keeps_to_its_threads() -> None:
    profile = config.load("smoke").profile
    paths = RunPaths(root=Path("/runs"), sweep="smoke", experiment="x", version="v1")
    environment = stage_environment(profile, paths, {"PYTHONPATH": "/else", "HOME": "/root"})
    assert environment["PYTHONPATH"] == f"{REPOSITORY}{os.pathsep}/else"
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "1"
    assert environment["HOME"] == "/root"
    assert environment["FGRPO_VERDICTS"] == "/runs/verdicts"
    assert environment["FGRPO_DRAWS"] == "/runs/draws"
    assert stage_environment(profile, paths, {})["PYTHONPATH"] == str(REPOSITORY)
