"""Results that stand where another point's belong are refused by every reader alike."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.report.build import write_report
from sweeps.cli import main as sweeps
from tests.dashboards.conftest import client_of
from tests.support.dashboard import add_draws
from tests.support.report import ONE_SEED, copy, small_sweep

FIRST, SECOND = "grpo-n4-g0-s11", "grpo-n4-g1-s11"
REFUSED = "results count only for the settings that they were made with"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> SweepResults:
    """A reported sweep with draws; not to be changed."""
    results = small_sweep(tmp_path_factory.mktemp("reported"), "smoke", ONE_SEED)
    for point in results.points:
        add_draws(point, "countdown", ("12",))
    write_report(load_results(results.paths))
    return results


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def points(paths: RunPaths) -> None:
    swap(paths.point(FIRST).folder, paths.point(SECOND).folder)


def benchmarks(paths: RunPaths) -> None:
    first, second = (
        point.evaluate.benchmark("countdown").folder
        for point in load_results(paths).points
        if point.point_id in (FIRST, SECOND)
    )
    swap(first, second)


@pytest.mark.parametrize("change", [points, benchmarks])
def test_folders_of_two_points_that_were_swapped_are_refused_by_every_reader(
    reported: SweepResults, tmp_path: Path, capsys, change: Callable[[RunPaths], None]
) -> None:
    paths = copy(reported, tmp_path).paths
    file = str(paths.report / "results.csv")
    change(paths)
    for asked in (["smoke", "--root", str(tmp_path)], ["--verify", file]):
        assert report(asked) == 1
        assert REFUSED in capsys.readouterr().err
    assert sweeps(["status", "smoke", f"run_root={tmp_path}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    states = {stage["name"]: stage for point in told["points"] for stage in point["stages"]}
    wrong = {name for name, stage in states.items() if stage["state"] == "damaged"}
    assert {name.split("/")[0] for name in wrong} == {FIRST, SECOND}
    assert all(REFUSED in states[name]["why"] for name in wrong)
    assert sweeps(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert "put the folder back where it belongs" in capsys.readouterr().out
    client = client_of(tmp_path)
    for view in ("compare", "forgetting", "draws", "audit"):
        page = client.get(f"/smoke/{paths.experiment}/{paths.version}/{view}")
        assert (page.status_code, REFUSED in page.text) == (500, True), view
