"""The shapes of stored JSON files that are no records (fgrpo_bench.stages.records): which fields a
reader may rely on, and of which type.

A shape is a type; a list of one shape, for a list of such values; a tuple of shapes, for any of
them; or a dict of shapes by key, of which `name?` may be missing and `*` stands for every key. Keys
that no shape names are nobody's business: other versions write them.
"""

from __future__ import annotations

from types import UnionType
from typing import Any

from fgrpo_bench.stages.records import NAMES, Misfit

Shape = type | UnionType | list[Any] | dict[str, Any] | tuple[Any, ...]
NUMBER = int | float

DESIGN = ({"stages": [int], "enough": int, "lacking?": {"*": int}}, type(None))
SPEC = {"kind": str, "fingerprint": str, "target": dict}
EVALUATION = SPEC | {
    "identity": {"sampling?": {"task?": (dict, type(None))}},
    "evaluation": {"benchmarks": {"*": dict}, "n_samples": int, "ks": [int], "design?": DESIGN},
    "data": {"*": str},
}
"""The spec of an evaluation."""
CONFIG = dict.fromkeys(
    (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
        "vocab_size",
        "max_position_embeddings",
    ),
    int,
) | {"rope_theta": NUMBER}
"""config.json of a checkpoint of the embedded engine."""
TOKENIZER = {"model": {"vocab": {"*": int}}}
STEP_ROW = {"step": int, "time_ms": int, "seconds": NUMBER, "tokens": int}
"""Of a line of a training run's step_rows, what there must be."""
NOTE = {
    "attempt": int,
    "begun?": str,
    "driver?": str,
    "job_id?": str | None,
    "batch?": str | None,
    "node?": str,
    "from_step?": int | None,
    "exit_code?": int,
    "outcome?": str,
    "step?": int | None,
    "wall_seconds?": NUMBER,
    "why?": str,
}
"""An attempt's note, logs/attempt-001.json."""
PLAN = {
    "points": [
        {
            "point_id": str,
            "algorithm": str | None,
            "group_size": int | None,
            "focal_gamma": NUMBER | None,
            "learning_rate_factor?": NUMBER,
            "seed": int,
            "train": str,
            "checkpoints": [{"step": int, "evaluate": str, "likelihood?": str}],
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
PROFILE = {"declaration": {"profile": {"dispatcher": str}}}
"""Of sweep.json, what there must be to go on with a sweep."""
DECLARED = {"question": str | None, "declaration": str | None, "plan": str | None}
"""Digests of what a sweep declares: its question with the comparisons that this names, all its
settings, and plan.json; None where none is recorded."""
SWEEP = {
    "declaration": {
        "sweep": {
            "name": str,
            "question": str,
            "family?": (
                {
                    "pairs?": ([str], type(None)),
                    "cells?": [{"new": str, "old": str}],
                    "ks?": ([int], type(None)),
                    "columns?": ([str], type(None)),
                },
                type(None),
            ),
        },
        "experiment": {
            "name": str,
            "train": {
                "model?": ({"name": str}, type(None)),
                "pretrained?": ({"name": str}, type(None)),
            },
            "evaluation": {
                "benchmarks": {"*": ({"domain?": str}, type(None))},
                "ks": [int],
                "n_samples": int,
                "design?": DESIGN,
            },
        },
        "algorithms?": {"*": dict},
        "profile": {"dispatcher": str},
    },
    "created": str,
    "versions": {"*": str | None},
    "families?": [
        {
            "declared": str,
            "family": str,
            "question": str,
            "comparisons": int,
            "sha256": str,
            "trained": int,
        }
    ],
    "first?": DECLARED,
}
"""families: what was declared to be the question, in order: when, the family in words, the question
as it was put, how many comparisons, their digest (analysis.question.Family.sha256), and how many
training runs had finished by then. first: of the first time that the sweep was frozen."""


def misfit(value: Any, shape: Shape, where: str = "") -> str | None:
    """In which way a parsed value is not of a shape, for a person; None where it is."""
    if isinstance(shape, tuple):
        faults = [misfit(value, each, where) for each in shape]
        return None if None in faults else faults[0]
    if isinstance(shape, dict):
        return _misfit_of_dict(value, shape, where)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return _other(value, NAMES[list], where)
        parts = ((each, shape[0], f"{where}[{number}]") for number, each in enumerate(value))
        return next(filter(None, (misfit(*part) for part in parts)), None)
    if isinstance(value, shape) and (shape is bool or not isinstance(value, bool)):
        return None
    name = NAMES[float] if shape == NUMBER else NAMES.get(shape, str(shape))
    return _other(value, name, where)


def _misfit_of_dict(value: Any, shape: dict[str, Any], where: str) -> str | None:
    if not isinstance(value, dict):
        return _other(value, NAMES[dict], where)
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
    return str(Misfit(value, wanted).within(where))
