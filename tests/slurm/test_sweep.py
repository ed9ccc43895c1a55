"""A real small sweep on a real SLURM: whole, with faults, and with drivers that die."""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fgrpo_bench import StagedDesign
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from sweeps import REPOSITORY
from sweeps.cli import main
from sweeps.slurm import drive, tick
from tests.plugin.overrides import MODULE, PARITY
from tests.slurm.cluster import Cluster
from tests.slurm.config import NODES
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    SLURM,
    all_done,
    check_begun_once,
    check_complete,
    check_draws,
    start,
    until,
)
from tests.support.mlflow_store import runs, server
from tests.support.stages import TINY

MANY = f"sweep.grid.focal_gamma=[{','.join(str(i / 8) for i in range(600))}]"


@pytest.fixture(autouse=True)
def controller(cluster: Cluster) -> Cluster:
    return cluster


def test_a_sweep_of_four_points_runs_to_its_report_with_no_driver(
    tmp_path: Path, cluster: Cluster
) -> None:
    """Its evaluations are under a design, on several nodes at a time."""
    design = "+experiment.evaluation.design={stages:[4,8,16],enough:1}"
    half_nodes = "profile.cpus_per_task=4"
    gammas = "sweep.grid.focal_gamma=[0.0,0.5,1.0,2.0]"
    paths = start(tmp_path, *TINY, gammas, design, half_nodes)
    wait_until(lambda: not cluster.squeue(), what="the last job's end")
    with (paths.report / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["focal_gamma"] for row in rows} == {"", "0.0", "0.5", "1.0", "2.0"}
    assert all_done(tick.tick(paths, say=print))
    check_begun_once(paths)
    check_draws(paths, StagedDesign(stages=(4, 8, 16), enough=1))
    jobs = cluster.squeue("--states=all", "--array", "--format=%j %N").splitlines()
    assert len({job.split()[1] for job in jobs if "-evaluate-" in job}) > 1, jobs


def test_what_slurm_refuses_is_said_in_its_words_and_leaves_nothing_queued(
    tmp_path: Path, cluster: Cluster
) -> None:
    refusals = {
        "profile.partition=nope": "profile.partition='nope', and `sinfo` shows gpu, eval, high",
        "profile.constraint=nope": "Invalid feature specification",
        "profile.cpus_per_task=9": "not available: .* and 0 such are in .* with 8 processors",
        "+profile.additional_parameters.reservation=no": "Requested reservation is invalid",
        f"profile.max_array_size=1100 sweep.grid.seed=[1,2] {MANY}": (
            "Invalid job array .*max_array_size=1100 is more than"
        ),
    }
    enforced = {
        "profile.account=nope": "profile.account='nope', and `sacctmgr .*` shows .*lab",
        "profile.qos=nope": "Invalid qos .*: profile.qos='nope', and `sacctmgr .*` shows normal",
    }
    for overrides, words in refusals.items():
        with pytest.raises(ValueError, match=words):
            start(tmp_path, *TINY, *overrides.split())
    cluster.add_account("lab")
    with cluster.changed(enforce_accounts=True):
        for override, words in enforced.items():
            with pytest.raises(ValueError, match=words):
                start(tmp_path, *TINY, override)
    assert cluster.squeue() == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_whatever_a_shell_sets_and_an_administrator_renames_jobs_are_the_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """As inside a job, whose SLURM_MEM_PER_CPU beside a SLURM_MEM_PER_NODE ends srun."""
    shell = {"SBATCH_EXPORT": "NONE", "SBATCH_JOB_NAME": "mywork", "SBATCH_TIMELIMIT": "2"}
    shell |= {"SLURM_JOB_ID": "1", "SLURM_MEM_PER_CPU": "900", "SRUN_EXPORT_ENV": "NONE"}
    for name, value in shell.items():
        monkeypatch.setenv(name, value)
    with cluster.drained():
        paths = start(tmp_path, *TINY)
        first = cluster.squeue("-r", "--format=%l").split()
        assert first == ["5:00"] * 7
        _rename_all(cluster)
        assert tick.tick(paths, say=print, clock=lambda: time.time() + 1000).submit == ()
        drive.cancel(paths)
        wait_until(lambda: not cluster.squeue(), what="an empty queue")
        assert tick.tick(paths, say=print).submit == ()
        drive.retry(paths, None)
        _rename_all(cluster)
    until(paths, all_done)
    check_begun_once(paths)


def _rename_all(cluster: Cluster) -> None:
    for job_id in {*cluster.squeue("--format=%A").split()}:
        cluster.scontrol("update", f"jobid={job_id}", "jobname=mywork")


@pytest.mark.slow
def test_a_node_that_does_not_see_the_run_root_is_named(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster.drained(NODES[1:]), cluster.hidden_from(NODES[0], tmp_path):
        paths = start(tmp_path, *TINY)
        live = "--states=PENDING,RUNNING,COMPLETING"
        wait_until(lambda: not cluster.squeue(live), what="the last job's end")
    words = f"never started: can {NODES[0]} see the run root and the interpreter"
    assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert words in capsys.readouterr().out
    assert words in tick.failed(tick.tick(paths, say=print))["_warmup/s11"]
    drive.cancel(paths)


@pytest.mark.slow
def test_jobs_load_the_plugin_from_the_frozen_code(tmp_path: Path, cluster: Cluster) -> None:
    few = [
        f"experiment.train.{setting}"
        for setting in ("steps=4", "save_every=2", "eval_every=0", "warmup.steps=4")
    ]
    chosen = [f"plugins=[{MODULE}]", f"run_root='{tmp_path}'", *PARITY, *few, *SLURM]
    run = [sys.executable, "-m", "sweeps", "run", "smoke", *chosen]
    subprocess.run(run, cwd=REPOSITORY, check=True)
    paths = RunPaths(root=tmp_path, sweep="smoke", experiment="countdown-tiny", version="v1")
    wait_until(lambda: not cluster.squeue(), what="the last job's end")
    (code,) = (path for path in paths.code.iterdir() if path.is_dir())
    assert (code / MODULE.replace(".", "/") / "__init__.py").exists()
    for stage in read_json(paths.plan)["stages"]:
        marker = read_json(StagePaths(paths.folder / stage["name"]).done)
        assert marker["plugins"] == {MODULE: "0.3"}
    assert (paths.report / "results.csv").exists()


@pytest.mark.slow
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
