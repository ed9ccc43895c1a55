"""Small files that would be gigabytes in memory are refused by what they say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import polars as pl
import pytest

from evaluators.dumps import open_dump
from fgrpo_bench.data.rows import first_rows
from fgrpo_bench.files import unpacked
from fgrpo_bench.files.unpacked import MOST_BYTES, check_parquet

LIMIT = "unpacked, more than 256 MiB and than 100 times its size: nothing of it is read"
Write = Callable[[Path], None]


def one_long_text(path: Path) -> None:
    pl.DataFrame({"question": ["y" * (MOST_BYTES + 1)], "answer": ["2"]}).write_parquet(path)


def equal_texts(path: Path) -> None:
    """Which the file has once."""
    rows = {
        "question": pl.repeat("What is 1 + 1? " * 20, 1 << 20),
        "answer": pl.repeat("2", 1 << 20),
    }
    pl.select(**rows).write_parquet(path)


def long_sample(path: Path) -> None:
    with ZipFile(path, "w", ZIP_DEFLATED) as archive, archive.open("samples/1.json", "w") as file:
        for _ in range(MOST_BYTES >> 20):
            file.write(b" " * (1 << 20))
        file.write(b"{}")


@pytest.mark.parametrize(
    ("name", "write", "read"),
    [
        pytest.param("rows.parquet", one_long_text, first_rows, marks=pytest.mark.rare),
        ("rows.parquet", equal_texts, first_rows),
        ("log.eval", long_sample, open_dump),
    ],
)
@pytest.mark.slow
def test_a_small_file_of_too_much_is_refused_with_the_limit(
    tmp_path: Path, name: str, write: Write, read: Callable[[Path], object]
) -> None:
    path = tmp_path / name
    write(path)
    assert path.stat().st_size < MOST_BYTES // 100
    with pytest.raises(ValueError, match=LIMIT):
        read(path)


def test_what_the_columns_of_a_parquet_file_hold_is_read_of_its_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(unpacked, "check_unpacked", lambda _, size: sizes.append(size))
    kinds = {
        "text": ["a" * 1000, "b", None],
        "n": [1, 2, 3],
        "x": [0.5, None, 1.5],
        "is": [True, False, None],
        "list": [["c"], [], None],
        "of": [{"d": 1}] * 3,
    }
    frame = pl.DataFrame(kinds, schema_overrides={"text": pl.String})
    path = tmp_path / "rows.parquet"
    for groups in (1, 20):
        pl.concat([frame] * groups).write_parquet(path, compression="uncompressed",
                                                  row_group_size=3)  # fmt: skip
        check_parquet(path)
    content = path.stat().st_size
    assert sizes[1] == 20 * sizes[0] and 20 * 1000 < sizes[1] < content


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"PAR1",
        lambda content: content[:-8] + b"\xff\xff\xff\x7fPAR1",
        lambda content: content[:-8] + b"\x02\x00\x00\x00PAR1",
        lambda content: b"\x19\xf7\xff\xff\xff\xff\x7f\x00" + b"\x08\x00\x00\x00PAR1",
        lambda content: b"\x49" + b"\x2c" * 4000 + b"\xa1\x0f\x00\x00PAR1",
    ],
)
def test_a_damaged_parquet_file_is_named_whatever_its_metadata_says(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"question": ["1 + 1?"], "answer": ["2"]}).write_parquet(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"rows\.parquet is no (whole|readable) Parquet file"):
        first_rows(path)
