"""Writing one run to MLflow.

Where the store is an SQL database that this process opens itself, metric histories go in with one
statement: MLflow's own way makes an object of every value and takes many times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fgrpo_bench.tracking.read import PARENT, Held, key
from fgrpo_bench.tracking.state import MetricPoint, RunState
from fgrpo_bench.tracking.store import database
from fgrpo_bench.tracking.write_models import (
    METRICS_PER_BATCH,
    batches,
    models_of,
    upload,
    write_models,
)

ROWS = 2000
"""Of one statement; SQLite takes 32,766 values."""


def create(client: Any, experiment_id: str, wanted: RunState, parent: str | None) -> Any:
    """Write a new run, which holds its identity from the first moment, and return it.

    parent: id of the run under which it is listed; None for none.
    """
    run = client.create_run(
        experiment_id,
        start_time=wanted.start,
        tags=dict(wanted.tags) | ({} if parent is None else {PARENT: parent}),
        run_name=wanted.title,
    )
    write(client, run, wanted, None)
    return run


def discard(client: Any, experiment_id: str, run_id: str) -> None:
    """Move a run and its logged models to MLflow's trash."""
    for model in models_of(client, experiment_id, run_id):
        client.delete_logged_model(model.model_id)
    client.delete_run(run_id)


def write(client: Any, run: Any, wanted: RunState, stored: Held | None) -> None:
    """Write everything but the points that stand already.

    stored: points that the run holds; None for a run that was made just now, which holds its tags.
    """
    from mlflow.entities import Param, RunTag

    run_id = str(run.info.run_id)
    tags = [] if stored is None else (dict(wanted.tags) | {"mlflow.runName": wanted.title}).items()
    client.log_batch(
        run_id,
        params=[Param(name, value) for name, value in wanted.params.items()],
        tags=[RunTag(name, value) for name, value in tags],
    )
    if wanted.models or stored is not None:
        write_models(client, run, wanted, new=stored is None)
    missing = [point for point in wanted.points if stored is None or key(point) not in stored]
    _log_points(client, run_id, missing, wanted.points)
    if wanted.artifacts:
        upload(client, run.info.artifact_uri, wanted.artifacts)
    if wanted.end is not None:
        client.set_terminated(run_id, status=wanted.status, end_time=wanted.end)
    elif wanted.failed or stored is not None:
        client.update_run(run_id, status=wanted.status)


def _log_points(
    client: Any, run_id: str, missing: Sequence[MetricPoint], wanted: Sequence[MetricPoint]
) -> None:
    from mlflow.entities import Metric

    engine = database(client)
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
