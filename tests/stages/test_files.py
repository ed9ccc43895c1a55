"""Files are whole or absent."""

import errno
import os
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.files.whole import read_json, write_json, write_many, write_whole
from fgrpo_bench.stages.tables import read_table


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
    with pytest.raises(OSError, match=r"cannot write .*/a/old/b: "):
        write_many(tmp_path, {"a/old/b": "text"})


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


def test_a_table_of_another_version_is_named_with_the_columns_that_differ(tmp_path):
    path, schema = tmp_path / "m.parquet", pl.Schema({"step": pl.Int64, "loss": pl.Float64})
    for stored, named in (
        ({"step": [1]}, "lacks columns loss: "),
        ({"step": [1], "loss": [0.5], "kl": [0.1]}, "has further columns kl: "),
        ({"step": [1], "loss": ["0.5"]}, r"has other types of loss \(String, not Float64\): "),
        ({"loss": [0.5], "step": [1]}, "has its columns in another order, loss, step: "),
    ):
        pl.DataFrame(stored).write_parquet(path)
        with pytest.raises(ValueError, match=rf"m\.parquet {named}it was written by another ver"):
            read_table(path, schema)
