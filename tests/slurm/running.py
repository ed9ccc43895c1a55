"""Small sweeps on the private cluster, of the built-in engine and of fake stages, and what must
hold of every one of them once it is done.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from fgrpo_bench import StagedDesign
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.core.seeds import draw_seeds, stream
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import config
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table
from sweeps import REPOSITORY
from sweeps.commands import StageCommand, stage_command
from sweeps.freeze import run_paths
from sweeps.slurm import drive, submissions, tick
from sweeps.slurm.decide import Decision
from sweeps.slurm.payload import Payload
from tests.slurm.processes import wait_until
from tests.support.fake_stage import fake_command
from tests.support.fake_sweep import check_steps
from tests.support.faults import stage_folders
from tests.support.staged import made
from tests.support.stages import TINY

SLURM = ["profile=slurm", "profile.partition=gpu", "profile.mem_gb=0.5", "profile.time_minutes=5"]
POINT = "grpo-n4-g1-s11"
"""The point that faults strike, of the two of sweep `smoke`."""
STEPS = 8
"""Steps of a fake stage; it is held before the last but one."""
LONG = [
    *(each for each in TINY if not re.search(r"train\.(steps|save_every)=", each)),
    "experiment.train.steps=160",
    "experiment.train.save_every=80",
]
"""Long enough for a training run to save its state and be struck afterwards."""
RESULTS = (
    "**/checkpoints/*/*",
    "**/draws.parquet",
    "**/grades.*.parquet",
    "**/passk.parquet",
    "report/results.csv",
)
"""What must have the same bytes whatever befell a sweep."""


def tick_until(
    paths: RunPaths,
    ended: Callable[[Decision], bool],
    *,
    patience: float,
    command: StageCommand = stage_command,
) -> Decision:
    """Tick until a condition holds; AssertionError after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        decision = tick.tick(paths, say=print, command=command)
        if ended(decision):
            return decision
        assert time.monotonic() < deadline, decision.standings
        time.sleep(0.5)


def all_done(decision: Decision) -> bool:
    """Whether every stage is done."""
    return {each.state for each in decision.standings.values()} == {"done"}


until = partial(tick_until, patience=200)
fake_until = partial(until, command=fake_command)


def _on_slurm(overrides: Sequence[str]) -> list[str]:
    """Overrides after those of SLURM that they do not set otherwise."""
    keys = {override.partition("=")[0] for override in overrides}
    return [given for given in SLURM if given.partition("=")[0] not in keys] + [*overrides]


def start(root: Path, *overrides: str) -> RunPaths:
    """Submit the sweep `smoke`."""
    declaration = config.load("smoke", [f"run_root='{root}'", *_on_slurm(overrides)])
    assert drive.run(declaration) == 0
    return run_paths(declaration)


def start_fake(
    root: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str, **settings: str
) -> RunPaths:
    """Submit it with fake stages; settings as tests.support.fake_stage has them."""
    for name, value in fake_settings(root, **settings).items():
        monkeypatch.setenv(name, value)
    declaration = config.load("smoke", [f"run_root='{root}'", *_on_slurm(overrides)])
    assert drive.run(declaration, command=fake_command) == 0
    return run_paths(declaration)


def start_held(
    root: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str, **settings: str
) -> tuple[RunPaths, str]:
    """The same, and wait until the fake stage of POINT is held; also its job id."""
    hold(root).touch()
    paths = start_fake(root, monkeypatch, *overrides, **settings)
    return paths, job_at_hold(paths)


def finish_fake(paths: RunPaths) -> None:
    """Let go what is held, tick to the end of the sweep and check it."""
    hold(paths.root).unlink(missing_ok=True)
    fake_until(paths, all_done)
    check_fake(paths)


def fake_settings(root: Path, **settings: str) -> dict[str, str]:
    """Environment of fake stages; `hold(root)` while they are held."""
    return {"FAKE_HOLD": str(hold(root)), "FAKE_HELD": POINT, "FAKE_STEPS": str(STEPS)} | settings


def hold(root: Path) -> Path:
    """While this file is there, the fake stages of POINT wait before their last step but one."""
    return root / "hold"


def job_at_hold(paths: RunPaths) -> str:
    """Wait until the fake stage of POINT is held; its job id."""
    stage = paths.point(POINT)
    steps = stage.folder / "steps.jsonl"

    def held() -> bool:
        return steps.exists() and len(steps.read_text().splitlines()) >= STEPS - 2

    wait_until(held, what=f"{POINT} at its hold")
    return str(attempts(stage)[-1].job_id)


