"""What follows when every stage is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.tracking import sync
from sweeps import reporting
from sweeps.reporting import finish
from tests.support.synthetic import write_sweep

pytestmark = pytest.mark.slow


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return write_sweep(tmp_path, "smoke").paths


def synced(asked: RunPaths) -> str:
    """In place of a sync, which shows the report's files."""
    assert (asked.report / "report.md").exists()
    return f"synced {asked.sweep}"


def test_a_finished_sweep_is_reported_and_then_synced_with_table_paths_and_the_next_command(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sync, "sync_run", synced)
    said: list[str] = []
    finish(paths, said.append)
    printed = capsys.readouterr().out
    assert said == ["syncing to MLflow", "synced smoke"]
    assert "F-GRPO" in printed
    assert "Does a focal weight at N = 4 " in printed
    assert f"Report: {paths.report / 'report.html'}, with report.tex, results.csv" in printed
    assert f"\nDashboard: make dashboard ARGS='--root {paths.root}'\n" in printed
    assert printed.endswith(f"MLflow: make mlflow-ui ARGS='--root {paths.root}'\n")
    assert len(printed.splitlines()) <= 30
    assert max(map(len, printed.splitlines()[:-3])) <= 100


def test_the_last_job_reports_and_syncs_a_server_but_leaves_the_embedded_store_to_the_driver(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert reporting.main(paths.folder) == 0
    assert (paths.report / "report.md").exists()
    assert not paths.mlflow_db.exists()
    calls: list[str] = []
    monkeypatch.setattr(sync, "sync_run", lambda asked: calls.append(synced(asked)) or "synced")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow.example:5000")
    (paths.report / "report.md").unlink()
    assert reporting.main(paths.folder) == 0
    assert calls == ["synced smoke"]
