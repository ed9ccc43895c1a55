"""Which sweeps there are under a root, and opening one by a name that is in that list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fgrpo_bench.report.summary import Cell
from fgrpo_bench.results import PointResult, SweepResults, has_checkpoints, load_results
from fgrpo_bench.stages.paths import RunPaths, find_runs


@dataclass(frozen=True, kw_only=True)
class Store:
    """A run root, only ever read."""

    root: Path

    def runs(self) -> list[RunPaths]:
        """Every planned run, sorted by name; those without checkpoints left out."""
        return [run for run in find_runs(self.root) if has_checkpoints(run)]

    def open(self, sweep: str, experiment: str, version: str) -> SweepResults:
        """A run by its names; LookupError where the root lists no such run.

        Names are compared with the listing and never made into a path.
        """
        for run in self.runs():
            if (run.sweep, run.experiment, run.version) == (sweep, experiment, version):
                return checked(load_results(run))
        raise LookupError("there is no such sweep under this root; the first page lists what is")


def checked(results: SweepResults) -> SweepResults:
    """The same; ValueError where plan.json names a folder outside its run."""
    folder = results.paths.folder
    for point in results.points:
        for stage in (point.train.folder, point.evaluate.folder):
            if ".." in stage.relative_to(folder).parts:
                raise ValueError(f"{results.paths.plan} names {stage}, which is outside {folder}")
    return results


def cell_id(cell: Cell) -> str:
    """Name of a cell in addresses, e.g. `grpo-n8-g0.5`; `base` for the base models."""
    if cell.is_base:
        return "base"
    gamma = str(cell.focal_gamma).removesuffix(".0")
    return f"{cell.algorithm}-n{cell.group_size}-g{gamma}"


def cells_of(results: SweepResults) -> dict[str, Cell]:
    """Every cell by its name, base models first."""
    return {cell_id(cell): cell for cell in map(Cell.of, results.points)}


def points_of(results: SweepResults) -> dict[str, PointResult]:
    """Every point by its name, base models first."""
    return {point.point_id: point for point in results.points}


def seeds_of(results: SweepResults) -> list[int]:
    """Training seeds, rising."""
    return sorted({point.seed for point in results.points})


def ks_of(results: SweepResults) -> tuple[int, ...]:
    """The declared k of pass@k, rising."""
    return tuple(results.declaration["declaration"]["experiment"]["evaluation"]["ks"])
