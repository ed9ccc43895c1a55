"""Bring MLflow to what the files say: idempotent, safe to kill, one process at a time.

A run is found by its identity tags, never by name. A tag holds the digest of what the run was
computed from: it is cleared before anything of the run changes and set last, so a run whose digest
fits needs no further look, and after a kill the next sync completes what is there. Metric points,
logged models and artifacts are added where they are missing. Where a run holds what MLflow cannot
change and the files contradict (a parameter, the start, a logged point, say after a regrading), it
goes to MLflow's trash and is written anew: a run's history always equals the files. A cell is
written anew whenever one more of its seeds is judged, since mean and interval are then others.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from fgrpo_bench.results import load_results
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tracking.desired import desired_experiment, desired_points, experiment_name
from fgrpo_bench.tracking.source import Source
from fgrpo_bench.tracking.state import (
    IDENTITY,
    ExperimentState,
    MetricPoint,
    RunState,
    Wanted,
)
from fgrpo_bench.tracking.store import DIGEST, Store, find_store, move_aside, opened
from fgrpo_bench.tracking.views import SHARED

PARENT = "mlflow.parentRunId"
PER_BATCH = 1000
"""Metrics that MLflow takes in one call."""

Change = Literal["created", "updated", "replaced", "unchanged"]
Held = set[tuple[str, int, int, str]]
"""Metric points of a run."""


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """What a sync did, in numbers of runs."""

    experiment: str
    """Name of the MLflow experiment, e.g. `groupsize/countdown`."""
    experiment_id: str
    views: tuple[str, ...]
    """Names of the experiment's page views."""
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
        changes = "".join(f"{count} {name}, " for name, count in counts.items() if count)
        return (
            f"MLflow {self.experiment}: {changes}{self.unchanged} unchanged "
            f"({self.seconds:.1f} s, {self.where})"
        )


def sync_run(
    paths: RunPaths, *, tracking_uri: str | None = None, is_full: bool = False
) -> SyncResult:
    """Bring MLflow up to date with one sweep's files; a second call changes nothing.

    tracking_uri: None is MLFLOW_TRACKING_URI, or the embedded store beside the runs where that is
    not set. is_full: compare every value, also of runs whose files are as they were when MLflow got
    them. Waits for another sync under the same root.
    Raises ConnectionError where MLflow cannot be reached or written, FileNotFoundError where the
    sweep was never run, ValueError for a damaged file.
    """
    begun = time.monotonic()
    store = find_store(paths, tracking_uri)
    with locked(paths.mlflow_lock, wait=True, what="a sync of MLflow"):
        wanted = desired_experiment(paths)
        with opened(store) as client:
            experiment_id, views = _experiment(client, wanted, store, is_full=is_full)
            sync = _Sync(client, experiment_id, paths, is_full=is_full)
            outcomes = Counter(map(sync.bring, wanted.runs))
    return SyncResult(
        experiment=wanted.name,
        experiment_id=experiment_id,
        views=views,
        where=str(store),
        seconds=time.monotonic() - begun,
        created=outcomes["created"],
        updated=outcomes["updated"],
        replaced=outcomes["replaced"],
        unchanged=outcomes["unchanged"],
    )


def sync_training(
    paths: RunPaths, points: Collection[str], *, tracking_uri: str | None = None
) -> bool:
    """Bring the runs of some points up to date, which costs a fraction of `sync_run`, whose runs
    they then equal; False, with nothing written, where one of them has no run yet.

    points: point_ids, say of those whose metrics have grown. tracking_uri: as in `sync_run`.
    Raises as `sync_run`, and BlockingIOError where another sync is under way.
    """
    store = find_store(paths, tracking_uri)
    with locked(paths.mlflow_lock, wait=False, what="a sync of MLflow"):
        asked = desired_points(Source(load_results(paths)), points)
        states = {run.name: run.state() for run in asked}  # each is asked for twice
        wanted = [replace(run, state=partial(states.__getitem__, run.name)) for run in asked]
        with opened(store) as client:
            experiment = client.get_experiment_by_name(experiment_name(paths))
            if experiment is None or experiment.lifecycle_stage == "deleted":
                return False
            sync = _Sync(client, str(experiment.experiment_id), paths, points=points)
            if not all(sync.holds(run) for run in wanted):
                return False
            for run in wanted:
                sync.bring(run)
    return True


