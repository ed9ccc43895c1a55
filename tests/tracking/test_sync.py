"""MLflow holds what the files say, however often, with whom and after whatever a sync runs; one
that is killed, breaks off or meets another leaves what the next one completes."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import METRICS, PASSK, read_table, write_table
from fgrpo_bench.tracking import cells, desired, points
from fgrpo_bench.tracking.desired import desired_experiment
from fgrpo_bench.tracking.sync import DIGEST, embedded_uri, sync_run
from sweeps import reporting
from tests.support.mlflow_store import background_sync, contents, counts, held, runs
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY

WRITING = (
    *("create_experiment", "set_experiment_tag", "create_run", "delete_run", "log_batch"),
    *("set_terminated", "update_run", "set_tag", "log_artifacts"),
)
"""Every call of MlflowClient with which a sync changes a store."""


def ids(results: SweepResults) -> dict[str, str]:
    return {run.data.tags["point_id"]: run.info.run_id for run in runs(embedded_uri(results.paths))}


def client_of(results: SweepResults):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=embedded_uri(results.paths))


def check_what_is_held(results: SweepResults) -> None:
    """The embedded store holds every run as the files say, and no other."""
    stored = held(results)
    for wanted in desired_experiment(results.paths).runs:
        run = wanted.state()
        found = stored.pop(run.identity)
        status = "RUNNING" if run.end is None else "FINISHED"
        assert found["info"] == (run.title, status, run.start, run.end)
        assert found["params"] == run.params
        expected = dict(run.tags) | {DIGEST: wanted.digest, "mlflow.runName": run.title}
        logged = found["tags"].pop("mlflow.loggedArtifacts", "[]")
        assert {one["path"] for one in json.loads(logged)} == set(run.tables)
        assert found["tags"] == expected
        tables = {name: found["artifacts"].pop(name) for name in run.tables}
        assert all(json.loads(table)["columns"] for table in tables.values())
        assert found["artifacts"] == run.artifacts
        points = [(p.key, p.step, p.timestamp, repr(p.value)) for p in run.points]
        assert sorted(found["history"]) == sorted(points)
        assert found["parent"] == wanted.parent
        assert found["latest"] == {p.key: repr(p.value) for p in run.points}, "rising steps"
    assert not stored


def change_nothing(results: SweepResults) -> None:
    """A second sync finds everything as it is."""


def regrade(results: SweepResults) -> None:
    """Give the second point other pass@k."""
    path = results.points[1].evaluate.benchmark("countdown").passk()
    table = read_table(path, PASSK).with_columns(pl.col("pass_at_k") / 2)
    write_table(path, table, PASSK)
    rewritten(results.points[1].evaluate, [path])


def train_again_after_a_kill(results: SweepResults) -> None:
    """Give the last steps of the second point other times."""
    point = results.points[1]
    metrics = read_table(point.train.metrics, METRICS)
    later = pl.when(pl.col("step") > 15).then(pl.col("time_ms") + 60000).otherwise("time_ms")
    write_table(point.train.metrics, metrics.with_columns(time_ms=later), METRICS)


def delete_a_run(results: SweepResults) -> None:
    client_of(results).delete_run(ids(results)["grpo-n2-g0"])


def write_a_run_from_another_machine_as_well(results: SweepResults) -> None:
    run = runs(embedded_uri(results.paths))[0]
    tags = dict(run.data.tags) | {DIGEST: ""}
    client_of(results).create_run(run.info.experiment_id, tags=tags)


def regrade_and_put_the_experiment_into_the_trash(results: SweepResults) -> None:
    regrade(results)
    client_of(results).delete_experiment(sync_run(results.paths).experiment_id)


REGRADED = {"grpo-n2-g0", "grpo-n2-g0-s11", "grpo-n2-g0.5"}
"""A point, its cell, and what is compared with it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "expected", "other_runs"),
    [
        (change_nothing, (0, 0, 0, 6), set()),
        (regrade, (0, 0, 3, 3), REGRADED),
        (train_again_after_a_kill, (0, 0, 1, 5), {"grpo-n2-g0-s11"}),
        (delete_a_run, (1, 0, 0, 5), {"grpo-n2-g0"}),
        (write_a_run_from_another_machine_as_well, (0, 0, 0, 6), set()),
        (regrade_and_put_the_experiment_into_the_trash, (0, 0, 0, 6), REGRADED),
    ],
    ids=lambda of: getattr(of, "__name__", None),
)
def test_a_sync_writes_anew_what_differs_from_the_files_and_nothing_else(
    synced, change: Callable[[SweepResults], None], expected, other_runs
):
    before = ids(synced)
    change(synced)
    assert counts(synced) == expected
    check_what_is_held(synced)
    after = ids(synced)
    assert {name for name in before if before[name] != after[name]} == other_runs


