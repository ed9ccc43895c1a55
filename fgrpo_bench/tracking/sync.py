"""Bring MLflow to what the files say: idempotent, safe to kill, one process at a time.

A run is found by its identity tags, never by name. A tag holds the digest of what the run was
computed from and is set last, so a run whose digest fits needs no further look. Any other one goes
to MLflow's trash and is written anew, since MLflow changes no logged value: a run's history always
equals the files, also after a kill, a regrading, or one more seed of a cell. A run that still
trains is written into while it holds nothing but what the files say, so that it keeps its id as its
curves grow.

MLflow is read and written by its public client alone, whatever the store is.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

import polars as pl

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import EVALUATIONS, RunPaths
from fgrpo_bench.files.whole import write_whole
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.tracking.desired import desired_experiment, experiment_name
from fgrpo_bench.tracking.evaluations import desired_evaluations
from fgrpo_bench.tracking.points import desired_points
from fgrpo_bench.tracking.source import Source
from fgrpo_bench.tracking.states import (
    IDENTITY,
    DesiredRun,
    ExperimentState,
    MetricPoint,
    RunState,
)

DIGEST = "digest"
"""Tag: of what a run or experiment that MLflow holds whole was computed from; empty while it is
written."""
PARENT = "mlflow.parentRunId"
URI_VARIABLE = "MLFLOW_TRACKING_URI"
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool",
}
"""What makes a dead server known in seconds (MLflow's own values: minutes), a live one print
nothing, and each access open the database anew: a process that lives long writes to none that was
moved aside meanwhile. Values that the environment already holds go first."""

Change = Literal["created", "updated", "replaced", "unchanged"]
Held = set[tuple[str, int, int, str]]
"""Metric points of a run."""


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
    not set. is_full: write every run anew, also those whose files are as they were when MLflow got
    them. Waits for another sync under the same root.
    Raises ConnectionError where MLflow cannot be reached or written, FileNotFoundError where the
    sweep was never run, ValueError for a damaged file.
    """
    begun = time.monotonic()
    store = find_store(paths, tracking_uri)
    with locked(paths.mlflow_lock, wait=True, what="a sync of MLflow"):
        is_alone = paths.sweep == EVALUATIONS
        desired = desired_evaluations(paths) if is_alone else desired_experiment(paths)
        with opened(store) as client:
            experiment_id = _experiment(client, desired, store, is_full=is_full)
            sync = _Sync(client, experiment_id, paths, is_full=is_full)
            outcomes = Counter(map(sync.bring, desired.runs))
    return SyncResult(
        experiment=desired.name,
        experiment_id=experiment_id,
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
            "trash and be written anew: repeat the command with --yes, or run `fgrpo-bench "
            "tracking sync`, which changes only what differs from the files"
        )
    for run in held:
        client.delete_run(run.run_id)


def _experiment(client: Any, desired: ExperimentState, store: Store, *, is_full: bool) -> str:
    """Id of the experiment, made, taken out of the trash and tagged as needed."""
    location = store.artifacts.as_uri() if store.artifacts else None
    experiment = client.get_experiment_by_name(desired.name)
    if experiment is None:
        # The tag says that it is ours, also where no digest follows.
        client.create_experiment(desired.name, artifact_location=location, tags={DIGEST: ""})
        experiment = client.get_experiment_by_name(desired.name)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    if desired.digest is not None and (is_full or experiment.tags.get(DIGEST) != desired.digest):
        tags = dict(desired.tags()) | {DIGEST: desired.digest}
        for key, value in tags.items():
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A run of the sweep in MLflow."""

    run_id: str
    start: int
    end: int | None
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

    def holds(self, desired: DesiredRun) -> bool:
        """Whether there is a run of its identity."""
        identity = desired.state().identity
        return any(run.identity == identity for run in self._stored[desired.name])

    def bring(self, desired: DesiredRun) -> Change:
        """Make one run equal to the desired one; of several with its identity only one is kept."""
        stored = self._stored[desired.name]
        kept = next((run for run in stored if run.digest == desired.digest), None)
        state = None if kept is not None and not self._is_full else desired.state()
        identity = state.identity if state is not None else kept and kept.identity
        equals = [run for run in stored if run.identity == identity]
        kept = kept or next(iter(equals), None)
        for run in equals:
            if run is not kept:
                self._client.delete_run(run.run_id)
        parent = kept.parent if kept else None
        if desired.parent:
            parent = self._ids[desired.parent]
        outcome: Change = "unchanged"
        if state is not None:
            outcome, kept = self._write(desired.digest, state, kept, parent)
        assert kept is not None
        if kept.parent != parent:
            self._client.set_tag(kept.run_id, PARENT, parent)
        self._ids[desired.name] = kept.run_id
        return outcome

    def _write(
        self, digest: str, state: RunState, kept: Stored | None, parent: str | None
    ) -> tuple[Change, Stored]:
        """What was done, and the run."""
        client, held = self._client, _held(self._client, kept, state)
        if kept is not None and held is not None:
            outcome: Change = "updated"
            client.set_tag(kept.run_id, DIGEST, "")
        else:
            outcome = "created" if kept is None else "replaced"
            if kept is not None:
                client.delete_run(kept.run_id)
            tags = dict(state.tags) | ({} if parent is None else {PARENT: parent})
            run = client.create_run(self._experiment_id, state.start, tags, state.title)
            kept = Stored(run_id=run.info.run_id, start=state.start, end=None, tags=tags)
        _log(client, kept.run_id, state, held)
        client.set_tag(kept.run_id, DIGEST, digest)
        return outcome, kept


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
            info = run.info
            yield Stored(
                run_id=info.run_id, start=info.start_time, end=info.end_time, tags=run.data.tags
            )
        token = page.token
        if not token:
            return


def _held(client: Any, kept: Stored | None, desired: RunState) -> Held | None:
    """The metric points of a run that can be written into; None where there is none: it has ended,
    or holds something that is not desired and that MLflow cannot change, or tables, which a run
    has once it ends."""
    if kept is None or kept.end is not None or kept.start != desired.start:
        return None
    run = client.get_run(kept.run_id)
    points = {
        _key(MetricPoint(metric.key, metric.step, metric.timestamp, metric.value))
        for name in run.data.metrics
        for metric in client.get_metric_history(kept.run_id, name)
    }
    can_grow = (
        run.data.params.items() <= dict(desired.params).items()
        and points <= {_key(point) for point in desired.points}
        and set(_artifacts(client, kept.run_id)) <= set(desired.artifacts)
    )
    return points if can_grow else None


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


def _log(client: Any, run_id: str, desired: RunState, held: Held | None) -> None:
    """Write everything but the points that stand already; the end last, for a run that has ended is
    never written into.

    held: points that the run holds; None for a run that was made just now, which holds its tags.
    """
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

    # Tables as `log_table` writes them, which takes 50 ms for each
    tables = {name: _table_json(table) for name, table in desired.tables.items()}
    if artifacts := {**desired.artifacts, **tables}:
        with tempfile.TemporaryDirectory() as folder:
            for name, content in artifacts.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            client.log_artifacts(run_id, folder)
    tags = {} if held is None else dict(desired.tags) | {"mlflow.runName": desired.title}
    if tables:
        named = [{"path": name, "type": "table"} for name in tables]
        tags[MLFLOW_LOGGED_ARTIFACTS] = json.dumps(named)
    missing = [point for point in desired.points if held is None or _key(point) not in held]
    client.log_batch(  # which makes as many calls as the limits of a server ask for
        run_id,
        metrics=[
            Metric(metric.key, metric.value, metric.timestamp, metric.step) for metric in missing
        ],
        params=[Param(name, value) for name, value in desired.params.items()],
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    if desired.end is not None:
        client.set_terminated(run_id, status=desired.status, end_time=desired.end)
    elif desired.failed or held is not None:
        client.update_run(run_id, status=desired.status)


def _table_json(table: pl.DataFrame) -> bytes:
    """A table as MLflow's pages and `load_table` read it; nan becomes null."""
    rows = table.fill_nan(None).rows()
    return json.dumps({"columns": table.columns, "data": rows}, allow_nan=False).encode()


# The store: where it is, without global state, and what its errors mean.


@dataclass(frozen=True, kw_only=True)
class Store:
    """A tracking store and where its artifacts go."""

    uri: str
    artifacts: Path | None
    """Absolute folder; None where a tracking server keeps them."""
    embedded: Path | None
    """The database file where this is the SQLite store of the run root, else None."""

    def __str__(self) -> str:
        return without_password(self.uri)


def embedded_uri(paths: RunPaths) -> str:
    """URI of the SQLite store of the run root, absolute: it is found from any folder."""
    return f"sqlite:///{paths.mlflow_db.resolve()}"


def find_store(paths: RunPaths, tracking_uri: str | None) -> Store:
    """tracking_uri: None is MLFLOW_TRACKING_URI, or the embedded store where that is not set.

    ConnectionError for a run root whose path MLflow would read as an address: it cuts it off at a
    `?`, and turns what follows a `%` into another character.
    """
    uri = tracking_uri or os.environ.get(URI_VARIABLE) or embedded_uri(paths)
    served = uri.startswith(("http://", "https://"))
    if not served and (marks := set(str(paths.root.resolve())) & set("?%")):
        raise ConnectionError(
            f"the run root {paths.root} holds {' and '.join(sorted(marks))}, which MLflow does not "
            "take in the path of a store: rename it, or set MLFLOW_TRACKING_URI to the address of "
            "an MLflow server. Nothing is lost, the stored files are complete"
        )
    return Store(
        uri=uri,
        artifacts=None if served else paths.mlflow_artifacts.resolve(),
        embedded=paths.mlflow_db.resolve() if uri == embedded_uri(paths) else None,
    )


@contextmanager
def opened(store: Store) -> Iterator[Any]:
    """An MlflowClient of the store; the embedded database is made where it is missing (2 s), and
    made anew where it came here from elsewhere.

    Raises ConnectionError, naming the store and the remedy, for whatever MLflow raises inside.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read while mlflow is imported
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    with _environment(), _quiet("mlflow", "alembic"):
        try:
            if store.embedded is not None and not store.embedded.exists():
                write_whole(store.embedded, _create)
            if store.artifacts is not None:
                _try_database(store.uri)
            client = MlflowClient(tracking_uri=store.uri)
            if store.embedded is not None and _is_from_elsewhere(client, store):
                move_aside(store.embedded)
                write_whole(store.embedded, _create)
            yield client
        except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
            raise ConnectionError(_explain(store, error)) from error


def _is_from_elsewhere(client: Any, store: Store) -> bool:
    """Whether the store was moved or copied with its runs: MLflow keeps absolute addresses of
    artifacts and changes none, so its runs are written anew from the files."""
    from mlflow.entities import ViewType

    assert store.artifacts is not None
    every = client.search_experiments(view_type=ViewType.ALL)
    ours = [run for run in every if DIGEST in run.tags]
    return any(item.artifact_location != store.artifacts.as_uri() for item in ours)


def move_aside(path: Path) -> None:
    """To the first name that is free, e.g. mlflow.db.old-1, beside it; nothing where it is not."""
    if path.exists():
        numbers = iter(range(1, 10**6))
        aside = next(free for n in numbers if not (free := Path(f"{path}.old-{n}")).exists())
        path.rename(aside)
        print(f"moved {path} to {aside}; delete it once you miss nothing", flush=True)


def _explain(store: Store, error: Exception) -> str:
    reason = without_password(str(error).strip().partition("\n")[0])
    remedy = (
        "Mend that, or delete mlflow.db and mlflow-artifacts: both are made again"
        if store.embedded is not None
        else "Start the server, or correct MLFLOW_TRACKING_URI or --tracking-uri "
        "(http://host:port, sqlite:////path/mlflow.db, or nothing for the store beside the runs)"
    )
    return (
        f"MLflow at {store} cannot be used: {shorten(reason, 300)}\nNothing is lost, the stored "
        f"files are complete. {remedy}; then run `fgrpo-bench tracking sync`"
    )


def _try_database(uri: str) -> None:
    """One attempt at a connection; MLflow itself makes ten, over 100 s."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(uri)
    try:
        sqlalchemy.inspect(engine)
    finally:
        engine.dispose()


def _create(aside: Path) -> None:
    """Make the database aside: one that was killed amid its migrations is beyond repair."""
    from mlflow import MlflowClient

    MlflowClient(tracking_uri=f"sqlite:///{aside}").search_experiments()


def without_password(text: str) -> str:
    """The text with the user information of every URI in it replaced.

    >>> without_password("http://me:secret@host:5000/x")
    'http://***@host:5000/x'
    """
    return re.sub(r"://[^/\s@]+@", "://***@", text)


@contextmanager
def _environment() -> Iterator[None]:
    added = {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """No line for each of the migrations that make a new database."""
    with ExitStack() as restore:
        for name in names:
            logger = logging.getLogger(name)
            restore.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.WARNING)
        yield
