"""A sync that is killed, breaks off or meets another leaves what the next one completes."""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import METRICS, PASSK, read_table, write_table
from fgrpo_bench.tracking.sync import embedded_uri, sync_run
from tests.support.mlflow_store import background_sync, contents, counts, held, runs

WRITING = (
    *("create_experiment", "set_experiment_tag", "create_run", "delete_run", "log_batch"),
    *("set_terminated", "update_run", "set_tag", "log_artifacts", "log_artifact", "log_table"),
)
"""Every call of MlflowClient with which a sync changes a store."""


@pytest.mark.slow
def test_a_sync_that_breaks_off_at_any_call_is_completed_by_the_next(
    swept, blank_store, monkeypatch
):
    from mlflow import MlflowClient

    calls = 0
    limit: int | None = None

    def limited(real):
        def call(*arguments, **named):
            nonlocal calls
            calls += 1
            if limit is not None and calls > limit:
                raise OSError("No space left on device")
            return real(*arguments, **named)

        return call

    for name in WRITING:
        monkeypatch.setattr(MlflowClient, name, limited(getattr(MlflowClient, name)))
    path = swept.points[1].evaluate.benchmark("countdown").passk
    graded = read_table(path, PASSK)
    regraded = graded.with_columns(pl.col("pass_at_k") / 2)

    def graded_then_regraded(store: str) -> dict:
        nonlocal limit
        shutil.copy(blank_store, swept.paths.root / store)
        uri = f"sqlite:///{swept.paths.root / store}"
        for table in (graded, regraded):
            write_table(path, table, PASSK)
            rewritten(swept.points[1].evaluate, [path])
            try:
                sync_run(swept.paths, tracking_uri=uri)
            except ConnectionError:
                limit = None
                sync_run(swept.paths, tracking_uri=uri)
        return contents(uri)

    undisturbed = graded_then_regraded("undisturbed.db")
    for stop in range(1, calls, 9):
        calls, limit = 0, stop
        assert graded_then_regraded(f"{stop}.db") == undisturbed, f"stopped after {stop} calls"
        assert limit is None, "nothing was stopped"


def full_disk(*_: object) -> None:
    raise OSError("No space left on device")


def wait_for_migrations(root: Path, process: subprocess.Popen[str]) -> None:
    """Until the database that a sync makes aside has some tables."""
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            if any(path.stat().st_size > 300_000 for path in root.glob("*mlflow.db*")):
                return
        time.sleep(0.01)


@pytest.mark.slow
def test_syncs_that_are_killed_at_random_moments_leave_nothing_twice_and_nothing_out(
    swept, tmp_path
):
    embedded = swept.paths.mlflow_db
    undisturbed = f"sqlite:///{tmp_path / 'undisturbed.db'}"
    shutil.copy(embedded, tmp_path / "undisturbed.db")
    embedded.unlink()  # so that the first kill meets the migrations
    seconds = sync_run(swept.paths, tracking_uri=undisturbed).seconds
    chance = random.Random(7)
    killed = 0
    for _ in range(3):
        process = background_sync(swept)
        if not embedded.exists():
            wait_for_migrations(swept.paths.root, process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.0, seconds))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        process.stdout.close()
    assert killed
    sync_run(swept.paths)
    assert held(swept) == contents(undisturbed)


@pytest.mark.slow
def test_two_syncs_at_once_write_each_run_once(swept):
    other = background_sync(swept)
    here = sync_run(swept.paths)
    assert other.wait() == 0
    other.stdout.close()
    assert here.created in (0, 6), "one of them waited for the other"
    assert len(held(swept)) == len(runs(embedded_uri(swept.paths))) == 6
    assert counts(swept) == (0, 0, 0, 6)


@pytest.mark.slow
def test_files_put_back_after_a_sync_broke_off_count_again(swept, monkeypatch):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    before, path = held(swept), swept.points[1].train.metrics
    whole = path.read_bytes()
    metrics = read_table(path, METRICS)
    longer = metrics.tail(1).with_columns(step=pl.lit(21, pl.Int64))
    write_table(path, pl.concat([metrics, longer]), METRICS)
    with monkeypatch.context() as broken, pytest.raises(ConnectionError):
        broken.setattr(MlflowClient, "log_artifacts", full_disk)
        sync_run(swept.paths)
    path.write_bytes(whole)
    sync_run(swept.paths)
    assert held(swept) == before
