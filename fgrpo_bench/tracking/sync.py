"""Bring MLflow to what the files say: idempotent, safe to kill, one process at a time.

A run is found by its identity tags, never by name. A tag holds the digest of the state that was
written whole: it is cleared before anything of the run changes and set last, so a run whose digest
fits needs no further look, and after a kill the next sync completes what is there. Metric points,
logged models and artifacts are added where they are missing. Where a run holds what MLflow cannot
change and the files contradict (a parameter, the start, a logged point, say after a regrading), it
goes to MLflow's trash and is written anew: a run's history always equals the files. A cell is
written anew whenever one more of its seeds is judged, since mean and interval are then others.
"""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tracking.describe import SHARED
from fgrpo_bench.tracking.desired import desired_experiment, desired_points, experiment_name
from fgrpo_bench.tracking.state import IDENTITY, ExperimentState, RunState
from fgrpo_bench.tracking.store import Store, find_store, opened
from fgrpo_bench.tracking.write import DIGEST, PARENT, contradicts, create, discard, history, write

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
        gc.freeze()  # millions of values that live to the end: not to be looked through each time
        with opened(store) as client:
            experiment_id, views = _experiment(client, wanted, store)
            found = stored_runs(client, experiment_id, paths)
            outcomes: Counter[Change] = Counter()
            ids: dict[tuple[str, ...], str] = {}
            for run in wanted.runs:
                parent = ids[run.parent] if run.parent else None
                outcome, ids[run.identity] = _reconcile(
                    client, experiment_id, run, found[run.identity], parent
                )
                outcomes[outcome] += 1
        gc.unfreeze()
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
        wanted = desired_points(paths, points)
        with opened(store) as client:
            experiment = client.get_experiment_by_name(experiment_name(paths))
            if experiment is None or experiment.lifecycle_stage == "deleted":
                return False
            where = str(experiment.experiment_id)
            found = [
                stored_runs(client, where, paths, point_id=run.name)[run.identity] for run in wanted
            ]
            if not all(found):
                return False
            for run, own in zip(wanted, found, strict=True):
                _reconcile(client, where, run, own, own[0].data.tags.get(PARENT))
    return True


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


def _experiment(client: Any, wanted: ExperimentState, store: Store) -> tuple[str, tuple[str, ...]]:
    """Id of the experiment, made, taken out of the trash and tagged as needed; and its views."""
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
    tags = [*found.tags, *(key for key in wanted.tags if key not in found.tags)]
    views = (key.removeprefix(SHARED) for key in tags if key.startswith(SHARED))
    return str(found.experiment_id), tuple(sorted(views))


def stored_runs(
    client: Any, experiment_id: str, paths: RunPaths, *, point_id: str | None = None
) -> dict[tuple[str, ...], list[Any]]:
    """The sweep's MLflow runs by identity, trash left out, the oldest of equals first.

    point_id: of the runs that are wanted; None wants all.
    """
    by_identity = defaultdict(list)
    wanted = f"tags.sweep = '{paths.sweep}' and tags.version = '{paths.version}'"
    if point_id is not None:
        wanted += f" and tags.point_id = '{point_id}'"
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


def _reconcile(
    client: Any, experiment_id: str, wanted: RunState, found: Sequence[Any], parent: str | None
) -> tuple[Change, str]:
    """Make one run equal to the wanted state, and say its id; of several with its identity only
    one is kept.

    parent: id of the run under which it is listed; None for none.
    """
    whole = [run for run in found if run.data.tags.get(DIGEST) == wanted.digest]
    kept = next(iter([*whole, *found]), None)
    for run in found:
        if run is not kept:
            discard(client, experiment_id, run.info.run_id)
    if kept is None:
        return "created", create(client, experiment_id, wanted, parent)
    run_id = str(kept.info.run_id)
    if not whole:
        stored = history(client, kept)
        if contradicts(client, kept, stored, wanted):
            discard(client, experiment_id, run_id)
            return "replaced", create(client, experiment_id, wanted, parent)
        client.set_tag(run_id, DIGEST, "")
        write(client, experiment_id, run_id, wanted, stored)
    if parent is not None and kept.data.tags.get(PARENT) != parent:
        client.set_tag(run_id, PARENT, parent)
    return "unchanged" if whole else "updated", run_id
