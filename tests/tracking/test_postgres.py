"""PostgreSQL holds what the embedded store holds, whatever happens to either side."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
from collections.abc import Iterator

import pytest

from fgrpo_bench.tracking.sync import embedded_uri, sync_run
from tests.support.mlflow_store import background_sync, contents, runs
from tests.tracking.conftest import finish, hold_back
from tests.tracking.postgres import Postgres, postgres

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


@pytest.fixture
def uri(server) -> str:
    """Of a database that holds nothing."""
    import sqlalchemy

    admin = sqlalchemy.create_engine(server.uri, isolation_level="AUTOCOMMIT")
    name = f"db_{random.SystemRandom().getrandbits(64):x}"
    with admin.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return f"{server.uri.removesuffix('postgres')}{name}"


def test_postgresql_holds_what_the_embedded_store_holds_and_a_second_sync_changes_nothing(
    swept, uri
):
    sync_run(swept.paths)
    assert sync_run(swept.paths, tracking_uri=uri).created == 6
    ids = {run.info.run_id for run in runs(uri)}
    assert contents(uri) == contents(embedded_uri(swept.paths))
    again = sync_run(swept.paths, tracking_uri=uri)
    assert (again.created, again.updated, again.replaced, again.unchanged) == (0, 0, 0, 6)
    assert {run.info.run_id for run in runs(uri)} == ids


def test_syncs_that_are_killed_leave_nothing_twice_and_nothing_out(swept, uri):
    undisturbed = sync_run(swept.paths)
    chance = random.Random(11)
    sync_run(swept.paths, tracking_uri=uri)  # the migrations, which MLflow itself cannot resume
    for run in runs(uri):
        _delete(uri, run.info.run_id)
    killed = 0
    for _ in range(3):
        process = background_sync(swept, uri)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.3, 0.3 + undisturbed.seconds))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        assert process.stdout is not None
        process.stdout.close()
    assert killed
    sync_run(swept.paths, tracking_uri=uri)
    assert contents(uri) == contents(embedded_uri(swept.paths))


def _delete(uri: str, run_id: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    client.delete_run(run_id)


def test_what_is_finished_while_the_database_is_away_is_there_once_it_is_back(swept, server, uri):
    aside = hold_back(swept)
    sync_run(swept.paths, tracking_uri=uri)
    server.stop()
    finish(swept, aside)
    with pytest.raises(ConnectionError, match="Nothing is lost"):
        sync_run(swept.paths, tracking_uri=uri)
    server.start()
    sync_run(swept.paths, tracking_uri=uri)
    sync_run(swept.paths)
    assert contents(uri) == contents(embedded_uri(swept.paths))
