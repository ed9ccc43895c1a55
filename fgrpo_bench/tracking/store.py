"""Opening MLflow: where the store is, without global state, and what its errors mean."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from fgrpo_bench.stages.files import write_whole
from fgrpo_bench.stages.paths import RunPaths

DIRECT = ("sqlite", "postgresql")
"""Databases whose rows are read and written directly."""
ARTIFACT_COLUMNS = (
    "experiments.artifact_location",
    "runs.artifact_uri",
    "logged_models.artifact_location",
)
"""Where MLflow's database says, as absolute addresses, where artifacts are."""
URI_VARIABLE = "MLFLOW_TRACKING_URI"
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
"""What makes a dead server known in seconds (MLflow's own values: minutes) and a live one print
nothing; values that the environment already holds go first."""


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
    opened anew: a process that lives long writes to none that was moved aside meanwhile.

    Raises ConnectionError, naming the store and the remedy, for whatever MLflow raises inside.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read while mlflow is imported
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    with _environment(), _quiet("mlflow", "alembic"):
        try:
            if store.embedded is not None:
                close(store)
                if not store.embedded.exists():
                    write_whole(store.embedded, lambda aside: _create(aside, store))
            if store.artifacts is not None:
                _try_database(store.uri)
            client = MlflowClient(tracking_uri=store.uri)
            if store.embedded is not None and store.artifacts is not None:
                _follow_moved_artifacts(client, store.artifacts)
            with _hurried(client) if store.embedded is not None else nullcontext():
                yield client
        except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
            raise ConnectionError(_explain(store, error)) from error


def database(client: Any) -> Any | None:
    """The engine of the client's SQL database, where that is one of DIRECT."""
    engine = getattr(client._tracking_client.store, "engine", None)
    return engine if engine is not None and engine.dialect.name in DIRECT else None


def _follow_moved_artifacts(client: Any, artifacts: Path) -> None:
    """Let the rows of a store that was moved or copied with its runs name the artifacts where they
    are now. OSError where those did not come along.

    Where they were is known from MLflow's own first experiment, whose folder is below theirs.
    """
    from sqlalchemy import text

    with database(client).begin() as rows:  # type: ignore[union-attr]
        first = "SELECT artifact_location FROM experiments WHERE experiment_id = 0"
        before = Path(rows.execute(text(first)).scalar() or "").parent
        if not before.is_absolute() or before == artifacts:
            return
        for old, new in ((before.as_uri(), artifacts.as_uri()), (str(before), str(artifacts))):
            for column in ARTIFACT_COLUMNS:
                table, name = column.split(".")
                moved = rows.execute(
                    text(
                        f"UPDATE {table} SET {name} = :new || substr({name}, length(:old) + 1) "
                        f"WHERE {name} = :old OR substr({name}, 1, length(:old) + 1) = :old || '/'"
                    ),
                    {"old": old, "new": new},
                )
                if table == "runs" and moved.rowcount and not artifacts.exists():
                    raise OSError(f"mlflow.db came here from {before.parent} without its artifacts")


@contextmanager
def _hurried(client: Any) -> Iterator[None]:
    """No wait for the disk at each of the many commits, which would take half the time.

    A killed process loses nothing by that. Only if the machine itself fails meanwhile may the
    database be damaged; it is then made again from the files.
    """
    from sqlalchemy import event

    def relax(connection: Any, *_: object) -> None:
        connection.execute("PRAGMA synchronous=OFF")

    def restore(connection: Any, *_: object) -> None:
        connection.execute("PRAGMA synchronous=FULL")

    engine = database(client)
    event.listen(engine, "checkout", relax)
    event.listen(engine, "checkin", restore)
    try:
        yield
    finally:
        event.remove(engine, "checkout", relax)
        event.remove(engine, "checkin", restore)


def close(store: Store) -> None:
    """Let go of the database file, which MLflow keeps open for as long as a process lives."""
    if "mlflow.store.tracking.sqlalchemy_store" in sys.modules:
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        if store.uri in SqlAlchemyStore._engine_map:
            SqlAlchemyStore._engine_map[store.uri].dispose()


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


def _create(aside: Path, store: Store) -> None:
    """Make the database aside: one that was killed amid its migrations is beyond repair."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    database = SqlAlchemyStore(f"sqlite:///{aside}", str(store.artifacts))  # type: ignore[no-untyped-call]
    database.engine.dispose()


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
