"""How much a packed file holds, read before its content: some kB of Parquet or of a ZIP archive may
become gigabytes in memory.

In: a file of somebody's. Out: nothing, or a ValueError that states the limit. What the file says of
itself is believed here; `check_unpacked` is also for what came of it, before more is made of that.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import ZipFile

MOST_BYTES, MOST_TIMES = 256 << 20, 100
"""What a file may hold unpacked: this many bytes, or so many times its own size if that is more.
Text is packed to a tenth or so."""
FOOTER = 8
"""Bytes at the end of a Parquet file: the length of its metadata, and its mark."""


def check_unpacked(path: Path, unpacked: int) -> None:
    """ValueError where a file of its size holds too much. unpacked: bytes."""
    packed = path.stat().st_size
    if unpacked > max(MOST_BYTES, MOST_TIMES * packed):
        raise ValueError(
            f"{path} has {packed:,} bytes and holds {unpacked:,} unpacked, more than "
            f"{MOST_BYTES >> 20} MiB and than {MOST_TIMES} times its size: nothing of it is read; "
            "unpack it yourself where you trust it, and give the rows as JSON Lines"
        )


def check_zip(path: Path, archive: ZipFile, beginning: str = "") -> None:
    """The same of the members of an archive whose names begin so. zipfile reads no more of a member
    than its size in the archive's directory."""
    members = (member for member in archive.infolist() if member.filename.startswith(beginning))
    check_unpacked(path, sum(member.file_size for member in members))


def check_parquet(path: Path) -> None:
    """The same of the columns of a Parquet file; ValueError too where that has no metadata."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - FOOTER, 0))
        footer = file.read()
        length = int.from_bytes(footer[:4], "little")
        if footer[4:] != b"PAR1" or length > size - FOOTER:
            raise ValueError(f"{path} is no whole Parquet file: fetch it again")
        file.seek(size - FOOTER - length)
        metadata = file.read(length)
    try:
        groups = _struct(metadata, 0)[0].get(4, [])
        unpacked = sum(group[2] for group in groups)
    except (LookupError, TypeError, AttributeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path} is no readable Parquet file: fetch it again") from error
    check_unpacked(path, unpacked)


# The metadata is a struct of Thrift's compact protocol
# (github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md): its field 4 is the
# list of row groups, of which field 2 is the size of all columns unpacked
# (github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift).
BOOLEANS, BYTE, DOUBLE, BINARY, LISTS, MAP, STRUCT = (1, 2), 3, 7, 8, (9, 10), 11, 12


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by number, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while header := data[at]:
        at += 1
        if header >> 4:
            number += header >> 4
        else:
            number, at = _integer(data, at)
        kind = header & 15
        if kind in BOOLEANS:  # the value is the kind
            fields[number] = kind == BOOLEANS[0]
        else:
            fields[number], at = _value(data, at, kind)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == STRUCT:
        return _struct(data, at)
    if kind in (*BOOLEANS, BYTE):  # of a list
        return data[at], at + 1
    if kind == DOUBLE:
        return data[at + 7] and None, at + 8
    if kind == BINARY:
        length, at = _varint(data, at)
        return None, at + length
    if kind in LISTS:
        count, element = data[at] >> 4, data[at] & 15
        at += 1
        if count == 15:
            count, at = _varint(data, at)
        values = []
        for _ in range(count):
            value, at = _value(data, at, element)
            values.append(value)
        return values, at
    if kind == MAP:
        raise ValueError("Parquet's metadata has no maps")
    return _integer(data, at)


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        if data[at] < 128:
            return value, at + 1
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
