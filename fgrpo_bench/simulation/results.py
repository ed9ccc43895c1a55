"""A simulation as its files tell it: cells, their masses by step and at the end, over seeds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.simulation.plan import masses, planned, planned_settings
from fgrpo_bench.simulation.run import MASSES
from fgrpo_bench.simulation.settings import Rule, Run, Settings
from fgrpo_bench.simulation.workers import undone
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tables import read_table


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs of one rule, N and gamma that are done."""

    rule: Rule
    group_size: int
    focal_gamma: float
    seeds: tuple[int, ...]
    steps: NDArray[np.int64] = field(repr=False)
    """Of the measurements, [measurements]."""
    total: NDArray[np.float64] = field(repr=False)
    """Total mass of the right actions, [seeds, measurements]."""
    retained: NDArray[np.float64] = field(repr=False)
    """Retained share of their first mass, [seeds, measurements]."""


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """All of it."""

    paths: RunPaths
    settings: Settings
    cells: tuple[Cell, ...]
    """By rule, gamma and N; only those with a run that is done."""
    n_done: int
    n_planned: int

    def of(self, rule: Rule, gamma: float) -> list[Cell]:
        """The cells of a rule and gamma by N."""
        own = [cell for cell in self.cells if cell.rule == rule and cell.focal_gamma == gamma]
        return sorted(own, key=lambda cell: cell.group_size)

    def gammas(self, rule: Rule) -> list[float]:
        """The gammas of a rule, rising."""
        return sorted({cell.focal_gamma for cell in self.cells if cell.rule == rule})


def load(paths: RunPaths) -> Simulation:
    """Read what is done; FileNotFoundError where nothing was ever planned."""
    runs = planned(paths)
    if not runs:
        raise FileNotFoundError(
            f"{paths.folder} holds no plan: run `python -m fgrpo_bench.simulation` first, or name "
            "another root or version"
        )
    left = set(undone(paths, runs))
    by_cell: dict[tuple[Rule, float, int], list[Run]] = {}
    for run in runs:
        if run not in left:
            key = (run.rule, run.focal_gamma, run.group_size)
            by_cell.setdefault(key, []).append(run)
    return Simulation(
        paths=paths,
        settings=planned_settings(paths),
        cells=tuple(_cell(paths, own) for own in by_cell.values()),
        n_done=len(runs) - len(left),
        n_planned=len(runs),
    )


def _cell(paths: RunPaths, runs: list[Run]) -> Cell:
    tables = [read_table(masses(paths.point(run.point_id)), MASSES) for run in runs]
    return Cell(
        rule=runs[0].rule,
        group_size=runs[0].group_size,
        focal_gamma=runs[0].focal_gamma,
        seeds=tuple(run.seed for run in runs),
        steps=tables[0]["step"].to_numpy(),
        total=np.stack([table["total_correct_mass"].to_numpy() for table in tables]),
        retained=np.stack([table["retained_mass"].to_numpy() for table in tables]),
    )
