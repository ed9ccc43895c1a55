"""MLflow holds what the files say, however often, with whom and after whatever a sync runs."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import METRICS, PASSK, read_table, write_table
from fgrpo_bench.tracking import desired
from fgrpo_bench.tracking.desired import desired_experiment
from fgrpo_bench.tracking.sync import DIGEST, embedded_uri, sync_run
from tests.support.mlflow_store import contents, counts, held, runs, states
from tests.support.synthetic import write_sweep
from tests.tracking.conftest import TINY


def ids(results: SweepResults) -> dict[str, str]:
    return {run.data.tags["point_id"]: run.info.run_id for run in runs(embedded_uri(results.paths))}


def regrade(results: SweepResults) -> None:
    """Give the second point other pass@k."""
    path = results.points[1].evaluate.benchmark("countdown").passk
    table = read_table(path, PASSK).with_columns(pl.col("pass_at_k") / 2)
    write_table(path, table, PASSK)
    rewritten(results.points[1].evaluate, [path])


def test_a_sync_writes_every_run_as_the_files_say(swept):
    summary = sync_run(swept.paths)
    assert str(summary).startswith("MLflow groupsize/countdown: 6 created, 0 unchanged (")
    assert f"sqlite:///{swept.paths.mlflow_db}" in str(summary)
    stored = held(swept)
    for wanted in desired_experiment(swept.paths).runs:
        run = wanted.state()
        found = stored[run.identity]
        assert found["info"] == (run.title, "FINISHED", run.start, run.end)
        assert found["params"] == run.params
        expected = dict(run.tags) | {DIGEST: wanted.digest, "mlflow.runName": run.title}
        logged = found["tags"].pop("mlflow.loggedArtifacts", "[]")
        assert {each["path"] for each in json.loads(logged)} == set(run.tables)
        assert found["tags"] == expected
        tables = {name: found["artifacts"].pop(name) for name in run.tables}
        assert all(json.loads(table)["columns"] for table in tables.values())
        assert found["artifacts"] == run.artifacts
        points = [(p.key, p.step, p.timestamp, repr(p.value)) for p in run.points]
        assert sorted(found["history"]) == sorted(points)
        assert found["parent"] == wanted.parent
        assert found["latest"] == {p.key: repr(p.value) for p in run.points}, "rising steps"


def test_tables_of_several_runs_open_as_one(swept, monkeypatch):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    experiment = sync_run(swept.paths, is_full=True).experiment_id
    trained = [ids(swept)[point.point_id] for point in swept.points[1:]]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", embedded_uri(swept.paths))
    table = MlflowClient().load_table(experiment, "countdown/pass_at_k.json", trained, ["run_id"])
    rows = pl.from_dicts(table.to_dict("records"))
    for run_id, point in zip(trained, swept.points[1:], strict=True):
        means = point.passk("countdown").group_by("k").agg(pl.col("pass_at_k").mean()).sort("k")
        own = rows.filter(pl.col("run_id") == run_id)
        assert own["k"].to_list() == [1, 8, 32], "written once"
        assert own["pass_at_k"].to_list() == pytest.approx(means["pass_at_k"].to_list())


def test_a_second_sync_changes_nothing(swept):
    sync_run(swept.paths)
    before, known = held(swept), ids(swept)
    assert counts(swept) == (0, 0, 0, 6)
    assert (held(swept), ids(swept)) == (before, known)


def test_of_unchanged_runs_nothing_is_computed(swept, monkeypatch):
    sync_run(swept.paths)
    for name in ("_point_run", "_cell_run", "_words"):
        monkeypatch.setattr(desired, name, lambda *_, **__: pytest.fail("computed"))
    assert counts(swept) == (0, 0, 0, 6)


def test_a_deleted_run_is_made_again_and_an_edited_one_by_a_full_sync(swept):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    before, known = held(swept), ids(swept)
    client = MlflowClient(tracking_uri=embedded_uri(swept.paths))
    client.delete_run(known["grpo-n2-g0"])
    client.set_tag(known["grpo-n2-g0-s11"], "method", "edited")
    assert counts(swept) == (1, 0, 0, 5)
    assert held(swept) != before
    done = sync_run(swept.paths, is_full=True)
    assert (done.created, done.updated, done.replaced) == (0, 0, 6)
    assert held(swept) == before


def test_a_store_that_is_moved_away_between_two_syncs_of_a_process_is_made_again(
    swept, blank_store
):
    sync_run(swept.paths)
    before = held(swept)
    swept.paths.mlflow_db.rename(swept.paths.root / "moved.db")
    shutil.copy(blank_store, swept.paths.mlflow_db)
    assert counts(swept) == (6, 0, 0, 0)
    assert held(swept) == before


def test_a_half_finished_sweep_is_completed_in_the_same_runs(swept, blank_store):
    point = swept.points[1]
    aside = {path: path.read_bytes() for path in (point.train.done, point.evaluate.done)}
    metrics = read_table(point.train.metrics, METRICS)
    for path in aside:
        path.unlink()
    write_table(point.train.metrics, metrics.head(7), METRICS)
    assert counts(swept) == (6, 0, 0, 0)
    early = ids(swept)
    running = next(
        run for run in runs(embedded_uri(swept.paths)) if "g0-s" in run.data.tags["point_id"]
    )
    assert (running.info.status, running.info.end_time) == ("RUNNING", None)

    write_table(point.train.metrics, metrics, METRICS)
    for path, content in aside.items():
        path.write_bytes(content)
    assert counts(swept) == (0, 2, 1, 3)
    compared = "grpo-n2-g0.5"
    assert {name for name, run_id in ids(swept).items() if run_id != early[name]} == {compared}
    grown = held(swept)
    shutil.copy(blank_store, swept.paths.mlflow_db.with_name("other.db"))
    other = f"sqlite:///{swept.paths.mlflow_db.with_name('other.db')}"
    sync_run(swept.paths, tracking_uri=other)
    assert grown == contents(other)


def test_a_regraded_point_its_cell_and_what_is_compared_with_it_are_written_anew(swept):
    sync_run(swept.paths)
    before = ids(swept)
    regrade(swept)
    assert counts(swept) == (0, 0, 3, 3)
    after = ids(swept)
    changed = {name for name in before if before[name] != after[name]}
    compared = "grpo-n2-g0.5"
    assert changed == {"grpo-n2-g0", "grpo-n2-g0-s11", compared}
    assert [run["parent"] for run in held(swept).values() if run["parent"]] == [
        *("base", "grpo-n2-g0", "grpo-n2-g0.5")
    ]
    wanted = states(swept.paths)["grpo-n2-g0-s11"]
    points = [(p.key, p.step, p.timestamp, repr(p.value)) for p in wanted.points]
    assert sorted(held(swept)[wanted.identity]["history"]) == sorted(points)


def test_steps_that_were_trained_again_after_a_kill_are_not_logged_twice(swept):
    sync_run(swept.paths)
    point = swept.points[1]
    metrics = read_table(point.train.metrics, METRICS)
    later = pl.when(pl.col("step") > 15).then(pl.col("time_ms") + 60000).otherwise("time_ms")
    write_table(point.train.metrics, metrics.with_columns(time_ms=later), METRICS)
    assert counts(swept) == (0, 0, 1, 5)
    wanted = states(swept.paths)["grpo-n2-g0-s11"]
    assert len(held(swept)[wanted.identity]["history"]) == len(wanted.points)


def test_a_run_that_another_machine_wrote_as_well_is_removed(swept):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    before = held(swept)
    client = MlflowClient(tracking_uri=embedded_uri(swept.paths))
    run = runs(embedded_uri(swept.paths))[0]
    client.create_run(run.info.experiment_id, tags=dict(run.data.tags) | {DIGEST: ""})
    assert counts(swept) == (0, 0, 0, 6)
    assert held(swept) == before


@pytest.mark.slow
def test_an_experiment_taken_out_of_the_trash_brings_no_old_runs_back(swept):
    from mlflow import MlflowClient

    sync_run(swept.paths)
    regrade(swept)
    experiment = sync_run(swept.paths).experiment_id
    before = held(swept)
    MlflowClient(tracking_uri=embedded_uri(swept.paths)).delete_experiment(experiment)
    assert counts(swept) == (0, 0, 0, 6)
    assert held(swept) == before


def test_two_versions_of_a_sweep_share_an_experiment_and_no_run(swept):
    write_sweep(swept.paths.root, overrides=[*TINY, "version=v2"])
    other = dataclasses.replace(swept.paths, version="v2")
    assert sync_run(swept.paths).experiment_id == sync_run(other).experiment_id
    assert len(held(swept)) == 12
    assert counts(swept) == (0, 0, 0, 6)


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
    assert counts(swept) == (0, 0, 6, 0)


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
