"""What befalls jobs on a real SLURM, with stages that count every step they take."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.specs import config
from fgrpo_bench.stages.attempts import attempts
from sweeps.freeze import run_paths
from sweeps.slurm import decide, submissions, tick
from sweeps.slurm.decide import Decision
from sweeps.slurm.packing import Packing
from sweeps.slurm.scheduler import Call
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    POINT,
    SLURM,
    all_done,
    check_begun_once,
    check_complete,
    check_fake,
    fake_until,
    hold,
    job_at_hold,
    logs,
    start_fake,
)
from tests.slurm.strikes import (
    Strike,
    cancel_by_hand,
    kill_controller,
    kill_slurmd,
    lose_node,
    preempt,
    requeue,
    restart_controller,
    warn,
)
from tests.support.fake_stage import fake_command
from tests.support.faults import contents

pytestmark = pytest.mark.usefixtures("cluster")
SLOW = pytest.mark.slow


def hiding_variables(root: Path, patch: pytest.MonkeyPatch) -> None:
    """A user's own defaults of squeue, which filter its rows."""
    patch.setenv("SQUEUE_PARTITION", "eval")
    patch.setenv("SQUEUE_STATES", "SUSPENDED")
    patch.setenv("SLURM_TIME_FORMAT", "relative")


def silent_squeue(root: Path, patch: pytest.MonkeyPatch) -> None:
    """It ends well and prints nothing."""
    program = root / "bin" / "squeue"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def at_rest(decision: Decision) -> bool:
    return not tick.is_pending(decision)


@pytest.mark.fault
@pytest.mark.parametrize(
    ("strike", "settings"),
    [
        pytest.param(requeue, {}, id="requeued-by-hand"),
        pytest.param(warn, {}, id="warned", marks=SLOW),
        pytest.param(preempt, {}, id="preempted", marks=SLOW),
        pytest.param(
            preempt, {"preempt_signal": False}, id="preempted-without-warning", marks=SLOW
        ),
        pytest.param(lose_node, {}, id="node-down-and-back", marks=SLOW),
        pytest.param(kill_slurmd, {}, id="slurmd-killed", marks=SLOW),
        pytest.param(cancel_by_hand, {}, id="cancelled-by-hand", marks=SLOW),
        pytest.param(restart_controller, {}, id="slurmctld-restarted", marks=SLOW),
        pytest.param(kill_controller, {}, id="slurmctld-killed", marks=SLOW),
    ],
)
def test_a_job_that_is_struck_goes_on_from_its_save(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    fake_results: dict[str, str],
    strike: Strike,
    settings: dict[str, bool],
) -> None:
    hold(tmp_path).touch()
    with ExitStack() as changes:
        if settings:
            changes.enter_context(cluster.changed(**settings))
        paths = start_fake(tmp_path, monkeypatch)
        strike(cluster, paths, job_at_hold(paths))
        hold(tmp_path).unlink()
        fake_until(paths, all_done)
    check_fake(paths)
    assert contents(paths, "**/result.json") == fake_results
    jobs = [note.job_id for note in attempts(paths.point(POINT))]
    if strike not in (restart_controller, kill_controller):
        assert len(jobs) == 2
    if strike not in (cancel_by_hand, kill_controller):
        assert len(set(jobs)) == 1, "SLURM itself ran the job again, with no driver alive"


@pytest.mark.slow
@pytest.mark.fault
def test_where_locks_are_not_kept_the_older_of_two_executions_marks_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    fake_results: dict[str, str],
) -> None:
    """A second lock stands in for a file system that forgets the first."""
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    stage = paths.point(POINT)
    job = job_at_hold(paths)
    stage.lock.unlink()
    cluster.kill_slurmd(cluster.node_of(job))

    def both_at_work() -> bool:
        return len({row["pid"] for row in read_lines(stage.folder / "steps.jsonl")}) == 2

    wait_until(both_at_work, what="a second execution")
    hold(tmp_path).unlink()
    fake_until(paths, all_done)
    wait_until(lambda: "owns it" in logs(stage)[0], what="the older one's end")
    check_complete(paths)
    assert contents(paths, "**/result.json") == fake_results


@pytest.mark.slow
@pytest.mark.fault
def test_an_evaluation_that_is_cancelled_while_it_waits_is_sent_again_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    job_at_hold(paths)

    def evaluations() -> list[str]:
        rows = cluster.squeue("-r", "--format=%i %j").splitlines()
        return [row.split()[0] for row in rows if "-evaluate-" in row]

    wait_until(lambda: len(evaluations()) == 1, what="the end of all but one evaluation")
    (job,) = evaluations()
    cluster.run("scancel", job)
    cluster.wait_for_state(job, "CANCELLED")
    sent = [tick.tick(paths, say=print, command=fake_command).submit for _ in range(2)]
    assert [len(each) for each in sent] == [1, 0]
    hold(tmp_path).unlink()
    fake_until(paths, all_done)
    check_begun_once(paths)


@pytest.mark.fault
@pytest.mark.parametrize(
    "nothing_shown", [hiding_variables, pytest.param(silent_squeue, marks=SLOW)]
)
def test_a_stage_at_work_that_squeue_does_not_show_is_not_sent_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    nothing_shown: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    job_at_hold(paths)
    with monkeypatch.context() as now:
        now.setattr(decide, "GRACE_SECONDS", 0.0)
        nothing_shown(tmp_path, now)
        decision = tick.tick(paths, say=print, command=fake_command)
        assert (decision.submit, decision.cancel) == ((), ())
        assert decision.standings[POINT].state == "active"
    hold(tmp_path).unlink()
    fake_until(paths, all_done)
    check_begun_once(paths)


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("fault", ["FAKE_FAIL", "FAKE_SILENT"])
def test_a_failing_point_is_not_tried_again_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    paths = start_fake(tmp_path, monkeypatch, **{fault: POINT})
    decision = fake_until(paths, at_rest)
    assert tick.failed(decision) == {POINT: "failed"}
    assert len(attempts(StagePaths(paths.folder / POINT))) == 1
    states = {name: each.state for name, each in decision.standings.items()}
    assert sorted(states.values()) == ["again", "done", "done", "done", "done", "failed"]
    assert next(n for n, state in states.items() if state == "again").startswith(POINT)


@pytest.mark.slow
@pytest.mark.fault
def test_where_slurm_refuses_the_second_array_the_first_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    send = Packing.send

    def refusing(packing: Packing, jobs: Sequence[Callable[[], str]], call: Call) -> str:
        if any(Path(getattr(job, "folder", "")).name == POINT for job in jobs):
            raise ValueError("sbatch: error: Invalid job array specification")
        return send(packing, jobs, call)

    monkeypatch.setattr(Packing, "send", refusing)
    with pytest.raises(ValueError, match="it said: sbatch: error: Invalid job array specification"):
        start_fake(tmp_path, monkeypatch)
    wait_until(lambda: not cluster.squeue(), what="an empty queue")
    paths = run_paths(config.load("smoke", [f"run_root='{tmp_path}'", *SLURM]))
    assert all(batch.void for batch in submissions.read(paths.submissions).batches.values())
