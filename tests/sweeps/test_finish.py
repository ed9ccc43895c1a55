"""What follows when every stage is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.tracking import sync
from sweeps import reporting
from sweeps.reporting import finish
from tests.support.synthetic import write_sweep


@pytest.mark.slow
def test_a_finished_sweep_is_synced_and_reported_with_table_paths_and_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write_sweep(tmp_path, "smoke").paths
    monkeypatch.setattr(sync, "sync_run", lambda asked: f"synced {asked.sweep}")
    said: list[str] = []
    finish(paths, said.append)
    printed = capsys.readouterr().out
    assert said == ["syncing to MLflow", "synced smoke"]
    assert "F-GRPO" in printed
    assert "Does a focal weight at N = 4 " in printed
    assert f"Report: {paths.report / 'report.html'}, with table.tex, results.csv" in printed
    assert f"\nDashboard: make dashboard ARGS='--root {tmp_path}'\n" in printed
    assert printed.endswith(f"MLflow: make mlflow-ui ARGS='--root {tmp_path}'\n")
    assert len(printed.splitlines()) <= 30
    assert max(map(len, printed.splitlines()[:-3])) <= 100


@pytest.mark.slow
def test_a_server_that_is_down_costs_a_warning_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write_sweep(tmp_path, "smoke").paths
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path))

    def down(asked: object) -> None:
        raise ConnectionError("nobody answers at http://127.0.0.1:9")

    monkeypatch.setattr(sync, "sync_run", down)
    said: list[str] = []
    finish(paths, said.append)
    assert "warning: MLflow was not synced" in said[-1]
    assert "nobody answers" in said[-1]
    assert "`make mlflow-ui` syncs again" in said[-1]
    assert (paths.report / "report.md").exists()
    assert "F-GRPO" in capsys.readouterr().out


@pytest.mark.parametrize("by", ["a driver", "the last job"])
@pytest.mark.slow
def test_the_report_is_written_before_mlflow_is_synced_which_shows_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    paths = write_sweep(tmp_path, "smoke").paths
    there: list[bool] = []

    def seen(asked: RunPaths) -> str:
        there.append((asked.report / "report.md").exists())
        return "synced"

    monkeypatch.setattr(sync, "sync_run", seen)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    if by == "a driver":
        finish(paths, print)
    else:
        assert reporting.main(paths.folder) == 0
    assert there == [True]


@pytest.mark.slow
def test_the_last_job_leaves_the_embedded_store_to_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_sweep(tmp_path, "smoke").paths
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert reporting.main(paths.folder) == 0
    assert (paths.report / "report.md").exists()
    assert not paths.mlflow_db.exists()
