"""Files of JSON lines that only grow, and journals: those each line of which is believed by itself.

{"event": "hold", "crc": "1f9a02c7"}

A journal's line carries a checksum of all else that it says. A disk that fails, a copy that broke
off or a hand that slipped damages lines, not the file: what is left of it is read, and where the
damage is can be said.
"""

from __future__ import annotations

import errno
import json
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CRC = "crc"
WRITING_SECONDS = 0.05
"""How long the last line may be seen in part while it is written."""


def append_line(path: Path, value: Any) -> None:
    """Append one JSON line and fsync it; see append_lines."""
    append_lines(path, [value], sync=True)


def append_lines(path: Path, values: Iterable[Any], *, sync: bool) -> None:
    """Append JSON lines with one write, after closing a line cut short.

    sync: whether to wait until everything in the file is on the disk. OSError names the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(handle).st_size
        start = "" if size == 0 or os.pread(handle, 1, size - 1) == b"\n" else "\n"
        lines = "".join(json.dumps(value, allow_nan=False) + "\n" for value in values)
        content = (start + lines).encode() if lines else b""
        # one write: a kill leaves at most a last line cut short, which the next append closes
        if os.write(handle, content) < len(content):  # how a full disk shows first
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if sync:
            # what follows relies on the line: after a crash it must be there
            os.fsync(handle)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot append to {path}: {error.strerror}; nothing was lost, free some space and "
            "run the same command again",
        ) from error
    finally:
        os.close(handle)


def read_lines(path: Path) -> Iterator[Any]:
    """Parsed JSON lines; one that is cut short by a crash, or damaged, is passed over."""
    for _, value in numbered_lines(path):
        if value is not None:
            yield value


def numbered_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Number, from 1, and parsed JSON of every line that holds anything; None for one that is no
    JSON or no UTF-8."""
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            value = None
        if value is not None or line:
            yield number, value


@dataclass(frozen=True, kw_only=True)
class JournalLine:
    """One line of a journal."""

    number: int
    """Counted from 1."""
    row: dict[str, Any] | None
    """What it says, without its checksum; None where it is damaged."""


def append(path: Path, row: dict[str, Any]) -> None:
    """Append one line with its checksum and sync it to disk; OSError names the file."""
    append_line(path, with_crc(row))


def read(path: Path) -> list[JournalLine]:
    """All lines that are not empty, in order; none where there is no file."""
    if not path.exists():
        return []
    content = path.read_bytes()
    if not content.endswith(b"\n"):  # torn, or somebody is writing it
        time.sleep(WRITING_SECONDS)  # once: a writer has ended by then, a torn line stays
        content = path.read_bytes()
    texts = enumerate(content.split(b"\n"), start=1)
    return [JournalLine(number=number, row=opened(text)) for number, text in texts if text]


def with_crc(row: dict[str, Any]) -> dict[str, Any]:
    """With its checksum."""
    return row | {CRC: _checksum(row)}


def opened(text: bytes) -> dict[str, Any] | None:
    """What a sealed row says, without its checksum; None where it is damaged."""
    try:
        row = json.loads(text.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    return row if row.pop(CRC, None) == _checksum(row) else None


def _checksum(row: dict[str, Any]) -> str:
    """CRC-32 of the canonical JSON, in hexadecimal."""
    return f"{zlib.crc32(json.dumps(row, sort_keys=True).encode()):08x}"


def passed_over(path: Path, numbers: Iterable[int]) -> str:
    """e.g. `submissions.jsonl: lines 3 and 7 to 9 are damaged and were passed over`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    *first, last = [" to ".join(map(str, span)) for span in spans]
    single = not first and " " not in last
    listed = f"{', '.join(first)} and {last}" if first else last
    forms = ("line", "is", "was") if single else ("lines", "are", "were")
    return f"{path}: {forms[0]} {listed} {forms[1]} damaged and {forms[2]} passed over"
