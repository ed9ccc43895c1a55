"""What a stored JSON file says, as a class: whoever writes the file and whoever reads it take this.

A class of records stands beside the writer of its file. Its fields are the file's keys, in order:

    @dataclass(frozen=True, kw_only=True)
    class Output(Record):
        bytes: int
        sha256: str

A field that has a default may be missing in the file, and is left out of it where it has that
value; any other must be there. A field with the metadata NOT_STORED is no key of the file. Keys
that are no fields are kept as they are and written last, so that nothing is lost where a record is
written again. Types are what JSON has: str, int, float, bool, dict[str, T], tuple[T, ...] (a list
in the file), T | None, S | T (the first that fits), Any, and further records.

Standard library alone: importing pydantic takes longer than `status` may.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

NAMES: dict[Any, str] = {
    dict: "an object",
    list: "a list",
    str: "text",
    int: "a whole number",
    bool: "true or false",
    float: "a number",
}
"""Types as JSON's users know them."""
SHOWN = 60
"""Characters of a value that does not belong there, in a message."""
NOT_STORED = {"stored": False}
"""Metadata of a field that is no key of the file."""
Reader = Callable[[Any], Any]
"""From parsed JSON to a value of a type; raises SchemaError."""


class SchemaError(ValueError):
    """A value that is not what belongs there; its text names where it is, itself and the rule."""

    def __init__(self, value: Any, expected: str) -> None:
        super().__init__()
        text = repr(value)
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
        self._fault, self._where = f"is {shown}, not {expected}", ""

    @classmethod
    def missing(cls, name: str) -> SchemaError:
        """For a field that must be there."""
        fault = cls(None, "")
        fault._fault, fault._where = "is missing", f".{name}"
        return fault

    def within(self, part: str) -> SchemaError:
        """The same, of what the value is a part of. part: e.g. `.outputs` or `[3]`."""
        self._where = part + self._where
        return self

    def __str__(self) -> str:
        return f"{self._where.lstrip('.') or 'it'} {self._fault}"


@dataclass(frozen=True, kw_only=True)
class Record:
    """Base of the records; on its own, an object of which nothing is known."""

    further: dict[str, Any] = field(default_factory=dict, metadata=NOT_STORED)
    """Keys of the file that are no fields, in order."""

    @classmethod
    def parsed(cls, value: Any) -> Self:
        """From parsed JSON; SchemaError where it is something else."""
        record: Self = _reader(cls)(value)
        return record

    @classmethod
    def parsed_part(cls, value: Any, part: str) -> Self:
        """`parsed`, of a part of a file, which the SchemaError then names. part: e.g. `.target`."""
        try:
            return cls.parsed(value)
        except SchemaError as fault:
            raise fault.within(part) from None

    def as_json(self) -> dict[str, Any]:
        """For a JSON file."""
        stored = {}
        for name, default in _defaults(type(self)).items():
            value = getattr(self, name)
            if value != default:
                stored[name] = _plain(value)
        return stored | self.further


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return value.as_json()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _make_defaults(cls: type[Record]) -> dict[str, Any]:
    """By the fields in order; of one that must be there MISSING, which nothing equals."""
    fields = dataclasses.fields(cls)
    return {field.name: field.default for field in fields if field.metadata != NOT_STORED}


def _make_reader(kind: Any) -> Reader:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, Record):
        return _record_reader(kind)
    if kind is Any:
        return lambda value: value
    if origin is UnionType:
        readers = [_reader(argument) for argument in arguments if argument is not NoneType]
        value_reader = readers[0] if len(readers) == 1 else _either_reader(*readers)
        return _optional_reader(value_reader) if NoneType in arguments else value_reader
    if origin is dict:
        return _dict_reader(_reader(arguments[1]))
    if origin is tuple:
        return _list_reader(_reader(arguments[0]))
    return _plain_reader(kind)


def _record_reader(cls: type[Record]) -> Reader:
    hints, defaults = get_type_hints(cls), _defaults(cls)
    fields = [
        (name, _reader(hints[name]), default is dataclasses.MISSING)
        for name, default in defaults.items()
    ]

    def read(value: Any) -> Record:
        if not isinstance(value, dict):
            raise SchemaError(value, NAMES[dict])
        values = {}
        for name, reader, is_needed in fields:
            if name in value:
                try:
                    values[name] = reader(value[name])
                except SchemaError as fault:
                    raise fault.within(f".{name}") from None
            elif is_needed:
                raise SchemaError.missing(name)
        return cls(further={key: value[key] for key in value if key not in defaults}, **values)

    return read


def _optional_reader(reader: Reader) -> Reader:
    return lambda value: None if value is None else reader(value)


def _either_reader(first: Reader, other: Reader) -> Reader:
    def read(value: Any) -> Any:
        try:
            return first(value)
        except SchemaError:
            return other(value)

    return read


def _dict_reader(reader: Reader) -> Reader:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise SchemaError(value, NAMES[dict])
        parts = {}
        for key, part in value.items():
            try:
                parts[key] = reader(part)
            except SchemaError as fault:
                raise fault.within(f".{key}") from None
        return parts

    return read


def _list_reader(reader: Reader) -> Reader:
    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise SchemaError(value, NAMES[list])
        parts = []
        for number, part in enumerate(value):
            try:
                parts.append(reader(part))
            except SchemaError as fault:
                raise fault.within(f"[{number}]") from None
        return tuple(parts)

    return read


def _plain_reader(kind: type) -> Reader:
    kinds = (int, float) if kind is float else kind

    def read(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool):
            raise SchemaError(value, NAMES[kind])
        return value

    return read


_defaults: Callable[[Any], dict[str, Any]] = cache(_make_defaults)
_reader: Callable[[Any], Reader] = cache(_make_reader)
