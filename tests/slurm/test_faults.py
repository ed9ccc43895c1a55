"""What befalls jobs on a real SLURM, with stages that count every step they take."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench import config
from fgrpo_bench.paths import RunPaths, StagePaths
from sweeps.freeze import run_paths
from sweeps.slurm import drive, submissions, submit, tick
from sweeps.slurm.arrays import Sending
from sweeps.slurm.judge import Decision
from sweeps.slurm.notes import attempts
from tests.slurm.cluster import Cluster
from tests.support.fake_stage import fake_command
from tests.support.fake_sweep import check_steps
from tests.support.ticking import all_done, tick_until

pytestmark = pytest.mark.usefixtures("cluster")

SLURM = ["profile=slurm", "profile.partition=gpu", "profile.mem_gb=0.2", "profile.time_minutes=5"]
POINT = "grpo-n4-g1-s11"
STEPS = 30


def start(root: Path, monkeypatch: pytest.MonkeyPatch, **settings: str) -> RunPaths:
    """Submit the `smoke` sweep with fake stages; settings as tests.support.fake_stage has them."""
    settings = {"FAKE_HOLD": str(root / "hold"), "FAKE_STEPS": "8"} | settings
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    declaration = config.load("smoke", [f"run_root='{root}'", *SLURM])
    assert drive.run(declaration, command=fake_command) == 0
    return run_paths(declaration)


until = partial(tick_until, patience=150, command=fake_command)


def at_rest(decision: Decision) -> bool:
    return not tick.in_hand(decision)


def running(paths: RunPaths) -> str:
    """Wait until the point has taken some steps; its job id."""
    stage = StagePaths(paths.folder / POINT)
    deadline = time.monotonic() + 60
    steps = stage.folder / "steps.jsonl"
    while not steps.exists() or len(steps.read_text().splitlines()) < 6:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return str(attempts(stage)[-1]["job_id"])


def requeue(cluster: Cluster, job: str) -> None:
    cluster.scontrol("requeue", job)


def warn(cluster: Cluster, job: str) -> None:
    subprocess.run(["scancel", "--signal=USR2", job], check=True)


def preempt(cluster: Cluster, job: str) -> None:
    cluster.sbatch("sleep 3", "--partition=high", "--nodes=4", "--exclusive")


def lose_node(cluster: Cluster, job: str) -> None:
    node = cluster.node_of(job)
    cluster.node_down(node)
    time.sleep(1)
    cluster.node_up(node)


def cancel_by_hand(cluster: Cluster, job: str) -> None:
    subprocess.run(["scancel", job], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [requeue, warn, preempt, lose_node, cancel_by_hand])
def test_a_job_that_is_interrupted_goes_on_from_its_save(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    fault: Callable[[Cluster, str], None],
) -> None:
    settings = {"FAKE_STEP_SECONDS": "0.1", "FAKE_STEPS": str(STEPS)}
    paths = start(tmp_path, monkeypatch, **settings)
    fault(cluster, running(paths))
    until(paths, all_done)
    for stage in attempted(paths):
        check_steps(stage.folder, STEPS)
    assert len(attempts(StagePaths(paths.folder / POINT))) == 2


def attempted(paths: RunPaths) -> list[StagePaths]:
    return [StagePaths(path.parent) for path in paths.folder.glob("**/steps.jsonl")]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["FAKE_FAIL", "FAKE_SILENT"])
def test_a_failing_point_is_not_tried_again_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    paths = start(tmp_path, monkeypatch, **{fault: POINT})
    decision = until(paths, at_rest)
    assert tick.failed(decision) == {POINT: "failed"}
    assert len(attempts(StagePaths(paths.folder / POINT))) == 1
    states = {name: each.state for name, each in decision.standings.items()}
    assert sorted(states.values()) == ["again", "done", "done", "done", "done", "failed"]
    assert next(n for n, state in states.items() if state == "again").startswith(POINT)


@pytest.mark.slow
def test_where_slurm_refuses_the_second_array_the_first_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    sbatch = submit._sbatch

    def refusing(sender: submit.Sender, sending: Sending) -> str:
        if sending.batch.kind == "train":
            raise ValueError("sbatch: error: Invalid job array specification")
        return sbatch(sender, sending)

    monkeypatch.setattr(submit, "_sbatch", refusing)
    with pytest.raises(ValueError, match="it said: sbatch: error: Invalid job array specification"):
        start(tmp_path, monkeypatch)
    deadline = time.monotonic() + 30
    while cluster.squeue():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    paths = run_paths(config.load("smoke", [f"run_root='{tmp_path}'", *SLURM]))
    assert all(batch.void for batch in submissions.read(paths.submissions).batches.values())