@pytest.mark.slow
@pytest.mark.rare
def test_a_large_sweep_is_synced_while_its_report_is_written(swept, monkeypatch):
    monkeypatch.setattr(reporting, "MANY_POINTS", 3)
    write_sweep(swept.paths.root, overrides=[*TINY, "version=v2"])  # of which nobody asked a sync
    said = list[str]()
    reporting.finish(swept.paths, said.append)
    assert said[0] == "syncing to MLflow"
    assert "countdown: 1 created, 6 unchanged" in said[1], "the run of the report"
    check_what_is_held(swept)


@pytest.mark.slow
def test_a_run_that_somebody_edited_is_mended_by_a_full_sync(synced):
    client_of(synced).set_tag(ids(synced)["grpo-n2-g0-s11"], "method", "edited")
    assert counts(synced) == (0, 0, 0, 6)
    done = sync_run(synced.paths, is_full=True)
    assert (done.created, done.updated, done.replaced) == (0, 0, 6)
    check_what_is_held(synced)


@pytest.mark.slow
def test_tables_of_several_runs_open_as_one(synced, monkeypatch):
    from mlflow import MlflowClient

    experiment = sync_run(synced.paths, is_full=True).experiment_id
    trained = [ids(synced)[point.point_id] for point in synced.points[1:]]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(synced.paths))
    table = MlflowClient().load_table(experiment, "countdown/pass_at_k.json", trained)
    rows = pl.from_dicts(table.to_dict("records"))
    for point in synced.points[1:]:
        means = point.passk("countdown").group_by("k").agg(pl.col("pass_at_k").mean()).sort("k")
        found = rows.filter(cell=point.cell.name, seed=point.seed)
        assert found["k"].to_list() == [1, 8, 32], "written once"
        assert found["pass_at_k"].to_list() == pytest.approx(means["pass_at_k"].to_list())


@pytest.mark.slow
def test_of_unchanged_runs_nothing_is_computed(synced, monkeypatch):
    for module, name in ((points, "_point_run"), (cells, "_cell_run"), (desired, "_answer_text")):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("computed"))
    assert counts(synced) == (0, 0, 0, 6)


@pytest.mark.slow
def test_a_store_that_is_moved_away_between_two_syncs_of_a_process_is_made_again(
    synced, blank_store
):
    synced.paths.mlflow_db.rename(synced.paths.root / "moved.db")
    shutil.copy(blank_store, synced.paths.mlflow_db)
    assert counts(synced) == (6, 0, 0, 0)
    check_what_is_held(synced)


@pytest.mark.slow
def test_a_half_finished_sweep_is_completed_in_the_same_runs(swept):
    point = swept.points[1]
    aside = {path: path.read_bytes() for path in (point.train.done, point.evaluate.done)}
    metrics = read_table(point.train.metrics, METRICS).with_columns(
        loss=pl.Series([math.nan, math.inf, -math.inf, *[0.0] * 17])
    )
    for path in aside:
        path.unlink()
    write_table(point.train.metrics, metrics.head(7), METRICS)
    assert counts(swept) == (6, 0, 0, 0)
    check_what_is_held(swept)
    early = ids(swept)

    write_table(point.train.metrics, metrics, METRICS)
    for path, content in aside.items():
        path.write_bytes(content)
    assert counts(swept) == (0, 2, 1, 3)
    compared = "grpo-n2-g0.5"
    assert {name for name, run_id in ids(swept).items() if run_id != early[name]} == {compared}
    check_what_is_held(swept)


@pytest.mark.slow
def test_two_versions_of_a_sweep_share_an_experiment_and_no_run(synced):
    write_sweep(synced.paths.root, overrides=[*TINY, "version=v2"])
    other = dataclasses.replace(synced.paths, version="v2")
    assert sync_run(other).experiment_id == sync_run(synced.paths).experiment_id
    assert len(held(synced)) == 12
    assert counts(synced) == (0, 0, 0, 6)


@pytest.mark.slow
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
    points = [run for run in contents(uri).values() if run["tags"]["kind"] == "point"]
    assert all("spec.json" in run["artifacts"] for run in points)
    assert {path.name for path in root.iterdir()} == {
        *("groupsize", "mlflow.db", "mlflow.lock", "mlflow-artifacts")
    }


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
    path = swept.points[1].evaluate.benchmark("countdown").passk()
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
@pytest.mark.rare  # the sync that breaks off at any call comes to the same
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
def test_files_put_back_after_a_sync_broke_off_count_again(synced, monkeypatch):
    from mlflow import MlflowClient

    path = synced.points[1].train.metrics
    whole = path.read_bytes()
    metrics = read_table(path, METRICS)
    longer = metrics.tail(1).with_columns(step=pl.lit(21, pl.Int64))
    write_table(path, pl.concat([metrics, longer]), METRICS)
    with monkeypatch.context() as broken, pytest.raises(ConnectionError):
        broken.setattr(MlflowClient, "log_artifacts", full_disk)
        sync_run(synced.paths)
    path.write_bytes(whole)
    sync_run(synced.paths)
    check_what_is_held(synced)
