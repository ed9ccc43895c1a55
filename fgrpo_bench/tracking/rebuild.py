"""Make MLflow anew from the stored files, as `sync` would have filled an empty store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tracking.desired import experiment_name
from fgrpo_bench.tracking.read import Stored, stored_runs
from fgrpo_bench.tracking.store import Store, close, find_store, opened
from fgrpo_bench.tracking.sync import SyncResult, sync_all
from fgrpo_bench.tracking.write import discard


def rebuild(
    runs: Sequence[RunPaths], *, tracking_uri: str | None = None, agreed: bool = False
) -> list[SyncResult]:
    """Empty the store of these sweeps and sync all of them; those that fail are missing.

    runs: of one root, all that the store is to hold. The embedded store is moved aside, artifacts
    and all. In any other one the runs of these sweeps go to MLflow's trash, once that is agreed;
    what else is there stays.
    Raises PermissionError where it is not agreed and there are runs, and as `sync_run` does.
    """
    store = find_store(runs[0], tracking_uri)
    if store.embedded is not None:
        with locked(runs[0].mlflow_lock, wait=True, what="a sync of MLflow"):
            close(store)
            for path in (runs[0].mlflow_db, runs[0].mlflow_artifacts):
                _move_aside(path)
    else:
        with opened(store) as client:
            _empty(client, store, runs, agreed=agreed)
    return sync_all(runs, tracking_uri=tracking_uri)


def _move_aside(path: Path) -> None:
    """To the first name that is free, e.g. mlflow.db.old-1, beside it."""
    if path.exists():
        numbers = iter(range(1, 10**6))
        aside = next(free for n in numbers if not (free := Path(f"{path}.old-{n}")).exists())
        path.rename(aside)
        print(f"moved {path} to {aside}; delete it once you miss nothing", flush=True)


def _empty(client: Any, store: Store, runs: Sequence[RunPaths], *, agreed: bool) -> None:
    held: list[tuple[str, Stored]] = []
    for paths in runs:
        experiment = client.get_experiment_by_name(experiment_name(paths))
        if experiment is not None and experiment.lifecycle_stage == "active":
            where = experiment.experiment_id
            held += [(where, run) for run in stored_runs(client, where, paths)]
    if held and not agreed:
        raise PermissionError(
            f"MLflow at {store} holds {len(held)} runs of these sweeps, which would go to its "
            "trash and be written anew: repeat the command with --yes, or run `python -m "
            "fgrpo_bench.tracking sync`, which changes only what differs from the files"
        )
    for experiment_id, run in held:
        discard(client, experiment_id, run.run_id)
