"""Notes of attempts: who may write what, and what is read of them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.stages import attempts as noted
from fgrpo_bench.stages.attempts import attempts, begin, end, logs, tail
from fgrpo_bench.stages.watch import Progress


@pytest.fixture
def stage(tmp_path: Path) -> StagePaths:
    return StagePaths(tmp_path / "point")


def test_an_attempt_is_noted_when_it_begins_and_when_it_ends(stage: StagePaths) -> None:
    note, log = begin(stage, driver="h:1:noon")
    with log:
        log.write(b"working\n")
    (begun,) = attempts(stage)
    assert begun == note
    assert (begun.attempt, begun.from_step, begun.outcome) == (1, None, None)
    write_json(stage.progress, Progress(step=7, of=9, eta_seconds=None).as_json())
    end(stage, note, exit_code=75, outcome="stopped", seconds=1.23456, why="disk full: /r")
    (ended,) = attempts(stage)
    assert ended.as_json().items() >= begun.as_json().items()
    assert (ended.step, ended.wall_seconds, ended.why) == (7, 1.235, "disk full: /r")
    assert tail(stage.log(1)) == ["working"]


def test_a_number_whose_note_could_not_be_written_is_given_to_nobody_else(
    stage: StagePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, value: object) -> None:
        raise OSError(errno.ENOSPC, f"cannot write {path}")

    with monkeypatch.context() as on_a_full_disk:
        on_a_full_disk.setattr(noted, "write_json", full)
        with pytest.raises(OSError, match="cannot write"):
            begin(stage, driver="h:1:noon")
    note, log = begin(stage, driver="h:1:noon")
    log.close()
    assert (note.attempt, len(attempts(stage)), len(logs(stage))) == (2, 1, 2)


def test_the_thousandth_attempt_comes_last(stage: StagePaths) -> None:
    for number in (1000, 2, 999):
        write_json(stage.attempt(number), {"attempt": number})
    assert [note.attempt for note in attempts(stage)] == [2, 999, 1000]


def test_the_tail_of_a_log_is_bounded(stage: StagePaths) -> None:
    stage.logs.mkdir(parents=True)
    stage.log(1).write_text("".join(f"line {number}\n" for number in range(10_000)))
    assert tail(stage.log(1), 15) == ["9998", "line 9999"]
