"""What `status` says of failed stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fgrpo_bench.files.paths import RunPaths, StagePaths
from sweeps import status
from sweeps.text import printable

NAME = "grpo-n4-g0-s11"


def status_of(state: str) -> dict[str, Any]:
    return {
        "points": [{"point_id": NAME, "stages": [{"name": NAME, "kind": "train", "state": state}]}]
    }


def failed(root: Path, *texts: str) -> dict[str, Any]:
    paths = RunPaths(root=root, sweep="smoke", experiment="tiny", version="v1")
    folder = StagePaths(paths.folder / NAME).logs
    for number, text in enumerate(texts, 1):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"attempt-{number:02d}.log").write_text(text)
    return status.with_last_lines(paths, status_of("failed"))


def test_the_last_lines_of_the_newest_log_are_shown(tmp_path: Path) -> None:
    found = failed(tmp_path, "old\n", "one\ntwo\n\nthree\ntraining failed: ValueError: why\n")
    stage = found["points"][0]["stages"][0]
    assert stage["last_lines"] == ["two", "three", "training failed: ValueError: why"]
    text = status.render_failures(found)
    assert f"failed: train of {NAME}\n  | two\n" in text and text.endswith("attempt-02.log\n")


def test_a_log_cannot_drive_the_terminal(tmp_path: Path) -> None:
    found = failed(tmp_path, "\x1b]0;title\x07\x1b[2J" + "x" * 9000)
    (line,) = found["points"][0]["stages"][0]["last_lines"]
    assert line.isprintable() and len(line) == 200
    assert printable("a\x1b[31mb\tc") == "a [31mb c"


def test_a_failed_stage_without_a_log_is_named_too(tmp_path: Path) -> None:
    assert "it was never started" in status.render_failures(failed(tmp_path))


def test_nothing_is_added_where_nothing_failed(tmp_path: Path) -> None:
    paths = RunPaths(root=tmp_path, sweep="smoke", experiment="tiny", version="v1")
    found = status.with_last_lines(paths, status_of("running"))
    assert found == status_of("running") and status.render_failures(found) == ""
