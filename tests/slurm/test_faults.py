"""What befalls jobs on a real SLURM, with stages that count every step they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.specs import config
from fgrpo_bench.stages.attempts import attempts
from sweeps.check import check, fix
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
    check_complete,
    fake_until,
    finish_fake,
    hold,
    logs,
    start_fake,
    start_held,
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
from tests.support.faults import contents

pytestmark = pytest.mark.usefixtures("cluster")
SLOW = pytest.mark.slow


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
        pytest.param(cancel_by_hand, {}, id="cancelled-by-hand"),
        pytest.param(restart_controller, {}, id="slurmctld-restarted", marks=SLOW),
        pytest.param(kill_controller, {}, id="slurmctld-killed"),
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
    with ExitStack() as changes:
        if settings:
            changes.enter_context(cluster.changed(**settings))
        paths, job = start_held(tmp_path, monkeypatch)
        strike(cluster, paths, job)
        finish_fake(paths)
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
    paths, job = start_held(tmp_path, monkeypatch)
    stage = paths.point(POINT)
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


@pytest.mark.slow  # SLURM looks at time limits every 30 s
@pytest.mark.fault
def test_a_stage_that_is_warned_of_its_time_limit_saves_and_goes_on_in_the_same_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_results: dict[str, str]
) -> None:
    paths, job = start_held(
        tmp_path, monkeypatch, "profile.time_minutes=1", "profile.signal_seconds=50"
    )
    stage = paths.point(POINT)
    wait_until(lambda: attempts(stage)[0].outcome is not None, what="the warning")
    finish_fake(paths)
    assert contents(paths, "**/result.json") == fake_results
    assert [(note.job_id, note.outcome) for note in attempts(stage)] == [
        (job, "stopped"),
        (job, "done"),
    ]


def damaged(paths: RunPaths) -> list[str]:
    return [fault.name for fault in check(paths).faults if fault.stage is not None]


@pytest.mark.fault
def test_a_damaged_result_is_made_again_by_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = start_fake(tmp_path, monkeypatch)
    hold(tmp_path).unlink(missing_ok=True)
    fake_until(paths, all_done)
    assert damaged(paths) == []
    result = paths.point(POINT).folder / "result.json"
    before, sent = result.read_bytes(), set(submissions.read(paths.submissions).batches)
    result.write_bytes(before.replace(b"8", b"9", 1))
    assert damaged(paths) == [f"{POINT}/result.json"]
    monkeypatch.setattr(decide, "GRACE_SECONDS", 0.0)
    fix(check(paths), print)
    start_fake(tmp_path, monkeypatch)
    fake_until(paths, all_done)
    assert damaged(paths) == [] and result.read_bytes() == before
    history = submissions.read(paths.submissions)
    stages = [
        name for batch in set(history.batches) - sent for name in history.batches[batch].stages
    ]
    assert stages == [POINT]
