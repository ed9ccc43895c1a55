"""One run root, reached from machines of two clusters."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from sweeps.slurm import drive, submissions, tick
from tests.support.sent import planned, running_on, send, submitted
from tests.support.slurm_programs import CONFIG, Programs


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(root=tmp_path, sweep="smoke", experiment="e", version="v1")


def test_another_cluster_than_the_sweeps_decides_nothing_and_cancels_nothing(
    paths: RunPaths,
) -> None:
    planned(paths, "a", "b")
    send(paths, "smoke-train-1", "a", "b", begun=1.0, job_id="7", cluster="near")
    before, told = paths.submissions.read_bytes(), list[list[str]]()
    far = running_on(told, "far")
    words = (
        f"this is cluster far, and 2 stages of {paths.folder} that are not done went to cluster "
        "near, .* give this command on a machine that submits to near, or `cancel` there first"
    )
    for command in (drive.update, partial(drive.follow, seconds=0), drive.cancel):
        with pytest.raises(ValueError, match=words):
            command(paths, say=print, call=far)
    with pytest.raises(ValueError, match=words):
        drive.retry(paths, "a", say=print, call=far)
    warned: list[str] = []
    shown = drive.report(paths, warn=warned.append, call=far)
    assert shown["stages"]["waiting"] == 2 and re.search(words, warned[0])
    assert paths.submissions.read_bytes() == before
    assert {command[0] for command in told} == {"squeue", "scontrol"}
    send(paths, "smoke-train-0", "b", begun=0.5, job_id="6", cluster="far")
    send(paths, "smoke-train-2", "b", begun=2.0, job_id="8", cluster="near")
    former = running_on(told, "far", "6|smoke-train-0|CANCELLED|n1|0:10|2026-11-21T10:00:00|None\n")
    with pytest.raises(ValueError, match=words):
        tick.tick(paths, say=print, call=former)
    assert drive.cancel(paths, say=print, call=running_on(told, "near")) == 0
    assert tick.tick(paths, say=print, call=far).submit == (), "cancelled at home, it is held"


def test_a_sweep_of_which_nothing_is_left_to_run_is_bound_to_no_cluster(paths: RunPaths) -> None:
    """One stage is done, and the job of the other noted that it failed."""
    planned(paths, "a", "b")
    send(paths, "smoke-train-1", "a", "b", begun=1.0, job_id="7", cluster="near")
    write_json(paths.point("a").done, {"fingerprint": "f", "target": {}, "outputs": {}})
    note = {"attempt": 1, "job_id": "7_1", "batch": "smoke-train-1", "outcome": "stopped"}
    write_json(paths.point("b").attempt(1), note)
    with pytest.raises(ValueError, match="that is not done went to cluster near"):
        tick.tick(paths, say=print, call=running_on([], "far"))
    write_json(paths.point("b").attempt(1), note | {"outcome": "failed", "exit_code": 1})
    decision = tick.tick(paths, say=print, call=running_on([], "far"))
    assert {name: each.state for name, each in decision.standings.items()} == {
        "a": "done",
        "b": "failed",
    }


def test_where_the_journal_is_lost_the_folders_tell_the_cluster(paths: RunPaths) -> None:
    planned(paths, "a")
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7", cluster="near")
    paths.submissions.unlink()
    with pytest.raises(ValueError, match=r"this is cluster far, .* went to cluster near"):
        drive.cancel(paths, say=print, call=running_on([], "far"))
    assert not paths.submissions.exists()
    shutil.rmtree(paths.batch(""))  # as docs/guides/cluster.md says: the cluster is gone
    assert drive.cancel(paths, say=print, call=running_on([], "far")) == 0


def test_a_run_on_another_cluster_changes_no_plan_until_the_sweep_is_cancelled_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    paths = submitted(tmp_path)
    kept = (paths.plan, paths.sweep_json, paths.submissions)
    before, sent = [path.read_bytes() for path in kept], programs.elements()
    programs.install("scontrol", CONFIG.replace("near", "far"))
    with pytest.raises(ValueError, match=r"this is cluster far, and 6 stages .* cluster near"):
        submitted(tmp_path, "sweep.grid.seed=[11,12]")
    assert [path.read_bytes() for path in kept] == before
    assert programs.elements() == sent
    programs.install("scontrol", CONFIG)
    drive.cancel(paths)
    programs.install("scontrol", CONFIG.replace("near", "far"))
    submitted(tmp_path, "sweep.grid.seed=[11,12]")
    assert programs.elements() > sent
    clusters = [batch.cluster for batch in submissions.read(paths.submissions).batches.values()]
    assert set(clusters) == {None, "far"}
