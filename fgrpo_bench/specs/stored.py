"""Specs as other versions of this program stored them: what is not known is passed over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from fgrpo_bench.specs.base import _adapter
from fgrpo_bench.specs.profile import Profile

T = TypeVar("T")


def from_stored(cls: Any, data: Any, path: Path) -> Any:
    """A spec from a stored file: unknown fields are passed over, and one that is missing takes its
    neutral value.

    path: the file. ValueError in a sentence that names file, field and rule where a field without
    such a value is missing, or holds what this version cannot take.
    """
    try:
        return _adapter(cls).validate_json(json.dumps(data), extra="ignore")
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"]) or "what it declares"
        rule = str(fault["msg"]).removeprefix("Value error, ")
        is_missing = fault["type"].startswith("missing")
        said = "is missing" if is_missing else f"is {fault['input']!r}: {rule}"
        raise ValueError(
            f"{path}: {field} {said}; another version of this program wrote it, or it was changed "
            "by hand: go on with that version, or with another `version=` beside it"
        ) from error


PLACEMENTS = ("placement", "openrlhf")
"""Names of the field of a profile that lays a run out over GPUs."""


def stored_profile(declaration: Mapping[str, Any], path: Path) -> Any:
    """The profile of a stored declaration; the rest of it is not looked at. Raises as
    `from_stored`."""
    profile = dict(declaration.get("profile") or {})
    (named,) = (name for name in PLACEMENTS if name in _fields())
    for former in PLACEMENTS:
        if former in profile:
            profile[named] = profile.pop(former)
    return from_stored(Profile, profile, path)


def stored_placement(declaration: Mapping[str, Any]) -> Any:
    """The placement to the letter, for code that was frozen with it; None where there is none."""
    profile = declaration.get("profile") or {}
    return next((profile[name] for name in PLACEMENTS if name in profile), None)


def _fields() -> set[str]:
    from fgrpo_bench.specs.profile import LocalProfile

    return set(LocalProfile.__dataclass_fields__)
