"""The record of what was said to SLURM, whole and with lines that are lost; no SLURM is asked."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import write_json
from sweeps.slurm import recover, submissions, tick
from sweeps.slurm.attempts import last_note
from sweeps.slurm.submissions import read
from tests.support.sent import RUNNING, send, stage_record


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    return RunPaths(root=tmp_path, sweep="smoke", experiment="e", version="v1")


def test_what_is_lost_of_a_batch_is_made_up_from_its_folder(paths: RunPaths) -> None:
    submissions.append(paths.submissions, submissions.Allow(stages=None, code="/code"))
    send(paths, "smoke-train-1", "a", "b", begun=1.0, job_id="7")
    whole = read(paths.submissions)
    lines = paths.submissions.read_bytes().split(b"\n")
    paths.submissions.write_bytes(b"\n".join([lines[0], b"17", *lines[2:]]))
    assert not read(paths.submissions).batches["smoke-train-1"].is_described
    told: list[str] = []
    made_up = recover.read_history(paths, told.append)
    (batch,) = made_up.batches.values()
    assert (batch.stages, batch.begun, batch.job_id) == (("a", "b"), 1.0, "7")
    assert made_up.places().keys() == whole.places().keys()
    assert made_up.attempts == {} and whole.attempts == {"a": 1, "b": 1}
    (warning,) = told
    assert warning.startswith(
        f"warning: {paths.submissions}: line 2 is damaged and was passed over"
    )
    submissions.append(paths.submissions, submissions.PassedOver(lines=(2,)))
    recover.read_history(paths, told.append)
    assert len(told) == 1


def test_a_batch_that_is_made_up_stands_where_it_was_sent(paths: RunPaths) -> None:
    """So that the last place of a stage is the one that it was sent to last."""
    for number in (1, 2, 3):
        send(paths, f"smoke-train-{number}", "a", begun=float(number), job_id=str(number))
    lines = paths.submissions.read_bytes().split(b"\n")
    paths.submissions.write_bytes(b"\n".join([*lines[:2], *lines[4:]]))
    made_up = recover.read_history(paths, print)
    assert [place.batch.name[-1] for place in made_up.places()["a"]] == ["1", "2", "3"]
    intent = replace(made_up.batches["smoke-train-2"].intent("/code"), recovered=True)
    submissions.append(paths.submissions, intent)
    written = read(paths.submissions)
    assert [place.batch.name[-1] for place in written.places()["a"]] == ["1", "2", "3"]
    assert written.attempts == {"a": 2}, "what was made up counts as no attempt"


def test_without_a_journal_the_folders_tell_batches_and_code(paths: RunPaths) -> None:
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="1")
    paths.submissions.unlink()
    (paths.batch("smoke-evaluate-2")).mkdir()
    (paths.batch("else")).mkdir()
    made_up = recover.read_history(paths, print)
    assert made_up.code == "/code"
    assert {name: batch.is_described for name, batch in made_up.batches.items()} == {
        "smoke-train-1": True,
        "smoke-evaluate-2": False,
    }


@pytest.mark.parametrize(
    "line",
    [
        {"event": "intent", "batch": "smoke-train-1"},
        {"event": "intent", "batch": "smoke-train-1", "kind": "train", "stages": "ab", "time": 1},
        {"event": "intent", "batch": "smoke-train-1", "kind": "train", "stages": [1], "time": 1},
        {"event": "submitted", "batch": "smoke-train-1", "job_id": 7},
        {"event": "uncount", "stages": None},
        {"event": "synced", "done": "7"},
        {"event": "passed_over", "lines": [[]]},
        {"event": "allow", "stages": None, "code": 7},
        {"event": "none of ours"},
        {"event": []},
        {},
    ],
    ids=str,
)
def test_a_line_of_another_shape_is_damaged(paths: RunPaths, line: dict[str, object]) -> None:
    submissions.append(paths.submissions, submissions.Hold())
    with paths.submissions.open("a") as file:
        file.write(json.dumps(line) + "\n")
    history = read(paths.submissions)
    assert history.damaged == [2]
    assert history.held and not history.batches


def test_a_card_that_is_another_batchs_or_damaged_tells_nothing(paths: RunPaths) -> None:
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="1")
    card = paths.batch("smoke-train-1") / recover.CARD
    paths.submissions.unlink()
    shutil.copytree(paths.batch("smoke-train-1"), paths.batch("smoke-train-2"))
    assert not recover.read_history(paths, print).batches["smoke-train-2"].is_described
    for content in (b"", b"17", card.read_bytes().replace(b'"a"', b'"b"')):
        card.write_bytes(content)
        assert not recover.read_history(paths, print).batches["smoke-train-1"].is_described


def test_names_of_batches_tell_run_folders_of_the_same_sweep_apart(
    paths: RunPaths, tmp_path: Path
) -> None:
    other = RunPaths(root=tmp_path / "other", sweep="smoke", experiment="e", version="v1")
    names = {recover.batch_name(paths, "train") for _ in range(100)}
    assert len(names) == 100
    assert all(recover.has_run_tag(paths, name) for name in names)
    assert not any(recover.has_run_tag(other, name) for name in names)
    assert not recover.has_run_tag(paths, "smoke-train-1f0c66a2b9"), "it carries no mark"
    (tmp_path / "link").symlink_to(tmp_path)
    linked = RunPaths(root=tmp_path / "link", sweep="smoke", experiment="e", version="v1")
    assert recover.has_run_tag(linked, recover.batch_name(paths, "report"))


def place_of(paths: RunPaths, rows: str) -> tuple[str | None, bool]:
    """The job id at which stage `a` stands, and whether squeue shows it."""

    def call(command: list[str]) -> str:
        return rows if command[0] == "squeue" else ""

    (seen,) = tick.observe(paths, [stage_record("a")], call, warn=print).stages
    assert seen.place is not None
    return seen.place.job_id, seen.queued


def test_a_stage_stands_where_something_of_it_can_still_run(paths: RunPaths) -> None:
    """Names decide: job 7 of the second row is somebody else's."""
    send(paths, "smoke-train-1", "a", begun=1.0, job_id="7")
    send(paths, "smoke-train-2", "a", begun=2.0, job_id="8")
    assert place_of(paths, "") == ("8", False)
    assert place_of(paths, RUNNING) == ("7", True)
    assert place_of(paths, RUNNING + "8|smoke-train-2|PENDING||0:00|N/A|None\n") == ("8", True)
    assert place_of(paths, "8|smoke-train-1|RUNNING|n1|0:10|N/A|None\n") == ("8", False)
    assert place_of(paths, "8|innocent|RUNNING|n1|0:10|N/A|None\n") == ("8", False)


def test_a_job_is_not_held_to_what_another_one_of_its_id_noted(tmp_path: Path) -> None:
    stage = StagePaths(tmp_path)
    write_json(stage.attempt(1), {"attempt": 1, "job_id": "7", "batch": "old"})
    assert last_note(stage, "7", "new") is None
    assert last_note(stage, "7", "old") is not None
