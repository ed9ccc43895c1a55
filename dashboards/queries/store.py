"""Which sweeps there are under a root, and opening one by a name that is in that list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fgrpo_bench.evaluated import EvaluatedCheckpoint
from fgrpo_bench.results import Results, SweepResults, load_results
from fgrpo_bench.runs import find_runs
from fgrpo_bench.stages.paths import RunPaths


@dataclass(frozen=True, kw_only=True)
class Store:
    """A run root, only ever read."""

    root: Path

    def runs(self) -> list[RunPaths]:
        """Every planned run, sorted by name."""
        return find_runs(self.root)

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


def checkpoints_of(results: Results) -> dict[str, EvaluatedCheckpoint]:
    """Every checkpoint by its name, base models first."""
    return {checkpoint.name: checkpoint for checkpoint in results.checkpoints}
