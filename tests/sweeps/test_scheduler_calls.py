"""How often a submission calls SLURM's programs: the numbers of docs/developers/performance.md."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from sweeps import REPOSITORY
from sweeps.slurm import drive
from tests.support.plans import planned
from tests.support.slurm_programs import Programs

GRIDS = {36: (3, 4, 3), 500: (5, 20, 5), 1000: (5, 20, 10)}
"""Points: group sizes, gammas, seeds, as `make bench ARGS=slurm` has them."""


def documented() -> dict[int, tuple[int, int]]:
    """Points: jobs, and calls of a submission."""
    row = re.compile(r"^\| ([\d,]+) \(([\d,]+)\) \|[^|]*\|[^|(]*\((\d+)\) \|", re.MULTILINE)
    text = (REPOSITORY / "docs" / "developers" / "performance.md").read_text(encoding="utf-8")
    rows = [tuple(int(each.replace(",", "")) for each in row_of) for row_of in row.findall(text)]
    return {points: (jobs, calls) for points, jobs, calls in rows}


@pytest.mark.parametrize("points", [36, 1000])
@pytest.mark.slow
def test_a_submission_calls_slurm_as_often_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, points: int
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    sizes, gammas, seeds = GRIDS[points]
    _, plan = planned(
        tmp_path / "runs",
        "smoke",
        "profile=slurm",
        f"sweep.grid.group_size={[2**power for power in range(1, sizes + 1)]}",
        f"sweep.grid.focal_gamma={[step / 10 for step in range(gammas)]}",
        f"sweep.grid.seed={list(range(1, seeds + 1))}",
    )
    assert drive.run(plan.declaration, say=lambda text: None) == 0
    calls = Counter(command.split()[0] for command in programs.calls())
    jobs, total = documented()[points]
    assert calls == {"sbatch": total - 4, "sinfo": 2, "scontrol": 1, "squeue": 1}
    assert programs.elements() == jobs
