"""The model and task that the measurements share: the shipped experiment `countdown`."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from fgrpo_bench.engines.embedded.warmup import warm_up
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds import warmup as warmup_stage
from fgrpo_bench.specs import SweepPoint, WarmupSpec, config
from fgrpo_bench.stages.stage import StageRun
from sweeps.plan import make_plan

WARMUP_STEPS = 120


def warmed_up() -> tuple[RunPaths, SweepPoint]:
    """A short warm-up on disk, and a GRPO point at N = 8 that starts from it."""
    torch.set_num_threads(1)
    declaration = config.load("groupsize", ["sweep.grid.group_size=[8]", "sweep.grid.seed=[1]"])
    point = make_plan(declaration).points[0]
    warmup: WarmupSpec = replace(point.train.warmup, steps=WARMUP_STEPS)
    point = replace(point, train=replace(point.train, warmup=warmup))
    paths = RunPaths(
        root=Path(tempfile.mkdtemp()), sweep="bench", experiment="countdown", version="v1"
    )
    spec = warmup_stage.stage(point).spec
    facts = warm_up(spec, StageRun(paths.warmup(1)), "cpu")
    marker = {"fingerprint": spec.fingerprint, "target": {}, "outputs": {}}
    write_json(paths.warmup(1).done, marker | facts.as_json())
    return paths, point
