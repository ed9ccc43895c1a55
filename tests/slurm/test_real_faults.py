"""What befalls jobs that really train: afterwards every byte of the results is as if it had not."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from fgrpo_bench import StagedDesign
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.tables import DRAWS, read_table
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    LONG,
    POINT,
    RESULTS,
    all_done,
    check_complete,
    check_draws,
    job_with_a_save,
    resumed_steps,
    saved_step,
    start,
    until,
)
from tests.slurm.strikes import Strike, kill_slurmd, lose_node, preempt, requeue, still, warn
from tests.support.faults import contents
from tests.support.stages import TINY

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]


def check_undisturbed(paths: RunPaths, cluster: Cluster, results: dict[str, str]) -> None:
    """Also the report, which the last job writes."""
    wait_until(lambda: not cluster.squeue(), what="the last job's end")
    check_complete(paths)
    assert contents(paths, *RESULTS) == results


@pytest.mark.fault
@pytest.mark.parametrize(
    ("strike", "settings"),
    [
        pytest.param(requeue, {}, id="requeued-by-hand"),
        pytest.param(warn, {}, id="warned"),
        pytest.param(preempt, {}, id="preempted"),
        pytest.param(preempt, {"preempt_signal": False}, id="preempted-without-warning"),
        pytest.param(lose_node, {}, id="node-down-and-back"),
        pytest.param(kill_slurmd, {}, id="slurmd-killed"),
    ],
)
def test_training_that_is_struck_ends_with_the_same_results(
    tmp_path: Path,
    cluster: Cluster,
    results: dict[str, str],
    strike: Strike,
    settings: dict[str, bool],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ExitStack() as changes:
        if settings:
            changes.enter_context(cluster.changed(**settings))
        paths = start(tmp_path, *LONG)
        job, saved = job_with_a_save(paths), saved_step(paths.point(POINT))
        strike(cluster, paths, job)
        until(paths, all_done)
    check_undisturbed(paths, cluster, results)
    jobs = {note.job_id for note in attempts(paths.point(POINT))}
    # A busy machine is now and then too slow for SLURM to launch a job on, which it then holds.
    held = "SLURM could not launch it and holds it" in capsys.readouterr().out
    assert job in jobs
    assert jobs == {job} or held, "SLURM itself ran the job again, with no driver alive"
    resumed = resumed_steps(paths.point(POINT))
    if strike is kill_slurmd:
        assert resumed == [], "the second execution found everything done"
    else:
        assert len(resumed) == 1
        assert resumed[0] >= saved


@pytest.mark.fault
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


@pytest.mark.fault
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
