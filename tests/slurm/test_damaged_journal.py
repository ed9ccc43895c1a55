"""Journals of live sweeps that lost lines, to a disk, a copy or a hand: each stage still runs once,
and the sweep can be cancelled, whatever is left of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from sweeps.slurm import recover, submissions, tick
from sweeps.slurm.submissions import JobBatch
from tests.slurm.running import check_sent_once
from tests.support.sent import RUNNING, Queue, planned, running_on, send, submitted

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


DAMAGES = (
    *(zeros_at_the_end, zeros_over_an_intent, zeros_up_to_the_line_that_gives_the_id, another_id),
    *(no_id, a_number_for_a_line, a_byte_that_is_no_text, torn_into_the_next_line),
    *(an_older_copy, nothing_in_it, no_journal),
)
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


@pytest.mark.fault
def test_jobs_of_which_nothing_tells_what_they_run_make_way_for_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = Queue()
    paths = submitted(tmp_path, call=queue)
    nothing_in_it(paths.submissions)
    for card in paths.batch("").glob(f"*/{recover.CARD}"):
        card.write_bytes(b"\0" * card.stat().st_size)
    submitted(tmp_path, call=queue)
    said = capsys.readouterr().out
    assert "cancelled 6 jobs of which nothing tells what they run" in said, "all but the report"
    assert len(queue.active()) == 7
    check_sent_once(paths)


@pytest.mark.fault
def test_what_a_dead_driver_had_not_handed_over_is_given_up_without_its_former_id(
    paths: RunPaths,
) -> None:
    """Accounting still knows the id of its job, which somebody else has by now."""
    planned(paths, "a")
    submissions.append(paths.submissions, submissions.Allow(stages=None, code="/code"))
    batch = JobBatch(name=recover.batch_name(paths, "train"), kind="train", stages=("a",))
    submissions.append(paths.submissions, batch.intent("/code"))
    told = list[list[str]]()
    queue = running_on(told, rows="7|innocent|RUNNING|n1|0:10|N/A|None|/x.sh\n")

    def call(command: list[str]) -> str:
        accounts = f"7|{batch.name}|RUNNING|n1|0:10|Unknown|None\n"
        return accounts if command[0] == "sacct" else queue(command)

    with pytest.raises((OSError, ValueError), match="frozen code"):  # there is none to send
        tick.tick(paths, say=print, call=call)
    assert submissions.read(paths.submissions).batches[batch.name].void
    assert "scancel" not in {command[0] for command in told}
