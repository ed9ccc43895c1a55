"""Parts of SLURM that give no answer for a while: what is said, and that nothing comes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs import config, to_dict
from fgrpo_bench.stages.attempts import attempts
from sweeps import REPOSITORY
from sweeps.cli import main
from sweeps.freeze import run_paths
from sweeps.slurm import tick
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    POINT,
    SLURM,
    check_begun_once,
    check_complete,
    check_fake,
    fake_settings,
    fake_until,
    finish_fake,
    hold,
    job_at_hold,
    start,
    start_fake,
    start_held,
)
from tests.support.fake_stage import fake_command
from tests.support.faults import contents
from tests.support.mlflow_store import runs, server
from tests.support.stages import TINY

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]
UNREACHABLE = "Unable to contact slurm controller"


@pytest.mark.fault
def test_while_the_controller_is_down_status_tells_what_the_files_say(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths, _ = start_held(tmp_path, monkeypatch)
    before = paths.submissions.read_bytes()
    cluster.stop_slurmctld()
    capsys.readouterr()
    assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
    said = capsys.readouterr()
    words = "SLURM was not asked, so this is what the files tell: `squeue` cannot reach SLURM"
    assert words in said.err
    (row,) = [line for line in said.out.splitlines() if line.split()[:2] == [POINT, "train"]]
    assert row.split()[2] == "running"
    for command in ("tick", "cancel", "retry"):
        assert main([command, "smoke", f"run_root={tmp_path}"]) == 2
        assert UNREACHABLE in capsys.readouterr().err
        assert paths.submissions.read_bytes() == before
    cluster.start_slurmctld()
    finish_fake(paths)
    check_begun_once(paths)


@pytest.mark.fault
def test_follow_outlasts_a_controller_that_is_down_for_a_while(
    tmp_path: Path, cluster: Cluster, fake_results: dict[str, str]
) -> None:
    hold(tmp_path).touch()
    driver, log, paths = following(tmp_path)
    try:
        job_at_hold(paths)
        cluster.stop_slurmctld()
        wait_until(lambda: UNREACHABLE in log.read_text(), what="its words")
        cluster.start_slurmctld()
        hold(tmp_path).unlink()
        assert driver.wait(timeout=600) == 0, log.read_text()
    finally:
        driver.kill()
        driver.wait()
    assert log.read_text().count(UNREACHABLE) == 1
    check_fake(paths)
    check_begun_once(paths)
    assert contents(paths, "**/result.json") == fake_results


def following(root: Path) -> tuple[subprocess.Popen[bytes], Path, RunPaths]:
    """A driver that submits a sweep of fake stages and follows it; what it says; the sweep."""
    declaration = config.load("smoke", [f"run_root='{root}'", *SLURM])
    write_json(root / "declaration.json", to_dict(declaration))
    command = [sys.executable, "-m", "tests.slurm.fake_slurm_driver", "run"]
    log = root / "driver.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [*command, str(root / "declaration.json")],
            cwd=REPOSITORY,
            env=os.environ | fake_settings(root),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return driver, log, run_paths(declaration)


@pytest.mark.fault
def test_jobs_that_end_while_accounting_is_down_are_judged_when_it_is_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One fails, and the controller forgets it, so that only accounting knows how it ended."""
    with cluster.changed(min_job_age_s=2):
        cluster.stop_slurmdbd()
        paths = start_fake(tmp_path, monkeypatch, FAKE_FAIL=POINT)
        wait_until(lambda: not cluster.squeue("--states=all"), what="oblivion")
        capsys.readouterr()
        unknown = tick.tick(paths, say=print, command=fake_command)
        assert "warning: accounting gives no answer" in capsys.readouterr().out
        assert unknown.standings[POINT].state == "active", "nobody can tell yet"
        assert unknown.submit == ()
        cluster.start_slurmdbd()
        decision = fake_until(paths, lambda seen: seen.standings[POINT].state == "failed")
    assert tick.failed(decision) == {POINT: "failed"}
    assert len(attempts(paths.point(POINT))) == 1


def test_the_last_job_syncs_a_tracking_server_with_no_driver_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    with server(tmp_path / "server") as (uri, _):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        paths = start(tmp_path, *TINY)
        wait_until(lambda: not cluster.squeue(), what="the last job's end")
        check_complete(paths)
        held = [run for run in runs(uri) if run.data.tags["kind"] == "point"]
    stages = read_json(paths.plan)["stages"]
    points = {stage["point_id"] for stage in stages if stage["kind"] == "evaluate"}
    assert len(held) == len(points) == 3
    assert not paths.mlflow_db.exists()
