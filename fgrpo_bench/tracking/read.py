"""What MLflow holds: which runs, and of one run every value.

Where the store is an SQL database that this process opens itself, runs and metric histories are
read with one query each: MLflow's own way makes an object of every value and takes forty times as
long for a thousand runs, and eight times as long at each look at a live run.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tracking.state import IDENTITY, MetricPoint, RunState
from fgrpo_bench.tracking.store import database

DIGEST = "digest"
"""Tag: Wanted.digest of what a run or experiment holds whole; empty while a run is written."""
PARENT = "mlflow.parentRunId"

Held = set[tuple[str, int, int, str]]
"""Metric points of a run."""


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A run of the sweep in MLflow."""

    run_id: str
    start: int
    tags: dict[str, str]

    @property
    def name(self) -> str:
        """Of the point, the cell or the report."""
        return self.tags.get("point_id", "")

    @property
    def digest(self) -> str | None:
        """Of what it was computed from; None or empty where it is not whole."""
        return self.tags.get(DIGEST)

    @property
    def parent(self) -> str | None:
        """Id of the run under which it is listed."""
        return self.tags.get(PARENT)

    @property
    def identity(self) -> tuple[str | None, ...]:
        """The values of IDENTITY."""
        return tuple(self.tags.get(key) for key in IDENTITY)


def stored_runs(
    client: Any, experiment_id: str, paths: RunPaths, *, points: Collection[str] = ()
) -> list[Stored]:
    """The sweep's runs, trash left out, the oldest first.

    points: point_ids of those that are wanted, where others cost time; none of them wants all.
    """
    engine = database(client)
    if engine is not None:
        runs = _read_runs(engine, experiment_id)
    else:
        which = f"tags.sweep = '{paths.sweep}' and tags.version = '{paths.version}'"
        each = [f"{which} and tags.point_id = '{point}'" for point in points] or [which]
        runs = [run for query in each for run in _ask_for_runs(client, experiment_id, query)]
    own = (paths.sweep, paths.version)
    of_sweep = [run for run in runs if (run.tags.get("sweep"), run.tags.get("version")) == own]
    return sorted(of_sweep, key=lambda run: (run.start, run.run_id))


def _read_runs(engine: Any, experiment_id: str) -> list[Stored]:
    from mlflow.store.tracking.dbmodels.models import SqlRun, SqlTag
    from sqlalchemy import select

    query: Any = (
        select(SqlRun.run_uuid, SqlRun.start_time, SqlTag.key, SqlTag.value)
        .join(SqlTag, SqlTag.run_uuid == SqlRun.run_uuid)
        .where(SqlRun.experiment_id == int(experiment_id), SqlRun.lifecycle_stage == "active")
        .where(SqlTag.key.in_([*IDENTITY, DIGEST, PARENT]))
    )
    tags: dict[tuple[str, int], dict[str, str]] = {}
    with engine.connect() as connection:
        for run_id, start, key, value in connection.execute(query):
            tags.setdefault((run_id, start), {})[key] = value
    return [Stored(run_id=run_id, start=start, tags=own) for (run_id, start), own in tags.items()]


def _ask_for_runs(client: Any, experiment_id: str, query: str) -> Iterator[Stored]:
    token = None
    while True:
        page = client.search_runs([experiment_id], query, max_results=1000, page_token=token)
        for run in page:
            yield Stored(run_id=run.info.run_id, start=run.info.start_time, tags=run.data.tags)
        token = page.token
        if not token:
            return


def history(client: Any, run: Any) -> Held:
    """Every metric point that a run holds."""
    engine = database(client)
    if engine is not None:
        return _read_points(engine, run.info.run_id)
    return {
        key(MetricPoint(metric.key, metric.step, metric.timestamp, metric.value))
        for name in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, name)
    }


def _read_points(engine: Any, run_id: str) -> Held:
    from mlflow.store.tracking.dbmodels.models import SqlMetric
    from sqlalchemy import select

    columns = (SqlMetric.key, SqlMetric.step, SqlMetric.timestamp, SqlMetric.value)
    query: Any = select(*columns, SqlMetric.is_nan).where(SqlMetric.run_uuid == run_id)
    with engine.connect() as connection:
        return {
            key(MetricPoint(name, step, timestamp, math.nan if is_nan else value))
            for name, step, timestamp, value, is_nan in connection.execute(query)
        }


def contradicts(client: Any, run: Any, stored: Held, wanted: RunState) -> bool:
    """Whether the run holds something that is not wanted and that MLflow cannot change."""
    datasets = {(each.dataset.name, each.dataset.digest) for each in run.inputs.dataset_inputs}
    return (
        run.info.start_time != wanted.start
        or (run.info.end_time is not None and wanted.end is None)
        or not run.data.params.items() <= dict(wanted.params).items()
        or not stored <= {key(point) for point in wanted.points}
        or not datasets <= {(dataset.name, dataset.digest) for dataset in wanted.datasets}
        or not set(_artifacts(client, run.info.run_id)) <= set(wanted.artifacts)
    )


def _artifacts(client: Any, run_id: str, folder: str | None = None) -> Iterator[str]:
    """Paths of the files that a run holds."""
    for entry in client.list_artifacts(run_id, folder):
        if entry.is_dir:
            yield from _artifacts(client, run_id, entry.path)
        else:
            yield entry.path


def key(point: MetricPoint) -> tuple[str, int, int, str]:
    """Comparable where the value is nan."""
    return point.key, point.step, point.timestamp, repr(point.value)
