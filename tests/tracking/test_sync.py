"""MLflow holds what the files say, however often, with whom and after whatever a sync runs."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.results import SweepResults
from fgrpo_bench.tables import METRICS, PASSK, read_table, write_table
from fgrpo_bench.tracking.desired import desired_experiment
from fgrpo_bench.tracking.store import embedded_uri
from fgrpo_bench.tracking.sync import DIGEST, sync_run
from tests.support.mlflow_store import contents, runs
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY


def held(results: SweepResults) -> dict:
    return contents(embedded_uri(results.paths))


def counts(results: SweepResults) -> tuple[int, int, int, int]:
    """Runs (created, updated, replaced, unchanged) by one sync."""
    done = sync_run(results.paths)
    return done.created, done.updated, done.replaced, done.unchanged


def ids(results: SweepResults) -> dict[str, str]:
    return {run.info.run_name: run.info.run_id for run in runs(embedded_uri(results.paths))}


def regrade(results: SweepResults) -> None:
    """Give the second point other pass@k."""
    path = results.points[1].evaluate.benchmark("countdown").passk
    table = read_table(path, PASSK).with_columns(pl.col("pass_at_k") / 2)
    write_table(path, table, PASSK)


def test_a_sync_writes_every_run_as_the_files_say(swept):
    summary = sync_run(swept.paths)
    assert str(summary).startswith("MLflow groupsize/countdown: 3 created, 0 unchanged (")
    assert f"sqlite:///{swept.paths.mlflow_db}" in str(summary)
    stored = held(swept)
    for run in desired_experiment(swept.paths).runs:
        found = stored[run.identity]
        assert found["info"] == (run.name, "FINISHED", run.start, run.end)
        assert found["params"] == run.params
        expected = dict(run.tags) | {DIGEST: run.digest, "mlflow.runName": run.name}
        assert found["tags"] == expected
        assert found["artifacts"] == run.artifacts
        points = [(p.key, p.step, p.timestamp, repr(p.value)) for p in run.points]
        assert sorted(found["history"]) == sorted(points)


def test_a_second_sync_changes_nothing(swept):
    sync_run(swept.paths)
    before, known = held(swept), ids(swept)
    assert counts(swept) == (0, 0, 0, 3)
    assert (held(swept), ids(swept)) == (before, known)


def test_a_half_finished_sweep_is_completed_in_the_same_runs(swept, blank_store):
    point = swept.points[1]
    aside = {path: path.read_bytes() for path in (point.train.done, point.evaluate.done)}
    metrics = read_table(point.train.metrics, METRICS)
    for path in aside:
        path.unlink()
    write_table(point.train.metrics, metrics.head(7), METRICS)
    assert counts(swept) == (3, 0, 0, 0)
    early = ids(swept)
    running = next(run for run in runs(embedded_uri(swept.paths)) if "g0-" in run.info.run_name)
    assert (running.info.status, running.info.end_time) == ("RUNNING", None)

    write_table(point.train.metrics, metrics, METRICS)
    for path, content in aside.items():
        path.write_bytes(content)
    assert counts(swept) == (0, 1, 0, 2)
    assert ids(swept) == early
    grown = held(swept)
    shutil.copy(blank_store, swept.paths.mlflow_db.with_name("other.db"))
    other = f"sqlite:///{swept.paths.mlflow_db.with_name('other.db')}"
    sync_run(swept.paths, tracking_uri=other)
    assert grown == contents(other)


def test_a_regraded_point_is_written_anew_and_the_old_run_is_in_the_trash(swept):
    sync_run(swept.paths)
    before = ids(swept)
    regrade(swept)
    assert counts(swept) == (0, 0, 1, 2)
    after = ids(swept)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {swept.points[1].point_id}
    wanted = desired_experiment(swept.paths).runs[1]
    points = [(p.key, p.step, p.timestamp, repr(p.value)) for p in wanted.points]
    assert sorted(held(swept)[wanted.identity]["history"]) == sorted(points)


def test_steps_that_were_trained_again_after_a_kill_are_not_logged_twice(swept):
    sync_run(swept.paths)
    point = swept.points[1]
    metrics = read_table(point.train.metrics, METRICS)
    later = pl.when(pl.col("step") > 15).then(pl.col("time_ms") + 60000).otherwise("time_ms")
    write_table(point.train.metrics, metrics.with_columns(time_ms=later), METRICS)
    assert counts(swept) == (0, 0, 1, 2)
    wanted = desired_experiment(swept.paths).runs[1]
    assert len(held(swept)[wanted.identity]["history"]) == len(wanted.points)


WRITING = (
    *("create_experiment", "set_experiment_tag", "create_run", "delete_run"),
    *("log_batch", "log_artifacts", "set_terminated", "set_tag"),
)
"""Every call of MlflowClient with which a sync changes a store."""


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
            try:
                sync_run(swept.paths, tracking_uri=uri)
            except ConnectionError:
                limit = None
                sync_run(swept.paths, tracking_uri=uri)
        return contents(uri)

    undisturbed = graded_then_regraded("undisturbed.db")
    for stop in range(1, calls, 6):
        calls, limit = 0, stop
        assert graded_then_regraded(f"{stop}.db") == undisturbed, f"stopped after {stop} calls"
        assert limit is None, "nothing was stopped"


def full_disk(*_: object) -> None:
    raise OSError("No space left on device")


def background_sync(results: SweepResults) -> subprocess.Popen[str]:
    """A process that has loaded MLflow, said so, and now syncs."""
    code = """
