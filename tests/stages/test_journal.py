"""Lines of a journal are believed one by one."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from fgrpo_bench.files import journal

ROWS = [{"event": "hold"}, {"event": "synced", "done": 7}, {"event": "hold", "why": "zwölf"}]


def written(path: Path) -> Path:
    for row in ROWS:
        journal.append(path, row)
    return path


def rows(path: Path) -> list[dict[str, object] | None]:
    return [line.row for line in journal.read(path)]


def test_what_was_appended_is_read_and_is_json_line_by_line(tmp_path: Path) -> None:
    path = written(tmp_path / "journal")
    assert rows(path) == ROWS
    assert [json.loads(line).keys() - {"crc"} for line in path.read_text().splitlines()] == [
        row.keys() for row in ROWS
    ]
    assert journal.read(tmp_path / "none") == []


@pytest.mark.parametrize(
    "damaged",
    [
        b"17",
        b"null",
        b"[]",
        b'"hold"',
        b'{"event": "synced", "do',
        b'{"event": "\xff"}',
        b"\0" * 512,
        b"[" * 100_000,
        b'{"event": "synced", "done": 8}',
        b'{"event": "synced", "done": 8, "crc": "00000000"}',
        b'{"event": "synced", "done": 8, "crc": 17}',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_a_damaged_line_costs_no_other(tmp_path: Path, damaged: bytes) -> None:
    path = written(tmp_path / "journal")
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], damaged, *lines[2:]]))
    assert rows(path) == [ROWS[0], None, ROWS[2]]
    assert [line.number for line in journal.read(path)] == [1, 2, 3]


def test_a_line_that_is_being_written_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "journal")
    content = path.read_bytes()
    path.write_bytes(content[:-10])
    assert rows(path) == [*ROWS[:2], None], "nobody writes on"
    monkeypatch.setattr(journal.time, "sleep", lambda seconds: path.write_bytes(content))
    assert rows(path) == ROWS


@pytest.mark.slow
def test_no_bit_that_flips_changes_what_a_line_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal.time, "sleep", lambda seconds: None)  # nobody writes on
    path = written(tmp_path / "journal")
    content = path.read_bytes()
    for at, bit in product(range(len(content)), range(8)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        assert all(row is None or row in ROWS for row in rows(path)), (at, bit)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([3], "line 3 is damaged and was passed over"),
        ([3, 5], "lines 3 and 5 are damaged and were passed over"),
        ([3, 4, 5, 9], "lines 3 to 5 and 9 are damaged and were passed over"),
        ([3, 4], "lines 3 to 4 are damaged and were passed over"),
    ],
)
def test_damaged_lines_are_named_with_their_file(numbers: list[int], said: str) -> None:
    assert journal.passed_over(Path("a/b.jsonl"), numbers) == f"a/b.jsonl: {said}"


def test_a_line_cut_short_by_a_crash_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    journal.append_line(path, {"n": 1})
    for n in (2, 3):
        with path.open("a") as file:
            file.write('{"n": 0, "half')
        assert [row["n"] for row in journal.read_lines(path)] == list(range(1, n))
        journal.append_line(path, {"n": n})
    assert [row["n"] for row in journal.read_lines(path)] == [1, 2, 3]
