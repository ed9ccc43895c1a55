"""Evaluations without a sweep are runs of one experiment, by the same sync as sweeps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fgrpo_bench.command.runs import tracked
from fgrpo_bench.tracking.__main__ import main
from fgrpo_bench.tracking.sync import embedded_uri, sync_run
from tests.support.imported import evaluate_alone


@pytest.fixture
def root(tmp_path: Path, blank_store: Path) -> Path:
    root = evaluate_alone(tmp_path, {"before": [8, 4, 0], "after": [8, 0, 0]})
    shutil.copy(blank_store, root / "mlflow.db")
    return root


@pytest.mark.slow
def test_each_is_a_run_with_pass_at_k_and_a_second_sync_changes_nothing(root, capsys):
    assert main(["sync", "--root", str(root)]) == 0
    assert "MLflow evaluations: 2 created, 0 unchanged (" in capsys.readouterr().out
    (place,) = tracked(root)
    from mlflow import MlflowClient  # takes two seconds, which `make test` has no use for

    client = MlflowClient(tracking_uri=embedded_uri(place))
    (experiment,) = [e for e in client.search_experiments() if e.name == "evaluations"]
    by_name = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(by_name) == {"before", "after"}
    run = by_name["before"]
    (benchmark,) = {key.partition("/")[2] for key in run.data.metrics}
    assert run.data.metrics[f"pass_at_1/{benchmark}"] == 0.5
    history = client.get_metric_history(run.info.run_id, f"pass_at_k/{benchmark}")
    assert (history[0].step, history[0].value) == (1, 0.5)
    assert [point.step for point in history] == [1, 2, 4, 8]
    assert run.data.tags["kind"] == "evaluation" and run.data.params["n_samples"] == "8"
    assert main(["sync", "--root", str(root)]) == 0
    assert "MLflow evaluations: 2 unchanged (" in capsys.readouterr().out


@pytest.mark.slow
def test_one_that_is_damaged_is_left_out_by_name(root, capsys):
    spec = next((root / "evals" / "after").rglob("spec.json"))
    spec.write_text("{")
    (place,) = tracked(root)
    assert sync_run(place).created == 1
    assert f"{spec.parent} is left out: " in capsys.readouterr().err
