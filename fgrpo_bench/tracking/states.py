"""What MLflow should hold, as plain values: runs with their tags, metrics, tables and files.

Next: points.py, cells.py and desired.py, which make them; sync.py, which brings MLflow there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from fgrpo_bench.analysis.results import SweepResults

IDENTITY = ("sweep", "experiment", "version", "point_id", "fingerprint")
"""Tags that together name one run; the run's MLflow name and id play no part."""
NOTE = "mlflow.note.content"
"""Tag: the description of a run or experiment, as Markdown."""
COLOR = "mlflow.runColor"
"""Tag: the colour of a run in MLflow's charts."""
TABLE = "pass_at_k.json"
"""The table of a cell, and of the report that of every cell."""
POINTS, CELLS, REPORT = "point", "cell", "report"
"""Values of the tag `kind`."""


@dataclass(frozen=True, order=True)
class MetricPoint:
    """One value of a metric's history, e.g. MetricPoint("train/reward", 40, 1767323004000, 0.25)"""

    key: str
    step: int
    """Rollout batch; for `pass_at_k/<benchmark>` the k."""
    timestamp: int
    """Milliseconds since 1970, from the files."""
    value: float
    """Finite or nan."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """One MLflow run as it should be: a point, a cell over its seeds, or the report."""

    name: str
    """The point_id."""
    title: str
    """What MLflow calls it, e.g. `F-GRPO N=8 gamma=1, seed 11`."""
    start: int
    """When training began, milliseconds since 1970."""
    end: int | None
    """When the evaluation was complete, milliseconds since 1970; None while it is not."""
    params: Mapping[str, str]
    tags: Mapping[str, str]
    points: tuple[MetricPoint, ...] = field(repr=False)
    """Sorted; at most one for a key and step."""
    artifacts: Mapping[str, bytes] = field(repr=False)
    """Contents by path within the run's artifacts."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict, repr=False)
    """By path likewise, `.json`: what `mlflow.load_table` opens."""
    failed: bool = False
    """Whether a stage of it failed and is not at work again."""

    @property
    def status(self) -> str:
        """MLflow's word: RUNNING, FAILED or FINISHED. A failed run has no end, because MLflow
        takes none back, and it may go on."""
        if self.end is not None:
            return "FINISHED"
        return "FAILED" if self.failed else "RUNNING"

    @property
    def identity(self) -> tuple[str, ...]:
        """The values of IDENTITY."""
        return tuple(self.tags[key] for key in IDENTITY)


@dataclass(frozen=True, kw_only=True)
class DesiredRun:
    """A run that MLflow should hold. Its state is computed only where its digest is another than
    that which MLflow has of it."""

    name: str
    """Of the run."""
    digest: str
    """Of everything that the state is computed from."""
    state: Callable[[], RunState] = field(repr=False, compare=False)
    parent: str | None = None
    """Name of the run under which it is listed."""


@dataclass(frozen=True, kw_only=True)
class ExperimentState:
    """One MLflow experiment as it should be."""

    name: str
    digest: str | None
    """Of everything that the tags are computed from; None where these runs do not speak for it."""
    tags: Callable[[], Mapping[str, str]] = field(repr=False, compare=False)
    runs: tuple[DesiredRun, ...]
    """Parents before their children."""


def identity_tags(results: SweepResults, name: str, mark: str) -> dict[str, str]:
    """Those of IDENTITY. name: of the run; mark: the fingerprint of what it is of."""
    paths = results.paths
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "point_id": name,
        "fingerprint": mark,
    }


def source_tags(results: SweepResults) -> dict[str, str]:
    """Where a run comes from: the command, and the commit where there is one."""
    record = results.record
    named = {
        "mlflow.source.name": f"sweeps run {results.paths.sweep}",
        "mlflow.source.type": "LOCAL",
    }
    if record.git_commit is not None:
        commit = record.git_commit
        named |= {"git_commit": commit, "mlflow.source.git.commit": commit}
        named["git_dirty"] = str(record.git_dirty).lower()
    return named


def readable(value: float) -> float:
    """With the four digits that a person reads in a column; the tables have all of them.

    >>> readable(0.123456)
    0.1235
    """
    return float(f"{value:.4g}")
