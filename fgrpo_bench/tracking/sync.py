"""Bring MLflow to what the files say: idempotent, safe to kill, one process at a time.

A run is found by its identity tags, never by name. A tag holds the digest of the state that was
written whole: it is cleared before anything of the run changes and set last, so a run whose digest
fits needs no further look, and after a kill the next sync completes what is there. Metric points
and artifacts are added where they are missing. Where a run holds what MLflow cannot change and the
files contradict (a parameter, the start, a logged point, say after a regrading), it goes to
MLflow's trash and is written anew: a run's history always equals the files.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar

from fgrpo_bench.files import locked
from fgrpo_bench.paths import RunPaths
from fgrpo_bench.tracking.describe import IDENTITY
from fgrpo_bench.tracking.desired import (
    ExperimentState,
    MetricPoint,
    RunState,
    desired_experiment,
)
from fgrpo_bench.tracking.store import Store, find_store, opened

DIGEST = "digest"
"""Tag: RunState.digest of what the run holds whole; empty while it is being written."""
METRICS_PER_BATCH = 1000
"""MLflow's limit."""

Outcome = Literal["created", "updated", "replaced", "unchanged"]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """What a sync did, in numbers of runs."""

    experiment: str
    """Name of the MLflow experiment, e.g. `groupsize/countdown`."""
    experiment_id: str
    where: str
    """URI of the store, without a password."""
    seconds: float
    created: int
    updated: int
    replaced: int
    """Deleted and written anew, because the files contradict what was logged."""
    unchanged: int

    def __str__(self) -> str:
        counts = {name: getattr(self, name) for name in ("created", "updated", "replaced")}
        said = "".join(f"{count} {name}, " for name, count in counts.items() if count)
        return (
            f"MLflow {self.experiment}: {said}{self.unchanged} unchanged "
            f"({self.seconds:.1f} s, {self.where})"
        )


def sync_run(paths: RunPaths, *, tracking_uri: str | None = None) -> SyncResult:
    """Bring MLflow up to date with one sweep's files; a second call changes nothing.

    tracking_uri: None is MLFLOW_TRACKING_URI, or the embedded store beside the runs where that is
    not set. Waits for another sync under the same root.
    Raises ConnectionError where MLflow cannot be reached or written, FileNotFoundError where the
    sweep was never run, ValueError for a damaged file.
    """
    begun = time.monotonic()
    store = find_store(paths, tracking_uri)
    with locked(paths.mlflow_lock, wait=True, what="a sync of MLflow"):
        wanted = desired_experiment(paths)
        with opened(store) as client:
            experiment_id = _experiment(client, wanted, store)
            found = _runs(client, experiment_id, paths)
            outcomes = Counter(
                _reconcile(client, experiment_id, run, found[run.identity]) for run in wanted.runs
            )
    return SyncResult(
        experiment=wanted.name,
        experiment_id=experiment_id,
        where=str(store),
        seconds=time.monotonic() - begun,
        created=outcomes["created"],
        updated=outcomes["updated"],
        replaced=outcomes["replaced"],
        unchanged=outcomes["unchanged"],
    )


def sync_all(runs: Iterable[RunPaths], *, tracking_uri: str | None = None) -> list[SyncResult]:
    """Sync several sweeps, printing a line for each; those that fail are missing in the result.

    A damaged sweep does not keep the others back; a store that cannot be written ends it.
    """
    results = []
    for paths in runs:
        try:
            results.append(sync_run(paths, tracking_uri=tracking_uri))
            print(results[-1], flush=True)
        except ConnectionError as error:
            print(error, file=sys.stderr)
            break
        except (ValueError, KeyError, OSError) as error:
            print(f"{paths.folder} is left out: {error}", file=sys.stderr)
    return results


def _experiment(client: Any, wanted: ExperimentState, store: Store) -> str:
    """Id of the experiment, made, taken out of the trash and tagged as needed."""
    location = store.artifacts.as_uri() if store.artifacts else None
    found = client.get_experiment_by_name(wanted.name)
    if found is None:
        client.create_experiment(wanted.name, artifact_location=location)
        found = client.get_experiment_by_name(wanted.name)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    if store.embedded is not None and found.artifact_location != location:
        raise OSError(
            f"it keeps artifacts in {found.artifact_location}, so the runs were moved here since"
        )
    for key, value in wanted.tags.items():
        if found.tags.get(key) != value:
            client.set_experiment_tag(found.experiment_id, key, value)
    return str(found.experiment_id)


