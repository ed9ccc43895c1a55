"""A run that is watched while it trains ends in MLflow as if it had been synced once."""

from __future__ import annotations

import random
import shutil
from typing import Any

import pytest

from fgrpo_bench.analysis.results import PointResult, SweepResults
from fgrpo_bench.engines.openrlhf.metrics import rewind
from fgrpo_bench.files.journal import append_line
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.tables import METRICS, write_table
from fgrpo_bench.tracking.sync import embedded_uri, sync_run, sync_training
from tests.support.mlflow_store import contents, counts, held, runs, states
from tests.support.watched import Training, note


def look(results: SweepResults, point: PointResult) -> None:
    """What a driver that follows the sweep does."""
    if not sync_training(results.paths, {point.point_id}):
        sync_run(results.paths)


def run_of(results: SweepResults, point: PointResult) -> Any:
    """The point's MLflow run."""
    stored = runs(embedded_uri(results.paths))
    return next(run for run in stored if run.data.tags["point_id"] == point.point_id)


def check_history(results: SweepResults, training: Training) -> None:
    """MLflow holds the steps so far, each once."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=embedded_uri(results.paths))
    run_id = run_of(results, training.point).info.run_id
    for name in ("reward", "loss"):
        found = client.get_metric_history(run_id, f"train/{name}")
        assert sorted((one.step, one.timestamp, one.value) for one in found) == [
            (row["step"], row["time_ms"], row[name]) for row in training.rows
        ]


@pytest.mark.slow
@pytest.mark.parametrize(  # seed 1 without, seed 3 with a look right after a resume
    ("engine", "seed"),
    [
        ("embedded", 1),
        ("openrlhf", 3),
        pytest.param("embedded", 3, marks=pytest.mark.rare),
        pytest.param("openrlhf", 1, marks=pytest.mark.rare),
    ],
)
def test_a_run_that_was_watched_and_killed_has_the_histories_of_one_sync(
    swept, blank_store, engine, seed
):
    chance = random.Random(f"{engine}-{seed}")
    point = swept.points[1]
    run = Training(point, engine)
    steps = len(run.whole)
    first = chance.randint(1, steps // 3)
    run.train(first)
    sync_run(swept.paths)
    check_history(swept, run)
    run.train(chance.randint(first + 1, steps - 2))
    run.tear()
    look(swept, point)
    check_history(swept, run)
    run.resume(chance.randint(1, len(run.rows) - 1))
    if chance.random() < 0.5:
        look(swept, point)
    run.train(chance.randint(len(run.rows) + 1, steps - 1))
    look(swept, point)
    check_history(swept, run)
    run.resume(0)  # no state was saved, or it could not be read
    look(swept, point)
    run.train(chance.randint(1, steps - 1))
    look(swept, point)
    run.finish()
    assert run_of(swept, point).info.status == "RUNNING"
    look(swept, point)
    sync_run(swept.paths)
    shutil.copy(blank_store, swept.paths.root / "once.db")
    once = f"sqlite:///{swept.paths.root / 'once.db'}"
    sync_run(swept.paths, tracking_uri=once)
    assert held(swept) == contents(once)
    check_history(swept, run)


@pytest.mark.slow
def test_a_look_at_what_has_grown_writes_what_a_whole_sync_would(swept):
    point = swept.points[1]
    run = Training(point, "openrlhf")
    run.train(3)
    assert not sync_training(swept.paths, {point.point_id}), "it has no run yet"
    assert runs(embedded_uri(swept.paths)) == []
    sync_run(swept.paths)
    ids = {run.info.run_id for run in runs(embedded_uri(swept.paths))}
    run.train(9)
    assert sync_training(swept.paths, {point.point_id})
    assert {run.info.run_id for run in runs(embedded_uri(swept.paths))} == ids
    check_history(swept, run)
    assert counts(swept) == (0, 0, 0, 6)


@pytest.mark.slow
def test_a_look_does_not_wait_for_another_sync(swept):
    what = "a sync of MLflow"
    with locked(swept.paths.mlflow_lock, wait=False, what=what), pytest.raises(BlockingIOError):
        sync_training(swept.paths, {swept.points[1].point_id})


@pytest.mark.slow
def test_a_run_is_running_then_failed_then_running_again_in_the_same_run(swept):
    point = swept.points[1]
    training = Training(point, "embedded")
    training.train(5)

    def state() -> tuple[str, str, int | None, str]:
        sync_run(swept.paths)
        run = run_of(swept, point)
        return run.info.run_id, run.info.status, run.info.end_time, run.data.tags["state"]

    known, *first = state()
    assert first == ["RUNNING", None, "training"]
    note(point.train, exit_code=1, outcome="failed")
    assert state() == (known, "FAILED", None, "failed")
    note(point.train, attempt=2)
    with locked(point.train.lock, wait=False, what="the stage"):
        training.train(8)
        assert state() == (known, "RUNNING", None, "training")
    training.finish()
    assert state()[:2] == (known, "FINISHED")


def test_rows_of_openrlhf_count_until_the_run_is_done(swept):
    point = swept.points[1]
    whole = point.metrics()
    run = Training(point, "openrlhf")
    assert point.metrics().equals(METRICS.to_frame())
    run.train(4)
    run.tear()
    assert point.metrics().equals(whole.head(4))
    run.resume(4)
    lines = point.train.step_rows.read_bytes()
    for damaged in ({"step": 5}, [5], run.whole[4] | {"reward": "high"}):
        append_line(point.train.step_rows, damaged)
    assert point.metrics().equals(whole.head(4))
    logged = [
        one for one in states(swept.paths)[point.point_id].points if one.key == "train/reward"
    ]
    assert [(one.step, one.timestamp, one.value) for one in logged] == list(
        whole.head(4).select("step", "time_ms", "reward").iter_rows()
    )
    point.train.step_rows.write_bytes(lines)
    rewind(point.train.step_rows, 2)
    write_table(point.train.metrics, whole, METRICS)
    assert len(point.metrics()) == 2, "the run of before that left a table is made again"
    point.train.done.write_bytes(run.aside[point.train.done])
    assert point.metrics().equals(whole)
