"""Journals of live sweeps that lost lines, to a disk, a copy or a hand: each stage still runs once,
and the sweep can be cancelled, whatever is left of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from sweeps.cli import main
from sweeps.slurm import recover, submissions, tick
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    all_done,
    check_begun_once,
    check_fake,
    check_sent_once,
    fake_until,
    finish_fake,
    hold,
    start_fake,
    start_held,
)
from tests.support.fake_stage import fake_command
from tests.support.sent import RUNNING, planned, running_on, send

Damage = Callable[[Path], None]


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(root=tmp_path, sweep="smoke", experiment="e", version="v1")


def line(path: Path, event: str, kind: str) -> tuple[int, int]:
    """Where the line of an event of a kind of batch begins and where the next one does."""
    content, at = path.read_bytes(), 0
    for each in content.splitlines(keepends=True):
        if f'"{event}"'.encode() in each and f"-{kind}-".encode() in each:
            return at, at + len(each)
        at += len(each)
    raise AssertionError(f"no {event} of {kind}")


def overwrite(path: Path, start: int, end: int, filling: bytes) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:start] + filling + content[end:])


def zeros_at_the_end(path: Path) -> None:
    size = path.stat().st_size
    lost = min(900, size // 2)
    overwrite(path, size - lost, size, b"\0" * lost)


def zeros_over_an_intent(path: Path) -> None:
    """And over the end of its line, so that the next line is damaged with it."""
    start, end = line(path, "intent", "train")
    overwrite(path, start, end, b"\0" * (end - start))


def zeros_up_to_the_line_that_gives_the_id(path: Path) -> None:
    """Its id survives what it is the id of."""
    start, end = line(path, "intent", "train")
    overwrite(path, start, end - 1, b"\0" * (end - start - 1))


def another_id(path: Path) -> None:
    """A bit that flipped: the line is still JSON of the right shape."""
    start, end = line(path, "submitted", "train")
    number = path.read_bytes()[start:end].split(b'"job_id": "')[1].split(b'"')[0]
    at = path.read_bytes().index(b'"job_id": "' + number, start) + len(b'"job_id": "')
    overwrite(path, at, at + len(number), b"9" + number)


def no_id(path: Path) -> None:
    overwrite(path, *line(path, "submitted", "train"), b"")


def a_number_for_a_line(path: Path) -> None:
    overwrite(path, *line(path, "intent", "train"), b"17\n")


def a_byte_that_is_no_text(path: Path) -> None:
    start, _ = line(path, "intent", "train")
    overwrite(path, start + 20, start + 21, b"\xff")


def torn_into_the_next_line(path: Path) -> None:
    start, end = line(path, "intent", "train")
    overwrite(path, (start + end) // 2, end, b"")


def an_older_copy(path: Path) -> None:
    """All of it is sound, and what was sent last is not in it."""
    overwrite(path, line(path, "intent", "train")[0], path.stat().st_size, b"")


def nothing_in_it(path: Path) -> None:
    path.write_bytes(b"")


def no_journal(path: Path) -> None:
    path.unlink()


def no_journal_and_no_folders(path: Path) -> None:
    """Jobs that wait have lost what they are to run."""
    path.unlink()
    shutil.rmtree(path.parent / "slurm")


DAMAGES = (
    *(zeros_at_the_end, zeros_over_an_intent, zeros_up_to_the_line_that_gives_the_id, another_id),
    *(no_id, a_number_for_a_line, a_byte_that_is_no_text, torn_into_the_next_line),
    *(an_older_copy, nothing_in_it, no_journal),
)
LIVE = 3
"""Jobs that are left where one stage is held: it, its evaluation and the report."""
UNSEEN = (an_older_copy, nothing_in_it, no_journal, no_id)
"""Damages of which no line is left."""


@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_is_left_of_a_journal_what_runs_is_not_sent_again(
    paths: RunPaths, damage: Damage
) -> None:
    """Two stages are at work, of which squeue tells under the names that the folders have."""
    planned(paths, "a", "b")
    submissions.append(paths.submissions, submissions.Allow(stages=None, code="/code"))
    batch = recover.batch_name(paths, "train")
    send(paths, batch, "a", "b", begun=1.0, job_id="7")
    for index in (0, 1):
        (paths.batch(batch) / f"7_{index}_submitted.pkl").touch()
    rows = "".join(RUNNING.replace("7|smoke-train-1", f"7_{i}|{batch}") for i in (0, 1))
    damage(paths.submissions)
    called, said = list[list[str]](), list[str]()
    for _ in range(2):
        decision = tick.tick(paths, say=said.append, call=running_on(called, rows=rows))
        assert (decision.submit, decision.cancel) == ((), ())
        assert {each.state for each in decision.standings.values()} == {"active"}
    words = f"warning: {paths.submissions}: line"
    told = sum(line.startswith(words) for line in said)
    assert told == (damage not in UNSEEN), "told once, by whoever mends it"
    assert {command[0] for command in called} <= {"squeue", "sacct", "scontrol"}
    left = submissions.read(paths.submissions).batches.values()
    assert [(b.stages, b.job_id) for b in left if not b.void] == [(("a", "b"), "7")]


def live(root: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster) -> RunPaths:
    """A sweep of which one stage is held and all is done that does not wait for it."""
    root.mkdir(exist_ok=True)
    paths, _ = start_held(root, monkeypatch)
    own = partial(recover.is_own, paths)
    wait_until(lambda: sum(map(own, names(cluster))) == LIVE, what="the end of all else")
    return paths


def names(cluster: Cluster) -> list[str]:
    """Of all jobs in the queue, each as often as it has elements."""
    return sorted(cluster.squeue("-r", "--format=%j").split())


@pytest.mark.usefixtures("cluster")
@pytest.mark.fault
def test_a_live_sweep_whose_journal_is_damaged_is_told_of_and_sends_nothing_twice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = live(tmp_path, monkeypatch, cluster)
    queued = names(cluster)
    zeros_at_the_end(paths.submissions)
    capsys.readouterr()
    assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
    words = f"warning: {paths.submissions}: line"
    assert capsys.readouterr().err.count(words) == 1
    decision = tick.tick(paths, say=print, command=fake_command)
    assert decision.submit == ()
    tick.tick(paths, say=print, command=fake_command)
    assert capsys.readouterr().out.count(words) == 1, "told once, by whoever mends it"
    assert names(cluster) == queued
    finish_fake(paths)
    check_begun_once(paths)
    check_sent_once(paths)


@pytest.mark.usefixtures("cluster")
@pytest.mark.fault
def test_a_live_sweep_without_its_journal_can_be_cancelled_and_goes_on_from_its_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    """A sweep of the same name under another root is live beside it, and stays."""
    roots = tmp_path / "other", tmp_path / "lost"
    other, lost = (live(root, monkeypatch, cluster) for root in roots)
    before = names(cluster)
    no_journal_and_no_folders(lost.submissions)
    assert main(["cancel", "smoke", f"run_root={roots[1]}"]) == 0
    others = [name for name in before if recover.is_own(other, name)]
    wait_until(lambda: names(cluster) == others, what="the end of its own jobs")
    hold(roots[0]).unlink()
    hold(roots[1]).unlink()
    start_fake(roots[1], monkeypatch)
    fake_until(lost, all_done)
    check_fake(lost)
    fake_until(other, all_done)
    check_begun_once(other)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.fault
def test_jobs_of_which_nothing_tells_what_they_run_make_way_for_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
) -> None:
    paths = live(tmp_path, monkeypatch, cluster)
    nothing_in_it(paths.submissions)
    for card in paths.batch("").glob(f"*/{recover.CARD}"):
        card.write_bytes(b"\0" * card.stat().st_size)
    start_fake(tmp_path, monkeypatch)
    assert "cancelled 2 jobs of which nothing tells what they run" in capsys.readouterr().out
    finish_fake(paths)
