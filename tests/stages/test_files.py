"""Files are whole or absent."""

import errno
import os
from pathlib import Path

import pytest

from fgrpo_bench.files.journal import append_line, read_lines
from fgrpo_bench.files.whole import read_json, write_json, write_many, write_whole


def test_a_failing_write_leaves_the_old_file_and_no_leftover(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def disk_fills_up(aside: Path) -> None:
        aside.write_text("half of")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(
        OSError, match=r"cannot write .*value\.json.*No space left.*again"
    ) as caught:
        write_whole(path, disk_fills_up)
    assert caught.value.errno == errno.ENOSPC
    assert read_json(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["value.json"]


def test_many_files_are_written_whole_into_folders_that_are_made(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")
    write_many(tmp_path, {"a/old": "new", "b/c/d.json": "{}\n"})
    files = {
        str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()
    }
    assert files == {"a/old": "new", "b/c/d.json": "{}\n"}


def test_one_of_many_files_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "a").write_text("no folder")
    with pytest.raises(OSError, match=r"cannot write .*/a/b: "):
        write_many(tmp_path, {"a/b": "text"})


def test_a_real_full_disk_is_named_and_loses_nothing(tmp_path):
    """/dev/full stands in for the disk: every write to it fails with the real ENOSPC."""
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def write_to_full_disk(aside: Path) -> None:
        aside.unlink()
        aside.symlink_to("/dev/full")
        aside.write_text("x" * 100_000)

    with pytest.raises(OSError, match="No space left"):
        write_whole(path, write_to_full_disk)
    assert read_json(path) == {"a": 1}


def test_no_json_is_refused_with_the_files_name(tmp_path):
    path = tmp_path / "DONE.json"
    path.write_text('{"fingerprint": ')
    with pytest.raises(ValueError, match=r"DONE\.json holds no valid JSON.*delete it"):
        read_json(path)


def test_a_line_cut_short_by_a_crash_is_passed_over(tmp_path):
    path = tmp_path / "ledger.jsonl"
    append_line(path, {"n": 1})
    with path.open("a") as file:
        file.write('{"n": 2, "half')
    assert list(read_lines(path)) == [{"n": 1}]


def test_a_line_after_a_cut_one_is_not_lost(tmp_path):
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"n": 2, "half')
    append_line(path, {"n": 3})
    assert list(read_lines(path)) == [{"n": 3}]
