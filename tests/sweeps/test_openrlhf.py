"""Plans of OpenRLHF on a cluster, what would be sent, and what is refused before."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.freeze import run_paths
from sweeps.plan import make_plan, plan_record
from sweeps.slurm import drive
from sweeps.slurm.snapshot import code_folder
from tests.support.points import declared

Golden = Callable[[str, str], None]


def test_the_plan_is_the_golden_one(golden: Golden) -> None:
    record = plan_record(make_plan(declared()))
    golden("openrlhf/plan-groupsize.json", json.dumps(record, indent=1) + "\n")


def test_the_dry_run_is_the_golden_one_and_writes_nothing(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.symlink_to("/usr/bin/git")
    monkeypatch.setenv("PATH", str(git.parent))  # no SLURM
    root = tmp_path / "runs"
    plan = make_plan(declared(f"run_root='{root}'"))
    paths = run_paths(plan.declaration)
    said = "\n".join(drive.dry_run(plan, paths))
    said = said.replace(str(code_folder(paths.code)), "CODE").replace(str(root), "ROOT")
    golden("openrlhf/sbatch-groupsize.txt", said.replace(sys.executable, "PYTHON"))
    assert not root.exists()
