"""Writing a run's checkpoints to MLflow as logged models, their scores linked to the benchmarks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from fgrpo_bench.tracking.read import key
from fgrpo_bench.tracking.state import MetricPoint, ModelState, RunState

MODEL_FILE = "MLmodel"
METRICS_PER_BATCH = 1000
"""MLflow's limit."""

Scores = set[tuple[tuple[str, int, int, str], str]]
"""Metric points of a logged model, each with the digest of its dataset."""
T = TypeVar("T")


def models_of(client: Any, experiment_id: str, run_id: str) -> list[Any]:
    """The logged models of a run that are not in the trash, the oldest first."""
    models, token = [], None
    while True:
        page = client.search_logged_models(
            [experiment_id], filter_string=f"source_run_id = '{run_id}'", page_token=token
        )
        models += page
        token = page.token
        if not token:
            return sorted(models, key=lambda model: (model.creation_timestamp, model.model_id))


def write_models(client: Any, run: Any, wanted: RunState, *, new: bool) -> None:
    """One logged model a checkpoint, its scores linked to the datasets; what is not wanted goes.

    A model that holds another value of something that cannot be changed is made anew.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelOutput, Metric

    experiment_id, run_id = run.info.experiment_id, str(run.info.run_id)
    stored: dict[int, Any] = {}
    for model in [] if new else models_of(client, experiment_id, run_id):
        state = next((each for each in wanted.models if _fits(model, each)), None)
        if state is None or state.step in stored:
            client.delete_logged_model(model.model_id)
        else:
            stored[state.step] = model
    metrics, outputs = [], {}
    for state in wanted.models:
        existing = stored.get(state.step)
        model_id, held = _model(client, experiment_id, run_id, state, existing)
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
    for batch in batches(metrics, METRICS_PER_BATCH):
        client.log_batch(run_id, metrics=batch)
    linked = set()
    if not new:
        known = client.get_run(run_id).outputs.model_outputs
        linked = {output.model_id for output in known}
    unlinked = {name: step for name, step in outputs.items() if name not in linked}
    if unlinked:
        links = [LoggedModelOutput(name, step) for name, step in unlinked.items()]
        client.log_outputs(run_id, links)


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
    client: Any, experiment_id: str, run_id: str, wanted: ModelState, existing: Any | None
) -> tuple[str, Scores]:
    """Id of the external model, made ready where it is not yet, and the scores that it holds."""
    model = existing or client.create_logged_model(
        experiment_id,
        name=wanted.name,
        source_run_id=run_id,
        tags=dict(wanted.tags),
        params=dict(wanted.params),
        model_type="checkpoint",
    )
    if existing is not None and existing.tags != dict(wanted.tags):
        client.set_logged_model_tags(existing.model_id, dict(wanted.tags))
    if str(model.status) != "READY":
        upload(client, model.artifact_location, {MODEL_FILE: _description(model, wanted)})
        client.finalize_logged_model(model.model_id, "READY")
    return str(model.model_id), _scores(model)


def _description(model: Any, wanted: ModelState) -> bytes:
    """The MLmodel file without which no model version can be registered of it."""
    from mlflow.models.utils import get_external_mlflow_model_spec

    spec = get_external_mlflow_model_spec(model)
    spec.utc_time_created = str(datetime.fromtimestamp(wanted.created / 1000, UTC))
    return str(spec.to_yaml()).encode()


def upload(client: Any, location: str, files: Mapping[str, bytes]) -> None:
    """Store artifacts where the answer to a creation said: MLflow's client would ask again.

    files: contents by path.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        where: Any = get_artifact_repository(location, tracking_uri=client.tracking_uri)
        where.log_artifacts(folder)


def batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` items, in order."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch
