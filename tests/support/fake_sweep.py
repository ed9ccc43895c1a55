"""A small sweep of fake stages as real processes, and what its stages did."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import to_dict
from sweeps import REPOSITORY
from sweeps.freeze import run_paths
from tests.support.fake_stage import SAVE_EVERY
from tests.support.plans import loaded


@dataclass(frozen=True, kw_only=True)
class FakeSweep:
    """The shipped `smoke` sweep (two points, six stages) under a root of its own."""

    root: Path
    declaration: Path
    paths: RunPaths
    environment: dict[str, str]

    @property
    def hold(self) -> Path:
        """While this file is there, stages wait before their last step; see FAKE_HELD."""
        return self.root / "hold"

    def start(self) -> subprocess.Popen[bytes]:
        """Its driver as a process, output in driver.log."""
        with (self.root / "driver.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.fake_driver", str(self.declaration)],
                cwd=REPOSITORY,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def run(self) -> int:
        """Its driver to the end; the exit code."""
        return self.start().wait(timeout=150)

    def log(self) -> str:
        """What all drivers said so far."""
        return (self.root / "driver.log").read_text()


def fake_sweep(root: Path, *overrides: str, **environment: str) -> FakeSweep:
    """environment: the variables of tests.support.fake_stage."""
    declaration = replace(loaded("smoke", *overrides), run_root=str(root))
    write_json(root / "declaration.json", to_dict(declaration))
    return FakeSweep(
        root=root,
        declaration=root / "declaration.json",
        paths=run_paths(declaration),
        environment=os.environ | {"FAKE_HOLD": str(root / "hold")} | environment,
    )


def check_steps(folder: Path, steps: int) -> None:
    """Every step was computed, and again only those after the last save, never by two at once."""
    rows = list(read_lines(folder / "steps.jsonl"))
    turns = [(pid, [row["step"] for row in turn]) for pid, turn in _turns(rows)]
    assert len({pid for pid, _ in turns}) == len(turns), f"{folder}: two worked in turns"
    reached = 0
    for _, computed in turns:
        first, last = computed[0], computed[-1]
        assert computed == list(range(first, last + 1)), folder
        assert reached - SAVE_EVERY < first <= reached + 1, f"{folder}: {first} after {reached}"
        reached = last
    assert reached == steps, folder


def _turns(rows: list[dict[str, int]]) -> Iterator[tuple[int, list[dict[str, int]]]]:
    for pid, turn in groupby(rows, key=lambda row: row["pid"]):
        yield pid, list(turn)