def sync_all(
    runs: Iterable[RunPaths], *, tracking_uri: str | None = None, is_full: bool = False
) -> list[SyncResult]:
    """Sync several sweeps, printing a line for each; those that fail are missing in the result.

    A damaged sweep does not keep the others back; a store that cannot be written ends it.
    """
    results = []
    for paths in runs:
        try:
            results.append(sync_run(paths, tracking_uri=tracking_uri, is_full=is_full))
            print(results[-1], flush=True)
        except ConnectionError as error:
            print(error, file=sys.stderr)
            break
        except (ValueError, KeyError, OSError) as error:
            print(f"{paths.folder} is left out: {error}", file=sys.stderr)
    return results


def rebuild(
    runs: Sequence[RunPaths], *, tracking_uri: str | None = None, agreed: bool = False
) -> list[SyncResult]:
    """Make MLflow anew from the stored files, as a sync of these sweeps would fill an empty store;
    those that fail are missing.

    runs: of one root, all that the store is to hold. The embedded store is moved aside, artifacts
    and all. In any other one the runs of these sweeps go to MLflow's trash, once that is agreed;
    what else is there stays.
    Raises PermissionError where it is not agreed and there are runs, and as `sync_run` does.
    """
    store = find_store(runs[0], tracking_uri)
    if store.embedded is not None:
        with locked(runs[0].mlflow_lock, wait=True, what="a sync of MLflow"):
            for path in (runs[0].mlflow_db, runs[0].mlflow_artifacts):
                move_aside(path)
    else:
        with opened(store) as client:
            _empty(client, store, runs, agreed=agreed)
    return sync_all(runs, tracking_uri=tracking_uri)


def _empty(client: Any, store: Store, runs: Sequence[RunPaths], *, agreed: bool) -> None:
    held: list[Stored] = []
    for paths in runs:
        experiment = client.get_experiment_by_name(experiment_name(paths))
        if experiment is not None and experiment.lifecycle_stage == "active":
            held += stored_runs(client, experiment.experiment_id, paths)
    if held and not agreed:
        raise PermissionError(
            f"MLflow at {store} holds {len(held)} runs of these sweeps, which would go to its "
            "trash and be written anew: repeat the command with --yes, or run `python -m "
            "fgrpo_bench.tracking sync`, which changes only what differs from the files"
        )
    for run in held:
        client.delete_run(run.run_id)


def _experiment(
    client: Any, wanted: ExperimentState, store: Store, *, is_full: bool
) -> tuple[str, tuple[str, ...]]:
    """Id of the experiment, made, taken out of the trash and tagged as needed; and its views."""
    location = store.artifacts.as_uri() if store.artifacts else None
    experiment = client.get_experiment_by_name(wanted.name)
    if experiment is None:
        # The tag says that it is ours, also where no digest follows.
        client.create_experiment(wanted.name, artifact_location=location, tags={DIGEST: ""})
        experiment = client.get_experiment_by_name(wanted.name)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    tags: dict[str, str] = {}
    if wanted.digest is not None and (is_full or experiment.tags.get(DIGEST) != wanted.digest):
        tags = dict(wanted.tags()) | {DIGEST: wanted.digest}
    for key, value in tags.items():
        if experiment.tags.get(key) != value:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    views = (key.removeprefix(SHARED) for key in experiment.tags | tags if key.startswith(SHARED))
    return str(experiment.experiment_id), tuple(sorted(views))


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


class _Sync:
    """One sync: what MLflow held of a sweep when it began, and the runs that it has brought."""

    def __init__(
        self,
        client: Any,
        experiment_id: str,
        paths: RunPaths,
        *,
        points: Collection[str] = (),
        is_full: bool = False,
    ) -> None:
        self._client, self._experiment_id, self._is_full = client, experiment_id, is_full
        self._ids: dict[str, str] = {}
        self._stored: defaultdict[str, list[Stored]] = defaultdict(list)
        for run in stored_runs(client, experiment_id, paths, points=points):
            self._stored[run.name].append(run)

    def holds(self, wanted: Wanted) -> bool:
        """Whether there is a run of its identity."""
        identity = wanted.state().identity
        return any(run.identity == identity for run in self._stored[wanted.name])

    def bring(self, wanted: Wanted) -> Change:
        """Make one run equal to the wanted one; of several with its identity only one is kept."""
        known = self._stored[wanted.name]
        identical = next((run for run in known if run.digest == wanted.digest), None)
        state = None if identical is not None and not self._is_full else wanted.state()
        identity = state.identity if state is not None else identical and identical.identity
        equals = [run for run in known if run.identity == identity]
        kept = identical or next(iter(equals), None)
        for run in equals:
            if run is not kept:
                self._client.delete_run(run.run_id)
        parent = self._ids[wanted.parent] if wanted.parent else None
        if parent is None and kept is not None:
            parent = kept.parent
        if kept is None or state is not None:
            outcome, run_id = self._write(wanted, state or wanted.state(), kept, parent)
        else:
            outcome, run_id = "unchanged", kept.run_id
        if kept is not None and outcome != "replaced" and kept.parent != parent:
            self._client.set_tag(run_id, PARENT, parent)
        self._ids[wanted.name] = run_id
        return outcome

    def _write(
        self, wanted: Wanted, state: RunState, kept: Stored | None, parent: str | None
    ) -> tuple[Change, str]:
        """What was done, and the id of the run."""
        client = self._client
        outcome: Change = "created"
        if kept is not None:
            run = client.get_run(kept.run_id)
            stored = _history(client, run)
            outcome = "replaced" if _contradicts(client, run, stored, state) else "updated"
        if outcome == "updated":
            client.set_tag(run.info.run_id, DIGEST, "")
            _write(client, run, state, stored)
        else:
            if kept is not None:
                client.delete_run(kept.run_id)
            run = _create(client, self._experiment_id, state, parent)
        client.set_tag(run.info.run_id, DIGEST, wanted.digest)
        return outcome, str(run.info.run_id)


