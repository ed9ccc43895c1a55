"""Identity: the hash of what defines a result, and nothing else.

Each kind of stage states its own (fgrpo_bench.kinds). The git commit, the profile, library versions
and paths are recorded elsewhere, never hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from typing import Any

from fgrpo_bench.specs.base import adapter
from fgrpo_bench.specs.dataset import DatasetSpec, PretrainedSpec
from fgrpo_bench.specs.training import ModelSpec


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, no nan: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(identity: Any) -> str:
    """sha256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()


def defining(
    value: Any, fields: Collection[str] | None = None, *, without: Collection[str] = ()
) -> dict[str, Any]:
    """Fields of a spec for an identity, as plain JSON types: those that are named, or all but some.

    A field with its neutral value, which is its default, is left out, in specs within it too: so a
    field that is added with one changes no fingerprint.
    """
    dumped = adapter(type(value)).dump_python(value, mode="json", exclude_defaults=True)
    return {
        name: value
        for name, value in dumped.items()
        if name not in without and (fields is None or name in fields)
    }


LOOP = (
    *("engine", "task", "model", "warmup"),
    *("budget", "rollouts_per_step", "prompts_per_step", "steps", "updates_per_batch"),
    *("learning_rate", "lr_warmup_updates", "lr_warmup_steps", "beta1", "beta2", "weight_decay"),
    *("grad_clip", "temperature", "overlong_buffer_tokens"),
)
"""Fields of a training spec that define weights under every engine."""


def model_fields(model: ModelSpec | None) -> dict[str, Any] | None:
    """What defines the architecture of a base model that is warmed up; None without one."""
    return None if model is None else defining(model, without=("name",))


def pretrained_fields(model: PretrainedSpec) -> dict[str, Any]:
    """What defines a published model."""
    return defining(model, ("path", "revision", "trust_remote_code"))


def dataset_fields(dataset: DatasetSpec) -> dict[str, Any]:
    """What changes a dataset's prompts and golds, apart from the bytes of its source."""
    return defining(dataset, without=("expected_rows", "exact_rows", "cluster"))


def differences(old: Any, new: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(field, old value, new value) for every leaf in which two identities differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            path = f"{prefix}.{key}" if prefix else key
            yield from differences(old.get(key), new.get(key), path)
    elif old != new:
        yield prefix, old, new