import sys
from pathlib import Path
from mlflow import MlflowClient
from fgrpo_bench.paths import RunPaths
from fgrpo_bench.tracking.sync import sync_run
root, *address = sys.argv[1:]
print("ready", flush=True)
sync_run(RunPaths(root=Path(root), **dict(zip(("sweep", "experiment", "version"), address))))
"""
    paths = results.paths
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(paths.root), paths.sweep, paths.experiment, paths.version],
        env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_syncs_that_are_killed_at_random_moments_leave_nothing_twice_and_nothing_out(
    swept, tmp_path
):
    embedded = swept.paths.mlflow_db
    undisturbed = f"sqlite:///{tmp_path / 'undisturbed.db'}"
    shutil.copy(embedded, tmp_path / "undisturbed.db")
    embedded.unlink()  # so that the first kills meet the migrations
    seconds = sync_run(swept.paths, tracking_uri=undisturbed).seconds
    chance = random.Random(7)
    killed = 0
    for longest in (2.0, seconds, seconds):
        process = background_sync(swept)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(chance.uniform(0.0, longest))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        process.stdout.close()
    assert killed
    sync_run(swept.paths)
    assert held(swept) == contents(undisturbed)


def test_two_syncs_at_once_write_each_run_once(swept):
    other = background_sync(swept)
    here = sync_run(swept.paths)
    assert other.wait() == 0
    other.stdout.close()
    assert here.created in (0, 3), "one of them waited for the other"
    assert len(held(swept)) == len(runs(embedded_uri(swept.paths))) == 3
    assert counts(swept) == (0, 0, 0, 3)


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


def test_a_run_that_another_machine_wrote_as_well_is_removed(swept):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    before = held(swept)
    client = MlflowClient(tracking_uri=embedded_uri(swept.paths))
    run = runs(embedded_uri(swept.paths))[0]
    client.create_run(run.info.experiment_id, tags=dict(run.data.tags) | {DIGEST: ""})
    assert counts(swept) == (0, 0, 0, 3)
    assert held(swept) == before


def test_an_experiment_taken_out_of_the_trash_brings_no_old_runs_back(swept):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    regrade(swept)
    experiment = sync_run(swept.paths).experiment_id
    before = held(swept)
    MlflowClient(tracking_uri=embedded_uri(swept.paths)).delete_experiment(experiment)
    assert counts(swept) == (0, 0, 0, 3)
    assert held(swept) == before


def test_two_versions_of_a_sweep_share_an_experiment_and_no_run(swept):
    write_sweep(swept.paths.root, overrides=[*TINY, "version=v2"])
    other = dataclasses.replace(swept.paths, version="v2")
    assert sync_run(swept.paths).experiment_id == sync_run(other).experiment_id
    assert len(held(swept)) == 6
    assert counts(swept) == (0, 0, 0, 3)


def test_nan_and_infinity_are_synced_once(swept):
    point = swept.points[1]
    metrics = read_table(point.train.metrics, METRICS).with_columns(
        loss=pl.Series([math.nan, math.inf, -math.inf, *[0.0] * 17])
    )
    write_table(point.train.metrics, metrics, METRICS)
    sync_run(swept.paths)
    (swept.paths.sweep_json).write_text(
        swept.paths.sweep_json.read_text().replace("0" * 40, "1" * 40)
    )
    assert counts(swept) == (0, 3, 0, 0)


def test_the_embedded_store_is_found_from_any_folder_and_under_any_name(
    swept, tmp_path, monkeypatch
):
    root = tmp_path / "a folder #1"
    write_sweep(root, overrides=TINY)
    swept.paths.mlflow_db.rename(root / "mlflow.db")
    monkeypatch.chdir(root.parent)
    sync_run(dataclasses.replace(swept.paths, root=Path(root.name)))
    monkeypatch.chdir("/")
    uri = embedded_uri(dataclasses.replace(swept.paths, root=root))
    assert all("spec.json" in run["artifacts"] for run in contents(uri).values())
    assert {path.name for path in root.iterdir()} == {
        *("groupsize", "mlflow.db", "mlflow.lock", "mlflow-artifacts")
    }