def stored_runs(
    client: Any, experiment_id: str, paths: RunPaths, *, points: Collection[str] = ()
) -> list[Stored]:
    """The sweep's runs, trash left out, the oldest first.

    points: point_ids of those that are wanted, where others cost time; none of them wants all.
    """
    which = f"tags.sweep = '{paths.sweep}' and tags.version = '{paths.version}'"
    queries = [f"{which} and tags.point_id = '{point}'" for point in points] or [which]
    runs = [run for query in queries for run in _ask_for_runs(client, experiment_id, query)]
    return sorted(runs, key=lambda run: (run.start, run.run_id))


def _ask_for_runs(client: Any, experiment_id: str, query: str) -> Iterator[Stored]:
    token = None
    while True:
        page = client.search_runs([experiment_id], query, max_results=1000, page_token=token)
        for run in page:
            yield Stored(run_id=run.info.run_id, start=run.info.start_time, tags=run.data.tags)
        token = page.token
        if not token:
            return


def _history(client: Any, run: Any) -> Held:
    """Every metric point that a run holds."""
    return {
        _key(MetricPoint(metric.key, metric.step, metric.timestamp, metric.value))
        for name in run.data.metrics
        for metric in client.get_metric_history(run.info.run_id, name)
    }


def _contradicts(client: Any, run: Any, stored: Held, wanted: RunState) -> bool:
    """Whether the run holds something that is not wanted and that MLflow cannot change."""
    return (
        run.info.start_time != wanted.start
        or (run.info.end_time is not None and wanted.end is None)
        or not run.data.params.items() <= dict(wanted.params).items()
        or not stored <= {_key(point) for point in wanted.points}
        or not set(_artifacts(client, run.info.run_id)) <= set(wanted.artifacts)
    )


def _artifacts(client: Any, run_id: str, folder: str | None = None) -> Iterator[str]:
    """Paths of the files that a run holds."""
    for entry in client.list_artifacts(run_id, folder):
        if entry.is_dir:
            yield from _artifacts(client, run_id, entry.path)
        else:
            yield entry.path


def _key(point: MetricPoint) -> tuple[str, int, int, str]:
    """Comparable where the value is nan."""
    return point.key, point.step, point.timestamp, repr(point.value)


def _create(client: Any, experiment_id: str, wanted: RunState, parent: str | None) -> Any:
    """Write a new run, which holds its identity from the first moment, and return it.

    parent: id of the run under which it is listed; None for none.
    """
    run = client.create_run(
        experiment_id,
        start_time=wanted.start,
        tags=dict(wanted.tags) | ({} if parent is None else {PARENT: parent}),
        run_name=wanted.title,
    )
    _write(client, run, wanted, None)
    return run


def _write(client: Any, run: Any, wanted: RunState, stored: Held | None) -> None:
    """Write everything but the points that stand already.

    stored: points that the run holds; None for a run that was made just now, which holds its tags.
    """
    from mlflow.entities import Metric, Param, RunTag

    run_id = str(run.info.run_id)
    tags = [] if stored is None else (dict(wanted.tags) | {"mlflow.runName": wanted.title}).items()
    client.log_batch(
        run_id,
        params=[Param(name, value) for name, value in wanted.params.items()],
        tags=[RunTag(name, value) for name, value in tags],
    )
    missing = [point for point in wanted.points if stored is None or _key(point) not in stored]
    metrics = [Metric(each.key, each.value, each.timestamp, each.step) for each in missing]
    for first in range(0, len(metrics), PER_BATCH):
        client.log_batch(run_id, metrics=metrics[first : first + PER_BATCH])
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
