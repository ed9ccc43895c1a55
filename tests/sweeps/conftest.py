"""The command line under a run root of the test's own, and a sweep that is frozen there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import config
from sweeps.cli import main
from sweeps.freeze import freeze, run_paths
from sweeps.plan import make_plan


@pytest.fixture
def sweeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """sweeps(command, sweep, ...) -> exit code, output, errors; the run root is tmp_path."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, f"run_root={tmp_path}"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture
def frozen(tmp_path: Path) -> Callable[..., RunPaths]:
    """frozen(override, ...): the smoke sweep as `run` writes it before anything starts."""

    def make(*overrides: str) -> RunPaths:
        plan = make_plan(config.load("smoke", [f"run_root='{tmp_path}'", *overrides]))
        paths = run_paths(plan.declaration)
        freeze(paths, plan, nothing_to_run=False)
        return paths

    return make
