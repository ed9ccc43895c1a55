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
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from fgrpo_bench.results import load_results
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tracking.desired import desired_experiment, desired_points, experiment_name
from fgrpo_bench.tracking.read import DIGEST, PARENT, Stored, contradicts, history, stored_runs
from fgrpo_bench.tracking.source import Source
from fgrpo_bench.tracking.state import ExperimentState, RunState, Wanted
from fgrpo_bench.tracking.store import Store, find_store, opened
from fgrpo_bench.tracking.views import SHARED
from fgrpo_bench.tracking.write import create, discard, write

Change = Literal["created", "updated", "replaced", "unchanged"]


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


def _experiment(
    client: Any, wanted: ExperimentState, store: Store, *, is_full: bool
) -> tuple[str, tuple[str, ...]]:
    """Id of the experiment, made, taken out of the trash and tagged as needed; and its views."""
    location = store.artifacts.as_uri() if store.artifacts else None
    experiment = client.get_experiment_by_name(wanted.name)
    if experiment is None:
        client.create_experiment(wanted.name, artifact_location=location)
        experiment = client.get_experiment_by_name(wanted.name)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    if store.embedded is not None and experiment.artifact_location != location:
        raise OSError(
            f"its experiment {wanted.name} keeps artifacts in {experiment.artifact_location}, not "
            "beside the runs"
        )
    tags: dict[str, str] = {}
    if wanted.digest is not None and (is_full or experiment.tags.get(DIGEST) != wanted.digest):
        tags = dict(wanted.tags()) | {DIGEST: wanted.digest}
    for key, value in tags.items():
        if experiment.tags.get(key) != value:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    views = (key.removeprefix(SHARED) for key in experiment.tags | tags if key.startswith(SHARED))
    return str(experiment.experiment_id), tuple(sorted(views))


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
                discard(self._client, self._experiment_id, run.run_id)
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
            stored = history(client, run)
            outcome = "replaced" if contradicts(client, run, stored, state) else "updated"
        if outcome == "updated":
            client.set_tag(run.info.run_id, DIGEST, "")
            write(client, run, state, stored)
        else:
            if kept is not None:
                discard(client, self._experiment_id, kept.run_id)
            run = create(client, self._experiment_id, state, parent)
        client.set_tag(run.info.run_id, DIGEST, wanted.digest)
        return outcome, str(run.info.run_id)
