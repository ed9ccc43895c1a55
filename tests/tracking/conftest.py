"""A blank embedded store is made once and copied, since its migrations take seconds; so is a synced
one, in its place, since MLflow keeps absolute addresses."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.report.build import write_report
from fgrpo_bench.stages.tables import METRICS, read_table, write_table
from fgrpo_bench.tracking.sync import find_store, opened, sync_run
from tests.report.conftest import drawing_plainly
from tests.support.synthetic import SMALL, write_sweep

TINY = [
    *SMALL,
    "experiment.train.rollouts_per_step=64",
    "experiment.train.learning_rate=3.0e-4",
    "experiment.train.warmup.steps=40",
    "sweep.grid.seed=[11]",
    "sweep.grid.group_size=[2]",
    "sweep.cells=[{algorithm: grpo, group_size: 2, focal_gamma: 0.5}]",
]
"""A base model, a GRPO point and an F-GRPO point."""


@pytest.fixture(autouse=True)
def _no_tracking_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="session")
def blank_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The database file of a store that holds nothing."""
    root = tmp_path_factory.mktemp("blank")
    paths = RunPaths(root=root, sweep="none", experiment="none", version="v1")
    with opened(find_store(paths, None)):
        return paths.mlflow_db


@pytest.fixture
def swept(tmp_path: Path, blank_store: Path) -> SweepResults:
    """A finished synthetic sweep of three points beside a blank store."""
    shutil.copy(blank_store, tmp_path / "mlflow.db")
    return write_sweep(tmp_path, overrides=TINY)


@pytest.fixture(scope="session")
def first_sync(blank_store: Path, tmp_path_factory: pytest.TempPathFactory) -> SweepResults:
    """The sweep of `synced`."""
    root = tmp_path_factory.mktemp("synced") / "runs"
    results = write_sweep(root, overrides=TINY)
    shutil.copy(blank_store, results.paths.mlflow_db)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        assert sync_run(results.paths).created == 6
    shutil.copytree(root, root.with_name("kept"))
    return results


@pytest.fixture
def synced(first_sync: SweepResults) -> Iterator[SweepResults]:
    """The same sweep and its store, which a sync has filled; to be changed."""
    yield first_sync
    root = first_sync.paths.root
    shutil.rmtree(root)
    shutil.copytree(root.with_name("kept"), root)


def hold_back(results: SweepResults) -> dict[Path, bytes]:
    """Let the second point still train and the third await its evaluation; the files as they were,
    for `finish`."""
    training, trained = results.points[1:3]
    paths = [training.train.metrics, training.train.done, training.evaluate.done]
    kept = {path: path.read_bytes() for path in [*paths, trained.evaluate.done]}
    write_table(paths[0], read_table(paths[0], METRICS).head(7), METRICS)
    for path in [*paths[1:], trained.evaluate.done]:
        path.unlink()
    return kept


def finish(results: SweepResults, kept: dict[Path, bytes]) -> None:
    """Let both come to their end, with a report."""
    for path, content in kept.items():
        path.write_bytes(content)
    with drawing_plainly():
        write_report(results)
