"""Frozen stages of a small sweep on disk, and running one as the very command a worker runs."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from sweeps.plan import Plan
from tests.support.plans import planned

TINY = [
    "experiment.train.warmup.steps=40",
    "experiment.train.task.n_digits=2",
    "experiment.train.steps=4",
    "experiment.train.save_every=2",
    "experiment.train.eval_every=2",
    "experiment.evaluation.n_samples=16",
    "experiment.evaluation.ks=[1,4,16]",
    "experiment.evaluation.benchmarks.countdown.n_problems=12",
]
"""Overrides that make a stage of sweep `smoke` take about as long as starting Python."""


def freeze(root: Path, *overrides: str, sweep: str = "smoke") -> tuple[Plan, RunPaths]:
    """Plan a sweep and write the spec.json of every stage."""
    paths, plan = planned(root, sweep, *TINY, *overrides)
    for stage in plan.stages:
        write_json(StagePaths(paths.folder / stage.name).spec, stage.spec.as_json())
    return plan, paths


def command(kind: str, folder: Path, *options: str) -> list[str]:
    """The command of a stage."""
    if kind == "evaluate":
        return [sys.executable, "-m", "evaluators", "run", str(folder), *options]
    return [sys.executable, "-m", "fgrpo_bench.engines.embedded", str(folder), *options]


def start(
    kind: str,
    folder: Path,
    *options: str,
    file_limit: int | None = None,
    shell: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[str]:
    """Start a stage as a worker of a sweep would, with its output in a pipe.

    shell: what the environment has besides.
    file_limit: bytes past which no file can grow, so that writing fails as on a full disk.
    """
    return subprocess.Popen(
        command(kind, folder, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | shell,
        preexec_fn=None if file_limit is None else lambda: _limit_files(file_limit),
    )


def _limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
