"""What befalls the jobs of a sweep that only a real SLURM shows: it strikes, forgets, or is changed
under them. What is then decided is shown in test_decide.py, without one.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench import StagedDesign
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.tables import DRAWS, read_table
from sweeps.check import check
from sweeps.cli import main
from sweeps.slurm import decide, drive, recover, scheduler, submissions, tick
from sweeps.slurm.code import damage
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    LONG,
    POINT,
    RESULTS,
    all_done,
    check_begun_once,
    check_complete,
    check_draws,
    check_fake,
    fake_until,
    finish_fake,
    hold,
    job_at_hold,
    job_with_a_save,
    resumed_steps,
    saved_step,
    start,
    start_fake,
    start_held,
    until,
)
from tests.slurm.strikes import (
    Strike,
    kill_controller,
    kill_slurmd,
    lose_node,
    preempt,
    requeue,
    still,
)
from tests.support.fake_stage import fake_command
from tests.support.faults import contents
from tests.support.stages import TINY

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.fault]
SLOW = pytest.mark.slow
FULL = "No space left on device"
FILE = "sweeps/slurm/payload.py"


@pytest.mark.parametrize(
    "strike",
    [
        pytest.param(requeue, id="requeued-by-hand"),
        pytest.param(lose_node, id="node-down-and-back", marks=SLOW),
        pytest.param(kill_slurmd, id="slurmd-killed", marks=SLOW),
        pytest.param(kill_controller, id="slurmctld-killed"),
    ],
)
def test_a_job_that_is_struck_resumes_from_its_save(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    fake_results: dict[str, str],
    strike: Strike,
) -> None:
    paths, job = start_held(tmp_path, monkeypatch)
    strike(cluster, paths, job)
    finish_fake(paths)
    assert contents(paths, "**/result.json") == fake_results
    jobs = [note.job_id for note in attempts(paths.point(POINT))]
    if strike is not kill_controller:
        assert jobs == [job, job], "SLURM itself ran the job again, with no driver alive"


@pytest.mark.slow  # SLURM looks at time limits every 30 s
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


@pytest.mark.slow
def test_training_that_is_preempted_ends_with_the_same_results(
    tmp_path: Path, cluster: Cluster, results: dict[str, str]
) -> None:
    paths = start(tmp_path, *LONG)
    job, saved = job_with_a_save(paths), saved_step(paths.point(POINT))
    preempt(cluster, paths, job)
    until(paths, all_done)
    check_undisturbed(paths, cluster, results)
    assert job in {note.job_id for note in attempts(paths.point(POINT))}
    (resumed,) = resumed_steps(paths.point(POINT))
    assert resumed >= saved


def check_undisturbed(paths: RunPaths, cluster: Cluster, results: dict[str, str]) -> None:
    """Also the report, which the last job writes."""
    wait_until(lambda: not cluster.squeue(), what="the last job's end")
    check_complete(paths)
    assert contents(paths, *RESULTS) == results


@pytest.mark.slow
def test_training_that_hangs_until_its_time_limit_goes_on_from_its_save(
    tmp_path: Path, cluster: Cluster, results: dict[str, str]
) -> None:
    paths = start(tmp_path, *LONG, "profile.time_minutes=1", "profile.signal_seconds=5")
    stage = paths.point(POINT)
    job, saved = job_with_a_save(paths), saved_step(stage)
    with still(stage):
        cluster.wait_for_state(job, "TIMEOUT")
    until(paths, all_done)
    check_undisturbed(paths, cluster, results)
    resumed, *more = resumed_steps(stage)  # more than one where a minute was too short again
    assert resumed == saved
    assert more == sorted(more)
    assert len(attempts(stage)) == 2


@pytest.mark.slow
def test_an_evaluation_that_goes_on_on_another_node_asks_for_the_same_draws(
    tmp_path: Path, cluster: Cluster
) -> None:
    design = StagedDesign(stages=(64, 1024), enough=8)
    paths = start(
        tmp_path,
        *(each for each in TINY if ".evaluation." not in each and "n_digits" not in each),
        "profile.mem_gb=4",
        "experiment.evaluation.n_samples=1024",
        "experiment.evaluation.benchmarks.countdown.n_problems=256",
        "+experiment.evaluation.design={stages:[64,1024],enough:8}",
    )

    def drawing() -> list[StagePaths]:
        shards = paths.folder.glob("**/eval/*/*/countdown/shards/*.jsonl")
        return [StagePaths(path.parents[2]) for path in shards if path.stat().st_size]

    wait_until(lambda: bool(drawing()), what="an evaluation that draws")
    stage = drawing()[0]
    job = str(attempts(stage)[-1].job_id)
    node = cluster.node_of(job)
    with still(stage):  # so that it is killed in the middle of its draws
        cluster.scontrol("update", f"nodename={node}", "state=drain", "reason=test")
        cluster.scontrol("requeue", job)
        wait_until(lambda: len(attempts(stage)) > 1, what="a second attempt")
    assert cluster.node_of(job) not in ("", node)
    until(paths, all_done)
    table = read_table(stage.benchmark("countdown").draws, DRAWS)
    later = read_json(stage.done)["draws_made"]["countdown"]
    assert 0 < later < len(table), "the second attempt kept what the first had made"
    check_draws(paths, design)


def ids(paths: RunPaths) -> dict[str, int]:
    """Job ids of all batches by name."""
    batches = submissions.read(paths.submissions).batches.values()
    return {batch.name: int(batch.job_id or 0) for batch in batches}


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
def test_no_command_touches_other_peoples_jobs_that_have_the_sweeps_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """The controller lost its state and gives ids out again."""
    paths, _ = start_held(tmp_path, monkeypatch)
    first, last = min(ids(paths).values()), max(ids(paths).values())
    cluster.lose_state(next_job_id=first)
    jobs = others_jobs(cluster, first, last)
    monkeypatch.setattr(decide, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(drive, "tick", partial(tick.tick, command=fake_command))
    drive.cancel(paths)
    assert untouched(cluster, jobs)
    hold(tmp_path).unlink()
    drive.retry(paths, None)
    fake_until(paths, all_done)
    assert untouched(cluster, jobs)
    check_complete(paths)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own, 40 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match=FULL):
        while True:
            file.write(bytes(1_000_000))
    with ballast.open("ab", buffering=0) as file, pytest.raises(OSError, match=FULL):
        while True:
            file.write(bytes(512))
    return ballast


@pytest.mark.slow
def test_a_disk_that_fills_up_under_a_stage_is_named_and_nothing_is_sent_until_there_is_room(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    disk: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    paths, _ = start_held(disk, monkeypatch)
    ballast = fill(disk)
    hold(disk).unlink()
    wait_until(lambda: not cluster.squeue(), what="an empty queue")
    before = paths.submissions.read_bytes()
    capsys.readouterr()
    assert main(["tick", "smoke", f"run_root={disk}"]) == 2
    assert f"disk full: cannot write under {paths.folder}: {FULL}" in capsys.readouterr().err
    assert paths.submissions.read_bytes() == before
    assert main(["status", "smoke", f"run_root={disk}"]) == 0
    assert "disk full: " in capsys.readouterr().out
    ballast.unlink()
    fake_until(paths, all_done)
    assert "want of memory" not in capsys.readouterr().out
    check_fake(paths)


def names(cluster: Cluster) -> list[str]:
    """Of all jobs in the queue, each as often as it has elements."""
    return sorted(cluster.squeue("-r", "--format=%j").split())


def live(root: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> RunPaths:
    """A sweep of which one stage is held and all is done that does not wait for it."""
    root.mkdir(exist_ok=True)
    paths, _ = start_held(root, monkeypatch)
    own = partial(recover.has_run_tag, paths)
    wait_until(lambda: sum(map(own, names(cluster))) == 3, what="the end of all else")
    return paths


@pytest.mark.slow
def test_a_live_sweep_without_its_journal_can_be_cancelled_and_goes_on_from_its_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """A sweep of the same name under another root is live beside it, and stays."""
    roots = tmp_path / "other", tmp_path / "lost"
    other, lost = (live(root, monkeypatch, cluster) for root in roots)
    before = names(cluster)
    lost.submissions.unlink()
    shutil.rmtree(lost.batch(""))
    assert main(["cancel", "smoke", f"run_root={roots[1]}"]) == 0
    others = [name for name in before if recover.has_run_tag(other, name)]
    wait_until(lambda: names(cluster) == others, what="the end of its own jobs")
    hold(roots[0]).unlink()
    hold(roots[1]).unlink()
    start_fake(roots[1], monkeypatch)
    fake_until(lost, all_done)
    check_fake(lost)
    fake_until(other, all_done)
    check_begun_once(other)


def only_the_held_point_is_left(paths: RunPaths) -> None:
    """So that no other job is struck between its look at the code and its start."""
    job_at_hold(paths)
    others = len(read_json(paths.plan)["stages"]) - 2
    wait_until(lambda: len([*paths.folder.glob("**/DONE.json")]) == others, what="all others")


def test_nothing_is_sent_with_damaged_code_until_retry_freezes_it_anew(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fake_results: dict[str, str],
) -> None:
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    only_the_held_point_is_left(paths)
    code = str(submissions.read(paths.submissions).code)
    (Path(code) / FILE).unlink()
    hold(tmp_path).unlink()
    wait_until(lambda: any(paths.folder.glob("slurm/*/*.damaged")), what="a job that finds it")
    remedy = f"`fgrpo-bench sweep retry smoke run_root={tmp_path}` freezes the code as it is now"
    with pytest.raises(ValueError, match=f"damaged \\({FILE} is missing\\): nothing.*") as said:
        fake_until(paths, all_done)
    assert remedy in str(said.value)
    before = paths.submissions.read_bytes()
    assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert f"its code was damaged: {FILE} is missing" in capsys.readouterr().out
    (fault,) = (fault for fault in check(paths).faults if fault.name.endswith(FILE))
    assert fault.what == "is missing" and fault.remedy == remedy
    assert paths.submissions.read_bytes() == before
    monkeypatch.setattr(drive, "tick", partial(tick.tick, command=fake_command))
    assert main(["retry", "smoke", f"run_root={tmp_path}"]) == 0
    assert "the frozen code was damaged: it is frozen anew in " in capsys.readouterr().out
    fake_until(paths, all_done)
    assert damage(Path(str(submissions.read(paths.submissions).code))) == {}
    check_fake(paths)
    assert contents(paths, "**/result.json") == fake_results


POLLS = 6


class SeenEnough(Exception):
    """Ends a `follow` that would go on."""


def followed(paths: RunPaths) -> list[str]:
    """What `follow` says while it looks POLLS times."""
    polls, lines = 0, list[str]()

    def call(command: list[str]) -> str:
        nonlocal polls
        polls += command[0] == "squeue"
        if polls > POLLS:
            raise SeenEnough
        return scheduler.call(command)

    with pytest.raises(SeenEnough):
        drive.follow(paths, seconds=0.1, say=lines.append, call=call)
    return lines


def test_a_partition_that_changes_under_waiting_jobs_is_said_and_a_remedy_reaches_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = ("profile.partition=eval", "profile.signal_seconds=20")
    with cluster.drained():
        paths = start_fake(tmp_path, monkeypatch, *chosen)
        cluster.scontrol("update", "partitionname=eval", "maxtime=2")
        try:
            reason = "PartitionTimeLimit"
            wait_until(lambda: reason in cluster.squeue("--format=%r"), what=reason)
            lines = followed(paths)
            (told,) = [line for line in lines if f"SLURM says {reason}" in line]
            assert "give `run` with a lower profile.time_minutes" in told
            assert any(reason in line for line in lines if " active (" in line)
            capsys.readouterr()
            start_fake(tmp_path, monkeypatch, *chosen, "profile.time_minutes=2")
        finally:
            cluster.scontrol("update", "partitionname=eval", "maxtime=60")
        said = capsys.readouterr().out
        assert "6 jobs that waited: sent again with --time=2 in place of --time=5" in said
        waiting = cluster.squeue("--array", "--state=PENDING", "--format=%l").split()
        assert waiting == ["2:00"] * 7, "six stages and the report"
    finish_fake(paths)
    check_begun_once(paths)
