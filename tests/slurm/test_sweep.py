"""A real small sweep on a real SLURM: whole, with faults, and with drivers that die."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench import StagedDesign
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import config
from sweeps import REPOSITORY
from sweeps.cli import main
from sweeps.freeze import run_paths
from sweeps.slurm import drive, submissions, tick
from tests.plugin.overrides import MODULE, PARITY
from tests.slurm.cluster import Cluster
from tests.slurm.config import NODES
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    SLURM,
    all_done,
    check_begun_once,
    check_draws,
    start,
    until,
)
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


@pytest.mark.slow
def test_edits_while_jobs_wait_reach_none_of_them(tmp_path: Path, cluster: Cluster) -> None:
    """The checkout's own copy is edited into something that cannot run."""
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "-q", str(REPOSITORY), str(checkout)], check=True)
    root = tmp_path / "runs"
    command = [sys.executable, "-m", "sweeps", "run", "smoke", f"run_root='{root}'", *TINY, *SLURM]
    engine = checkout / "fgrpo_bench" / "engines" / "embedded" / "__main__.py"
    with cluster.drained():
        subprocess.run(command, cwd=checkout, env=os.environ | {"PYTHONPATH": ""}, check=True)
        engine.write_text("raise SystemExit(9)\n")
    paths = run_paths(config.load("smoke", [f"run_root='{root}'", *TINY, *SLURM]))
    until(paths, all_done)
    check_begun_once(paths)


@pytest.mark.slow
@pytest.mark.fault
def test_an_array_larger_than_the_sites_limit_is_cut(tmp_path: Path, cluster: Cluster) -> None:
    with cluster.changed(max_array_size=2):
        paths = start(tmp_path, *TINY, "sweep.grid.focal_gamma=[0.0,0.5,1.0]")
        until(paths, all_done)
    batches = submissions.read(paths.submissions).batches.values()
    assert [b.size for b in batches if b.kind == "train"] == [2, 1]
    check_begun_once(paths)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["profile.partition=nope"], "profile.partition='nope', and `sinfo` shows gpu, eval, high"),
        (["profile.constraint=nope"], "Invalid feature specification"),
        (["profile.cpus_per_task=9"], "not available: .* and 0 such are in .* with 8 processors"),
        (["+profile.additional_parameters.reservation=no"], "Requested reservation is invalid"),
        (
            ["profile.max_array_size=1100", "sweep.grid.seed=[1,2]", MANY],
            "Invalid job array .*max_array_size=1100 is more than",
        ),
    ],
    ids=["partition", "constraint", "node", "reservation", "array"],
)
def test_what_slurm_refuses_is_said_in_its_words_and_leaves_nothing_queued(
    tmp_path: Path, cluster: Cluster, overrides: list[str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        start(tmp_path, *TINY, *overrides)
    assert cluster.squeue() == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "profile.account=nope",
            "combination specified: profile.account='nope', and `sacctmgr .*` shows .*lab",
        ),
        ("profile.qos=nope", "Invalid qos .*: profile.qos='nope', and `sacctmgr .*` shows normal"),
    ],
)
def test_an_account_or_qos_that_does_not_exist_is_refused_where_the_site_asks_for_one(
    tmp_path: Path, cluster: Cluster, override: str, words: str
) -> None:
    cluster.add_account("lab")
    with cluster.changed(enforce_accounts=True), pytest.raises(ValueError, match=words):
        start(tmp_path, *TINY, override)
    assert cluster.squeue() == ""
    assert list(tmp_path.iterdir()) == []


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
def test_cancel_stops_all_and_retry_goes_on(
    tmp_path: Path, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = start(tmp_path, *TINY)
    drive.cancel(paths)
    wait_until(lambda: not cluster.squeue(), what="an empty queue")
    assert tick.tick(paths, say=print).submit == ()
    drive.retry(paths, None)
    until(paths, all_done)
    capsys.readouterr()
    assert main(["status", "smoke", f"run_root={tmp_path}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["points_done"] == 2


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
