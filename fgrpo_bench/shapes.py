"""The shapes of the stored JSON files: which fields a reader may rely on, and of which type.

A shape is a type; a list of one shape, for a list of such values; or a dict of shapes by key, of
which `name?` may be missing and `*` stands for every key. Keys that no shape names are nobody's
business: other versions write them.
"""

from __future__ import annotations

from types import UnionType
from typing import Any

Shape = type | UnionType | list[Any] | dict[str, Any]

OUTPUT = {"bytes": int, "sha256": str}
MARKER = {
    "fingerprint": str,
    "target": dict,
    "owner?": str | None,
    "outputs?": {"*": OUTPUT},
}
OWNER = {"token": str, "over": str | None}
SPEC = {"kind": str, "fingerprint": str, "target": dict}
MANIFEST = {"fingerprint": str, "weights_sha256?": str | None, "engine?": dict}
"""draws.json."""
EVENT = {
    "event": str,
    "stage": str,
    "attempt": int,
    "pid": int,
    "driver": str,
    "time": str,
    "exit_code?": int | None,
    "outcome?": str | None,
    "wall_seconds?": int | float | None,
}
"""A line of ledger.jsonl."""
PLAN = {
    "points": [
        {
            "point_id": str,
            "algorithm": str | None,
            "group_size": int | None,
            "focal_gamma": int | float | None,
            "seed": int,
            "train": str,
            "step?": int,
            "evaluate?": str,
            "checkpoints?": [{"step": int, "evaluate": str, "likelihood?": str}],
        }
    ],
    "stages": [
        {
            "name": str,
            "kind": str,
            "point_id": str,
            "environment": str,
            "fingerprint": str,
            "target": dict,
            "needs": [str],
        }
    ],
}
SWEEP = {
    "declaration": {
        "sweep": {"name": str, "question": str},
        "experiment": {"name": str, "train": dict, "evaluation": {"benchmarks": dict, "ks": list}},
        "profile": {"dispatcher": str},
    },
    "created": str,
    "versions": {"*": str | None},
}


def misfit(value: Any, shape: Shape, where: str = "") -> str | None:
    """In which way a parsed value is not of a shape, for a person; None where it is."""
    if isinstance(shape, dict):
        return _misfit_of_dict(value, shape, where)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _other(value, "a list", where)
        parts = ((each, shape[0], f"{where}[{number}]") for number, each in enumerate(value))
        return next(filter(None, (misfit(*part) for part in parts)), None)
    if isinstance(value, shape) and (shape is bool or not isinstance(value, bool)):
        return None
    return _other(value, getattr(shape, "__name__", str(shape)), where)


def _misfit_of_dict(value: Any, shape: dict[str, Any], where: str) -> str | None:
    if not isinstance(value, dict):
        return _other(value, "an object", where)
    for name, wanted in shape.items():
        key = name.removesuffix("?")
        if key == "*":
            parts = [(value[each], wanted, f"{where}.{each}") for each in value]
        elif key in value:
            parts = [(value[key], wanted, f"{where}.{key}")]
        elif name == key:
            return f"{f'{where}.{key}'.lstrip('.')} is missing"
        else:
            continue
        for part in parts:
            if (fault := misfit(*part)) is not None:
                return fault
    return None


def _other(value: Any, wanted: str, where: str) -> str:
    text = repr(value)
    shown = text if len(text) <= 60 else f"{text[:60]}..."
    return f"{where.lstrip('.') or 'it'} is {shown}, not {wanted}"
