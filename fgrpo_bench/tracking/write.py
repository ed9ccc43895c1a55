"""Writing one run to MLflow, and finding out what of it stands already.

Where the store is an SQL database that this process opens itself, metric histories go in and out
with one statement each: MLflow's own way makes an object of every value and takes many times as
long.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fgrpo_bench.tracking.state import MetricPoint, RunState
from fgrpo_bench.tracking.write_models import (
    METRICS_PER_BATCH,
    batches,
    key,
    models_of,
    remember,
    write_models,
)

DIGEST = "digest"
"""Tag: RunState.digest of what the run holds whole; empty while it is being written."""
PARENT = "mlflow.parentRunId"
ROWS = 2000
"""Of one statement; SQLite takes 32,766 values."""
DIRECT = ("sqlite", "postgresql")
"""Databases whose rows are read and written directly."""

Held = set[tuple[str, int, int, str]]
"""Metric points of a run."""


def create(client: Any, experiment_id: str, wanted: RunState, parent: str | None) -> str:
    """Write a new run, which holds its identity from the first moment; its id.

    parent: id of the run under which it is listed; None for none.
    """
    run = client.create_run(
        experiment_id,
        start_time=wanted.start,
        tags=dict(wanted.tags) | ({} if parent is None else {PARENT: parent}),
        run_name=wanted.name,
    )
    remember(client, run.info.run_id, run.info.artifact_uri)
    write(client, experiment_id, run.info.run_id, wanted, None)
    return str(run.info.run_id)


def discard(client: Any, experiment_id: str, run_id: str) -> None:
    """Move a run and its logged models to MLflow's trash."""
    for model in models_of(client, experiment_id, run_id):
        client.delete_logged_model(model.model_id)
    client.delete_run(run_id)


def history(client: Any, run: Any) -> Held:
    """Every metric point that a run holds."""
    engine = _database(client)
    if engine is not None:
        return _read_points(engine, run.info.run_id)
    return {
        key(MetricPoint(metric.key, metric.step, metric.timestamp, metric.value))
        for name in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, name)
    }


def _database(client: Any) -> Any | None:
    """The engine of the client's SQL database, where that is one of DIRECT."""
    engine = getattr(client._tracking_client.store, "engine", None)
    return engine if engine is not None and engine.dialect.name in DIRECT else None


def _read_points(engine: Any, run_id: str) -> Held:
    """In one query: MLflow's own way takes eight times as long, at every look at such a run."""
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


def write(
    client: Any, experiment_id: str, run_id: str, wanted: RunState, stored: Held | None
) -> None:
    """Write everything but the points that stand already; the digest comes last.

    stored: points that the run holds; None for a run that was made just now, which holds its tags.
    """
    from mlflow.entities import Param, RunTag

    tags = [] if stored is None else wanted.tags.items()
    client.log_batch(
        run_id,
        params=[Param(name, value) for name, value in wanted.params.items()],
        tags=[RunTag(name, value) for name, value in tags],
    )
    if wanted.models or stored is not None:
        write_models(client, experiment_id, run_id, wanted, new=stored is None)
    missing = [point for point in wanted.points if stored is None or key(point) not in stored]
    _log_points(client, run_id, missing, wanted.points)
    if wanted.artifacts:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in wanted.artifacts.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            client.log_artifacts(run_id, folder)
    if wanted.end is not None:
        client.set_terminated(run_id, status=wanted.status, end_time=wanted.end)
    elif wanted.failed or stored is not None:
        client.update_run(run_id, status=wanted.status)
    client.set_tag(run_id, DIGEST, wanted.digest)


def _log_points(
    client: Any, run_id: str, missing: Sequence[MetricPoint], wanted: Sequence[MetricPoint]
) -> None:
    from mlflow.entities import Metric

    engine = _database(client)
    if engine is not None:
        return _insert_points(engine, run_id, missing, wanted)
    for batch in batches(missing, METRICS_PER_BATCH):
        client.log_batch(
            run_id, metrics=[Metric(p.key, p.value, p.timestamp, p.step) for p in batch]
        )
    return None


def _insert_points(
    engine: Any, run_id: str, missing: Sequence[MetricPoint], wanted: Sequence[MetricPoint]
) -> None:
    """The rows that MLflow's store would make: the histories, and of each key the latest value."""
    from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric
    from sqlalchemy import delete
    from sqlalchemy.dialects import postgresql, sqlite

    dialect = sqlite if engine.dialect.name == "sqlite" else postgresql
    insert = dialect.insert(SqlMetric).on_conflict_do_nothing()
    touched = {point.key for point in missing}
    latest = {
        point.key: point
        for point in sorted(
            (point for point in wanted if point.key in touched),
            key=lambda p: (p.step, p.timestamp, p.value),
        )
    }
    with engine.begin() as connection:
        for batch in batches(missing, ROWS):
            connection.execute(insert, [_row(run_id, point) for point in batch])
        if latest:
            stale = delete(SqlLatestMetric).where(
                SqlLatestMetric.run_uuid == run_id, SqlLatestMetric.key.in_(latest)
            )
            connection.execute(stale)
            rows = [_row(run_id, point) for point in latest.values()]
            connection.execute(dialect.insert(SqlLatestMetric), rows)


def _row(run_id: str, point: MetricPoint) -> dict[str, Any]:
    is_nan = point.value != point.value
    return {
        "run_uuid": run_id,
        "key": point.key,
        "value": 0.0 if is_nan else point.value,
        "is_nan": is_nan,
        "timestamp": point.timestamp,
        "step": point.step,
    }
