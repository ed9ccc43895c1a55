"""The real finished sweep in copies to be damaged."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths, StagePaths
from tests.report.conftest import plain_figures as plain_figures

TRAIN = "grpo-n4-g0-s11"
"""The trained point; the other one is its base model."""


def evaluation(paths: RunPaths) -> StagePaths:
    """Of the trained point."""
    (folder,) = (paths.folder / TRAIN / "eval").glob("*/*")
    return StagePaths(folder)


def copied(run: RunPaths, root: Path) -> RunPaths:
    paths = replace(run, root=root)
    shutil.copytree(run.folder, paths.folder, symlinks=True)
    return paths


@pytest.fixture
def paths(real_run: RunPaths, tmp_path: Path) -> RunPaths:
    """A copy of a test's own."""
    return copied(real_run, tmp_path)
