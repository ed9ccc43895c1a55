"""Writing one run to MLflow, and finding out what of it stands already.

Where the store is an SQL database that this process opens itself, metric histories go in with one
statement each: MLflow's own way makes an object of every value and takes several times as long.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from fgrpo_bench.tracking.state import MetricPoint, ModelState, RunState

DIGEST = "digest"
"""Tag: RunState.digest of what the run holds whole; empty while it is being written."""
PARENT = "mlflow.parentRunId"
METRICS_PER_BATCH = 1000
"""MLflow's limit."""
ROWS = 2000
"""Of one statement; SQLite takes 32,766 values."""
DIRECT = ("sqlite", "postgresql")
"""Databases whose rows are written directly."""

Held = set[tuple[str, int, int, str]]
"""Metric points of a run."""
Scores = set[tuple[tuple[str, int, int, str], str]]
"""Metric points of a logged model, each with the digest of its dataset."""
T = TypeVar("T")


def key(point: MetricPoint) -> tuple[str, int, int, str]:
    """Comparable where the value is nan."""
    return point.key, point.step, point.timestamp, repr(point.value)


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
    _remember(client, run.info.run_id, run.info.artifact_uri)
    write(client, experiment_id, run.info.run_id, wanted, None)
    return str(run.info.run_id)


def _remember(client: Any, resource_id: str, location: str) -> None:
    """Spare MLflow the question where a run or model keeps its artifacts, which it asks of the
    store each time although its answer to the creation said so."""
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
    from mlflow.tracking._tracking_service.utils import _artifact_repos_cache

    while len(_artifact_repos_cache) > 100:
        _artifact_repos_cache.popitem(last=False)
    _artifact_repos_cache[resource_id] = get_artifact_repository(
        location, tracking_uri=client.tracking_uri
    )


def discard(client: Any, experiment_id: str, run_id: str) -> None:
    """Move a run and its logged models to MLflow's trash."""
    for model in models_of(client, experiment_id, run_id):
        client.delete_logged_model(model.model_id)
    client.delete_run(run_id)


def history(client: Any, run: Any) -> Held:
    """Every metric point that a run holds."""
    return {
        key(MetricPoint(metric.key, metric.step, metric.timestamp, metric.value))
        for name in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, name)
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
        _write_models(client, experiment_id, run_id, wanted, new=stored is None)
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
        client.set_terminated(run_id, status="FINISHED", end_time=wanted.end)
    client.set_tag(run_id, DIGEST, wanted.digest)


def _log_points(
    client: Any, run_id: str, missing: Sequence[MetricPoint], wanted: Sequence[MetricPoint]
) -> None:
    from mlflow.entities import Metric

    engine = getattr(client._tracking_client.store, "engine", None)
    if engine is not None and engine.dialect.name in DIRECT:
        return _insert_points(engine, run_id, missing, wanted)
    for batch in _batches(missing, METRICS_PER_BATCH):
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
        for batch in _batches(missing, ROWS):
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


def models_of(client: Any, experiment_id: str, run_id: str) -> list[Any]:
    """The logged models of a run that are not in the trash, the oldest first."""
    found, token = [], None
    while True:
        page = client.search_logged_models(
            [experiment_id], filter_string=f"source_run_id = '{run_id}'", page_token=token
        )
        found += page
        token = page.token
        if not token:
            return sorted(found, key=lambda model: (model.creation_timestamp, model.model_id))


def _write_models(
    client: Any, experiment_id: str, run_id: str, wanted: RunState, *, new: bool
) -> None:
    """One logged model a checkpoint, its scores linked to the datasets; what is not wanted goes.

    A model that holds another value of something that cannot be changed is made anew.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelOutput, Metric

    stored: dict[int, Any] = {}
    for model in [] if new else models_of(client, experiment_id, run_id):
        state = next((one for one in wanted.models if _fits(model, one)), None)
        if state is None or state.step in stored:
            client.delete_logged_model(model.model_id)
        else:
            stored[state.step] = model
    metrics, outputs = [], {}
    for state in wanted.models:
        found = stored.get(state.step)
        model_id, held = _model(client, experiment_id, run_id, state, found)
        outputs[model_id] = state.step
        metrics += [
            Metric(
                *(score.point.key, score.point.value, score.point.timestamp, score.point.step),
                model_id=model_id,
                dataset_name=score.dataset.name,
                dataset_digest=score.dataset.digest,
            )
            for score in state.scores
            if (key(score.point), score.dataset.digest) not in held
        ]
    if wanted.datasets:
        inputs = [
            DatasetInput(
                Dataset(each.name, each.digest, "benchmark", each.source, profile=each.profile),
                [InputTag("mlflow.data.context", "evaluation")],
            )
            for each in wanted.datasets
        ]
        client.log_inputs(run_id, inputs)
    for batch in _batches(metrics, METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=batch)
    linked = set()
    if not new:
        known = client.get_run(run_id).outputs.model_outputs
        linked = {output.model_id for output in known}
    unlinked = {name: step for name, step in outputs.items() if name not in linked}
    if unlinked:
        made = [LoggedModelOutput(name, step) for name, step in unlinked.items()]
        client.log_outputs(run_id, made)


def _fits(model: Any, wanted: ModelState) -> bool:
    """Whether a stored model is this checkpoint and holds nothing that is not wanted."""
    scores = {(key(score.point), score.dataset.digest) for score in wanted.scores}
    return (
        model.name == wanted.name
        and model.params == dict(wanted.params)
        and _scores(model) <= scores
    )


def _scores(model: Any) -> Scores:
    return {
        (key(MetricPoint(each.key, each.step, each.timestamp, each.value)), each.dataset_digest)
        for each in model.metrics or []
    }


def _model(
    client: Any, experiment_id: str, run_id: str, wanted: ModelState, found: Any | None
) -> tuple[str, Scores]:
    """Id of the external model, made ready where it is not yet, and the scores that it holds."""
    made = found or client.create_logged_model(
        experiment_id,
        name=wanted.name,
        source_run_id=run_id,
        tags=dict(wanted.tags),
        params=dict(wanted.params),
        model_type="checkpoint",
    )
    if found is not None and found.tags != dict(wanted.tags):
        client.set_logged_model_tags(found.model_id, dict(wanted.tags))
    if str(made.status) != "READY":
        _remember(client, made.model_id, made.artifact_location)
        _describe(client, made, wanted)
        client.finalize_logged_model(made.model_id, "READY")
    return str(made.model_id), _scores(made)


def _describe(client: Any, made: Any, wanted: ModelState) -> None:
    """The MLmodel file without which no model version can be registered of it."""
    from mlflow.models.model import MLMODEL_FILE_NAME
    from mlflow.models.utils import get_external_mlflow_model_spec

    spec = get_external_mlflow_model_spec(made)
    spec.utc_time_created = str(datetime.fromtimestamp(wanted.created / 1000, UTC))
    with tempfile.TemporaryDirectory() as folder:
        spec.save(str(Path(folder, MLMODEL_FILE_NAME)))
        client.log_model_artifacts(made.model_id, folder)


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch
