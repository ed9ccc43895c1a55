"""Shipped sweeps, each composed once a session, and their plans under a run root of the test's."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs import Declaration, config
from sweeps.freeze import check_conflicts, freeze, run_paths
from sweeps.plan import Plan, make_plan

COMPOSED = "FGRPO_TESTS_COMPOSED"
"""Names the session's folder of composed configurations; not set outside pytest."""


@cache
def loaded(sweep: str, *overrides: str) -> Declaration:
    """A shipped sweep under the run root `runs`, as `config.load` has it.

    Hydra composes the files that are chosen, once for all values; these are set afterwards, which
    takes a tenth of the time. Where a key is not there it composes everything, and refuses.
    """
    files = tuple(override for override in overrides if _chooses_a_file(override))
    chosen = deepcopy(_composed(sweep, *files))
    try:
        for override in _parser().parse_overrides([o for o in overrides if o not in files]):
            if override.is_sweep_override() or override.is_delete():
                raise LookupError("of Hydra's own")
            name, is_new = override.key_or_group.split("."), override.is_add()
            _put(chosen, name, override.value(), is_new=is_new or override.is_force_add())
    except (LookupError, TypeError):
        return config.load(sweep, ["run_root=runs", *overrides])
    config.with_given_seeds(chosen, overrides)
    return config.validate(chosen)


def _chooses_a_file(override: str) -> bool:
    name = override.partition("=")[0]
    return "@" in name or ("." not in name and name not in ("version", "run_root"))


@cache
def _composed(sweep: str, *files: str) -> dict[str, Any]:
    """The merged configuration; the first of the session's processes that asks composes it."""
    asked = [f"sweep={sweep}", "run_root=runs", *files]
    if COMPOSED not in os.environ:
        return config.compose(asked)
    name = sha256(json.dumps(asked).encode()).hexdigest()
    path = Path(os.environ[COMPOSED]) / f"{name}.json"
    if not path.exists():
        write_json(path, config.compose(asked))
    return read_json(path)


_parser = cache(OverridesParser.create)


def _put(node: dict[str, Any], name: list[str], value: Any, *, is_new: bool) -> None:
    *path, key = name
    for place, part in enumerate(path):
        node = node.setdefault(part, {}) if is_new and place else node[part]
    if isinstance(value, dict) and isinstance(node.get(key), dict):
        node[key] = node[key] | value
    elif is_new or key in node:
        node[key] = value
    else:
        raise LookupError(key)


def shipped(group: str) -> list[str]:
    """Files of a group of conf/, without those that `fgrpo-bench new` wrote."""
    folder = config.CONF / group
    return [
        name
        for name in config.option_names(group)
        if "# Written by `fgrpo-bench new " not in (folder / f"{name}.yaml").read_text()
    ]


def is_somebodys(name: str, advantage: Any) -> bool:
    """Whether an entry of ADVANTAGES has a file to itself, as `fgrpo-bench new` writes one."""
    module: str = getattr(advantage, "function", advantage).__module__
    return module.rpartition(".")[2] == name


def planned(root: Path, sweep: str = "smoke", *overrides: str) -> tuple[RunPaths, Plan]:
    """Where a sweep would stand, and its plan; nothing is written."""
    plan = make_plan(replace(loaded(sweep, *overrides), run_root=str(root)))
    return run_paths(plan.declaration), plan


def frozen(root: Path, *overrides: str, sweep: str = "smoke") -> tuple[RunPaths, Plan]:
    """A sweep as `run` writes it before anything starts."""
    paths, plan = planned(root, sweep, *overrides)
    check_conflicts(paths, plan)
    freeze(paths, plan, nothing_to_run=False)
    return paths, plan
