"""Specs as other versions of this program stored them: what is not known is passed over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fgrpo_bench import registry
from fgrpo_bench.specs.base import _adapter
from fgrpo_bench.specs.profile import LocalProfile, SlurmProfile

T = TypeVar("T")


def from_stored(cls: type[T], data: Any, path: Path) -> T:
    """A spec from a stored file: unknown fields are passed over, and one that is missing takes its
    neutral value.

    path: the file. ValueError in a sentence that names file, field and rule where a field without
    such a value is missing, or holds what this version cannot take.
    """
    try:
        text, known = json.dumps(data), {"extra": "ignore"}
        value: T = _adapter(cls).validate_json(text, extra="ignore", context=known)
        return value
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"]) or "what it declares"
        rule = str(fault["msg"]).removeprefix("Value error, ")
        is_missing = fault["type"].startswith("missing")
        wrong = "is missing" if is_missing else f"is {fault['input']!r}: {rule}"
        raise ValueError(
            f"{path}: {field} {wrong}; another version of this program wrote it, or it was changed "
            "by hand: go on with that version, or with another `version=` beside it"
        ) from error


def stored_profile(declaration: Mapping[str, Any], path: Path) -> LocalProfile | SlurmProfile:
    """The profile of a stored declaration, whose plug-ins are loaded; the rest of it is not looked
    at. Raises as `from_stored`."""
    registry.load(declaration.get("plugins", ()))
    profile = declaration["profile"]
    kinds: dict[str, Any] = {"local": LocalProfile, "slurm": SlurmProfile}
    kind = kinds.get(profile.get("dispatcher", ""))
    if kind is None:
        raise ValueError(
            f"{path}: profile.dispatcher is {profile.get('dispatcher')!r}, which this version does "
            f"not have ({', '.join(kinds)}): go on with the version that wrote it"
        )
    read: LocalProfile | SlurmProfile = from_stored(kind, profile, path)
    return read
