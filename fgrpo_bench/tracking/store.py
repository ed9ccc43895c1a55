"""Opening MLflow: where the store is, without global state, and what its errors mean."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from fgrpo_bench.stages.files import write_whole
from fgrpo_bench.stages.paths import RunPaths

DIGEST = "digest"
"""Tag: of what a run or experiment that MLflow holds whole was computed from; empty while it is
written."""
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
    own = [each for each in every if DIGEST in each.tags]
    return any(each.artifact_location != store.artifacts.as_uri() for each in own)


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
        f"files are complete. {remedy}; then run `python -m fgrpo_bench.tracking sync` or `make "
        "mlflow-ui`"
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
