"""Controllers that lost their state and give job ids out again: to the sweep's own new jobs, and to
other people's, which nothing may touch.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.stages.attempts import attempts as attempts_of
from sweeps.slurm import decide, drive, recover, submissions, tick
from sweeps.slurm.submissions import REPORT, JobBatch
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    all_done,
    check_begun_once,
    check_complete,
    counting,
    fake_until,
    hold,
    start_fake,
    start_held,
    start_payload,
)
from tests.support.fake_stage import fake_command

pytestmark = pytest.mark.usefixtures("cluster")
SEEDS = "sweep.grid.seed=[11,12]"


def ids(paths: RunPaths) -> dict[str, int]:
    """Job ids of all batches by name."""
    batches = submissions.read(paths.submissions).batches.values()
    return {batch.name: int(batch.job_id or 0) for batch in batches}


def report_id(paths: RunPaths) -> int:
    return next(number for name, number in ids(paths).items() if f"-{REPORT}-" in name)


def others_jobs(cluster: Cluster, first: int, last: int) -> list[str]:
    """Arrays that somebody else sends, which get the ids from first to last."""
    given = [cluster.sbatch("sleep 600", "--hold", "--array=0-3") for _ in range(first, last + 1)]
    assert given == [str(number) for number in range(first, last + 1)]
    return given


def untouched(cluster: Cluster, jobs: list[str]) -> bool:
    """Whether all elements of all arrays are still held in the queue."""
    shown = cluster.squeue("-r", f"--jobs={','.join(jobs)}", "--format=%r").split()
    return shown == ["JobHeldUser"] * (4 * len(jobs))


@pytest.mark.slow
@pytest.mark.fault
def test_a_new_array_that_got_the_id_of_the_former_report_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    paths = start_fake(tmp_path, monkeypatch)
    fake_until(paths, all_done)
    former = report_id(paths)
    before = ids(paths)
    cluster.lose_state(next_job_id=former - 3)  # the trial takes one, too
    start_fake(tmp_path, monkeypatch, SEEDS)
    (again,) = {name for name, number in ids(paths).items() if number == former} - {*before}
    assert f"-{REPORT}-" not in again
    assert again in cluster.squeue(f"--jobs={former}", "--format=%j").split()
    fake_until(paths, all_done)
    check_begun_once(paths)


def cancel(paths: RunPaths) -> None:
    drive.cancel(paths)


def retry(paths: RunPaths) -> None:
    drive.retry(paths, None)


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("command", [cancel, retry])
def test_no_command_touches_other_peoples_jobs_that_have_the_sweeps_ids(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    command: Callable[[RunPaths], None],
) -> None:
    paths, _ = start_held(tmp_path, monkeypatch)
    first, last = min(ids(paths).values()), max(ids(paths).values())
    cluster.lose_state(next_job_id=first)
    jobs = others_jobs(cluster, first, last)
    monkeypatch.setattr(decide, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(drive, "tick", partial(tick.tick, command=fake_command))
    command(paths)
    assert untouched(cluster, jobs)
    hold(tmp_path).unlink()
    drive.retry(paths, None)
    fake_until(paths, all_done)
    assert untouched(cluster, jobs)
    check_complete(paths)


@pytest.mark.slow
@pytest.mark.fault
def test_what_a_dead_driver_had_not_handed_over_is_given_up_without_its_former_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """Accounting still knows the id of the dead driver's job, which somebody else's has by now."""
    paths = start_fake(tmp_path, monkeypatch)
    fake_until(paths, all_done)
    batch = JobBatch(name=recover.batch_name(paths, "train"), kind="train", stages=("nothing",))
    submissions.append(paths.submissions, batch.intent(None))
    job = cluster.sbatch("sleep 600", f"--job-name={batch.name}")
    wait_until(lambda: cluster.sacct("-X", f"--jobs={job}", "-o", "State") == "RUNNING", what="it")
    cluster.lose_state(next_job_id=int(job))
    jobs = others_jobs(cluster, int(job), int(job))
    tick.tick(paths, say=print, command=fake_command)
    assert submissions.read(paths.submissions).batches[batch.name].void
    assert untouched(cluster, jobs)


@pytest.mark.fault
def test_a_job_that_is_told_to_save_requeues_no_other_that_has_its_id(
    tmp_path: Path, cluster: Cluster
) -> None:
    """The job was lost with the controller's state and has not been ended yet."""
    other = cluster.sbatch("sleep 600", "--requeue")
    cluster.wait_for_state(other, "RUNNING")
    stage = StagePaths(tmp_path / "point")
    write_json(stage.spec, {"kind": "train", "fingerprint": "ff", "target": {}})
    slurm = {"SLURM_JOB_ID": other, "SLURM_JOB_NAME": "smoke-train-5d41c01f0c66a2b9"}
    settings = {"FAKE_STEPS": "1000", "FAKE_STEP_SECONDS": "0.02"}
    lost = start_payload(stage, counting(stage), slurm, **settings)
    wait_until((stage.folder / "steps.jsonl").exists, what="a step")
    lost.send_signal(signal.SIGUSR2)
    said, _ = lost.communicate()
    assert f"not requeued: SLURM shows no job {other} named smoke-train-5d41c" in said
    assert attempts_of(stage)[-1].outcome == "stopped"
    assert cluster.squeue(f"--jobs={other}", "--Format=RestartCnt,State").split() == [
        "0",
        "RUNNING",
    ]