def job_with_a_save(paths: RunPaths) -> str:
    """Wait until the training run of POINT has saved its state; its job id."""
    stage = paths.point(POINT)
    wait_until(lambda: saved_step(stage) > 0, what=f"a save of {POINT}")
    return str(attempts(stage)[-1].job_id)


def saved_step(stage: StagePaths) -> int:
    """Last step in the saved states of a training run; 0 where there is none."""
    steps = [0]
    for slot in (stage.state(0), stage.state(1)):
        if slot.exists():
            with safe_open(slot, "np") as file:
                steps.append(json.loads(file.metadata()["state"])["step"])
    return max(steps)


def resumed_steps(stage: StagePaths) -> list[int]:
    """The steps after which the attempts at a training run went on, first attempt left out."""
    said = re.compile(r"^resuming after step (\d+)$", re.MULTILINE)
    return [int(step) for log in logs(stage)[1:] for step in said.findall(log)]


def logs(stage: StagePaths) -> list[str]:
    """Output of all attempts at a stage, in order."""
    return [path.read_text() for path in sorted(stage.logs.glob("attempt-*.log"))]


def check_complete(paths: RunPaths) -> None:
    """Every stage is done, and of all attempts at it exactly one did it."""
    for stage in read_json(paths.plan)["stages"]:
        folder = StagePaths(paths.folder / stage["name"])
        assert is_done(folder, fingerprint=stage["fingerprint"], target=stage["target"]), folder
        did = [log for log in logs(folder) if re.search(r"^done in ", log, re.MULTILINE)]
        assert len(did) == 1, f"{folder}: {attempts(folder)}"


def check_draws(paths: RunPaths, design: StagedDesign) -> None:
    """Every evaluation, on whichever nodes it ran, has the draws that its verdicts ask for under
    the design, each from its own seed, and no other; not all stop at one stage."""
    stops = set[int]()
    for point in load_results(paths).points:
        files = point.evaluate.benchmark("countdown")
        grades = read_table(files.grades("countdown-1"), GRADES).sort("problem_id", "draw")
        by_problem = grades.group_by("problem_id").agg("outcome")
        asked = {name: len(made(design, of)) for name, of in by_problem.iter_rows()}
        base = stream(0, point.seed)  # of the evaluation and of the training run
        seeds = draw_seeds(base, list(asked), np.arange(design.stages[-1])).tolist()
        wanted = {
            (name, draw, seed)
            for name, own in zip(asked, seeds, strict=True)
            for draw, seed in enumerate(own[: asked[name]])
        }
        rows = read_table(files.draws, DRAWS).select("problem_id", "draw", "seed").rows()
        assert set(rows) == wanted and len(rows) == len(wanted), point.point_id
        stops |= set(asked.values())
    assert len(stops) > 1 and stops <= set(design.stages)


def check_fake(paths: RunPaths) -> None:
    """Every fake stage is done once, and no step was computed again that had been saved."""
    check_complete(paths)
    for folder in stage_folders(paths):
        check_steps(folder, STEPS)


def check_begun_once(paths: RunPaths) -> None:
    """Every stage is done, and was begun by one job, once."""
    check_complete(paths)
    begun = {folder: len(attempts(StagePaths(folder))) for folder in stage_folders(paths)}
    assert set(begun.values()) == {1}, begun


def check_sent_once(paths: RunPaths) -> None:
    """Of all batches that SLURM was left with, each stage is in one."""
    batches = submissions.read(paths.submissions).batches.values()
    sent = [stage for batch in batches if not batch.void for stage in batch.stages]
    assert len(sent) == len(set(sent)) == len(read_json(paths.plan)["stages"])


BATCH = "smoke-train-5d41c01f0c66a2b9"
RUN = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(), flush=True)"


def start_payload(
    stage: StagePaths, command: list[str], slurm: dict[str, str], *needs: str, **settings: str
) -> subprocess.Popen[str]:
    """A job's payload as a process of its own; slurm: what the job finds in its environment."""
    payload = Payload(
        folder=str(stage.folder),
        needs=needs,
        command=tuple(command),
        cwd=str(REPOSITORY),
        environment=tuple(settings.items()),
        batch=BATCH,
    )
    file = stage.folder.parent / "payload.pkl"
    file.write_bytes(pickle.dumps(payload))
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(file)],
        cwd=REPOSITORY,
        env=os.environ | slurm,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def counting(stage: StagePaths) -> list[str]:
    """Command of a fake stage."""
    return [sys.executable, "-m", "tests.support.fake_stage", str(stage.folder)]