def _runs(client: Any, experiment_id: str, paths: RunPaths) -> dict[tuple[str, ...], list[Any]]:
    """The sweep's MLflow runs by identity, trash left out, the oldest of equals first."""
    by_identity = defaultdict(list)
    wanted = f"tags.sweep = '{paths.sweep}' and tags.version = '{paths.version}'"
    token = None
    while True:
        page = client.search_runs([experiment_id], wanted, max_results=1000, page_token=token)
        for run in page:
            by_identity[tuple(run.data.tags.get(key) for key in IDENTITY)].append(run)
        token = page.token
        if not token:
            break
    for runs in by_identity.values():
        runs.sort(key=lambda run: (run.info.start_time, run.info.run_id))
    return by_identity


def _reconcile(client: Any, experiment_id: str, wanted: RunState, found: Sequence[Any]) -> Outcome:
    """Make one run equal to the wanted state; of several with its identity only one is kept."""
    whole = [run for run in found if run.data.tags.get(DIGEST) == wanted.digest]
    kept = next(iter([*whole, *found]), None)
    for run in found:
        if run is not kept:
            client.delete_run(run.info.run_id)
    if whole:
        return "unchanged"
    if kept is None:
        _write(client, _create(client, experiment_id, wanted), wanted, wanted.points)
        return "created"
    stored = _history(client, kept)
    if _contradicts(kept, stored, wanted):
        client.delete_run(kept.info.run_id)
        _write(client, _create(client, experiment_id, wanted), wanted, wanted.points)
        return "replaced"
    client.set_tag(kept.info.run_id, DIGEST, "")
    missing = [point for point in wanted.points if _key(point) not in stored]
    _write(client, kept.info.run_id, wanted, missing)
    return "updated"


def _create(client: Any, experiment_id: str, wanted: RunState) -> str:
    """Id of a new run that holds its identity from the first moment."""
    run = client.create_run(
        experiment_id,
        start_time=wanted.start,
        tags={key: wanted.tags[key] for key in IDENTITY},
        run_name=wanted.name,
    )
    return str(run.info.run_id)


def _history(client: Any, run: Any) -> set[tuple[str, int, int, str]]:
    """Every metric point that a run holds."""
    return {
        _key(MetricPoint(metric.key, metric.step, metric.timestamp, metric.value))
        for key in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, key)
    }


def _key(point: MetricPoint) -> tuple[str, int, int, str]:
    """Comparable where the value is nan."""
    return point.key, point.step, point.timestamp, repr(point.value)


def _contradicts(run: Any, stored: set[tuple[str, int, int, str]], wanted: RunState) -> bool:
    """Whether the run holds something that is not wanted and that MLflow cannot change."""
    return (
        run.info.start_time != wanted.start
        or (run.info.end_time is not None and wanted.end is None)
        or not run.data.params.items() <= dict(wanted.params).items()
        or not stored <= {_key(point) for point in wanted.points}
    )


def _write(client: Any, run_id: str, wanted: RunState, points: Sequence[MetricPoint]) -> None:
    """Write everything but the points that stand already; the digest comes last."""
    from mlflow.entities import Metric, Param, RunTag

    client.log_batch(
        run_id,
        params=[Param(key, value) for key, value in wanted.params.items()],
        tags=[RunTag(key, value) for key, value in wanted.tags.items()],
    )
    for batch in _batches(points, METRICS_PER_BATCH):
        metrics = [Metric(p.key, p.value, p.timestamp, p.step) for p in batch]
        client.log_batch(run_id, metrics=metrics)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in wanted.artifacts.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        client.log_artifacts(run_id, folder)
    if wanted.end is not None:
        client.set_terminated(run_id, status="FINISHED", end_time=wanted.end)
    client.set_tag(run_id, DIGEST, wanted.digest)


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch
