"""The command and the environment that a stage runs with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds import KINDS
from sweeps import REPOSITORY
from sweeps.commands import stage_command, stage_environment
from sweeps.local.drive import pooled
from tests.support.plans import loaded, planned


def test_a_stage_is_a_command_that_anybody_may_run() -> None:
    profile = loaded("smoke", "profile.threads_per_worker=2").profile
    folder = Path("/runs/s/e/v1/p")
    options = ["/runs/s/e/v1/p", "--device", "cpu", "--threads", "2"]
    python = [sys.executable, "-m"]
    training = [*python, "fgrpo_bench.engines.embedded", *options]
    assert stage_command("warmup", folder, profile, "base") == training
    assert stage_command("train", folder, profile, "base") == training
    evaluation = [*python, "evaluators", "run", *options]
    assert stage_command("evaluate", folder, profile, "base") == evaluation


def test_a_worker_finds_this_checkout_and_keeps_to_its_threads() -> None:
    profile = loaded("smoke").profile
    paths = RunPaths(root=Path("/runs"), sweep="smoke", experiment="x", version="v1")
    inherited = {"PYTHONPATH": "/else", "HOME": "/root", "HF_HUB_OFFLINE": "0"}
    environment = stage_environment(profile, paths, inherited, fetches=False)
    assert environment["PYTHONPATH"] == f"{REPOSITORY}{os.pathsep}/else"
    assert environment["OMP_NUM_THREADS"] == environment["MKL_NUM_THREADS"] == "1"
    assert environment["HOME"] == "/root" and environment["HF_HUB_OFFLINE"] == "0"
    assert environment["FGRPO_VERDICTS"] == "/runs/verdicts"
    assert environment["FGRPO_RUN_ROOT"] == "/runs"
    assert stage_environment(profile, paths, {}, fetches=True)["PYTHONPATH"] == str(REPOSITORY)


SAYS = """import os, sys
from pathlib import Path
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.stages.stage import run_stage
print("HF_HUB_OFFLINE is", os.environ.get("HF_HUB_OFFLINE"), flush=True)
sys.exit(run_stage(StagePaths(Path(sys.argv[1])), lambda spec, run: Record()))"""


@pytest.mark.slow
def test_of_the_stages_of_a_sweep_those_that_fetch_alone_may_ask_the_hub(tmp_path, monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    paths, plan = planned(tmp_path, "groupsize", "experiment=qwen2.5-7b")
    by_name = {stage.name: stage for stage in plan.stages}
    train = next(stage for stage in plan.stages if stage.kind == "train")
    evaluate = next(stage for stage in plan.stages if stage.kind == "evaluate")
    chosen = {train.name, *train.needs, evaluate.name, *evaluate.needs}
    for name in chosen:
        write_json(StagePaths(paths.folder / name).spec, by_name[name].spec.as_json())
    code = pooled(
        plan,
        paths,
        [stage for stage in plan.stages if stage.name in chosen],
        command=lambda kind, folder, *_: [sys.executable, "-c", SAYS, str(folder)],
        workers=2,
    )
    assert code == 0
    for name in chosen:
        log = StagePaths(paths.folder / name).log(1)
        fetches = KINDS[by_name[name].kind].fetches
        assert f"HF_HUB_OFFLINE is {None if fetches else 1}\n" in log.read_text()
    assert {by_name[name].kind for name in chosen} == {"fetch", "train", "evaluate"}
