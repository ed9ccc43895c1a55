"""The models and tasks that the measurements share: the shipped experiments after a short
warm-up."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
from fgrpo_bench.engines.embedded.engine import EmbeddedTrain
from fgrpo_bench.engines.embedded.reinforce import Learner
from fgrpo_bench.engines.embedded.session import Session
from fgrpo_bench.engines.embedded.warmup import warm_up
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds import warmup as warmup_stage
from fgrpo_bench.specs import SweepPoint, config
from fgrpo_bench.stages.stage import StageRun
from sweeps.plan import make_plan

WARMUP_STEPS = 120


def point_of(sweep: str, group_size: int, steps: int = WARMUP_STEPS) -> SweepPoint:
    """The sweep's GRPO point of seed 1, with so many steps of warm-up."""
    overrides = [f"sweep.grid.group_size=[{group_size}]", "sweep.grid.seed=[1]"]
    declaration = config.load(sweep, [*overrides, "sweep.cells=[]", "sweep.family=null"])
    point = make_plan(declaration).points[0]
    train = point.train
    assert isinstance(train, EmbeddedTrain)
    return replace(point, train=replace(train, warmup=replace(train.warmup, steps=steps)))


def warmed_up(point: SweepPoint | None = None) -> tuple[RunPaths, SweepPoint]:
    """The warm-up of a point on disk, and the point; None is `groupsize` at N = 8."""
    torch.set_num_threads(1)
    point = point or point_of("groupsize", 8)
    paths = RunPaths(
        root=Path(tempfile.mkdtemp()), sweep="bench", experiment="countdown", version="v1"
    )
    spec = warmup_stage.stage(point).spec
    facts = warm_up(spec, StageRun(paths.warmup(1)), "cpu")
    marker = {"fingerprint": spec.fingerprint, "target": {}, "outputs": {}}
    write_json(paths.warmup(1).done, marker | facts.as_json())
    return paths, point


def learning(point: SweepPoint, base: Path) -> tuple[Learner, Session]:
    """The engine's training of a point from a checkpoint, before its first step."""
    policy, tokenizer = load_checkpoint(base, "cpu", None)
    session = Session(
        policy,
        run=StageRun(StagePaths(Path(tempfile.mkdtemp())), save_seconds=0.0),
        fingerprint="bench",
        betas=(point.train.beta1, point.train.beta2),
        weight_decay=point.train.weight_decay,
        grad_clip=point.train.grad_clip,
        has_metrics=True,
    )
    return Learner(point, session, tokenizer), session
