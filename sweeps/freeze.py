"""Freezing a plan into its folder: sweep.json, plan.json and every spec.json."""

from __future__ import annotations

import json
import platform
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_bench.core import registry
from fgrpo_bench.engines.engine import installed
from fgrpo_bench.files.paths import RunPaths, StagePaths, between, shared_data
from fgrpo_bench.files.whole import now, read_json, readable_json, write_json, write_many
from fgrpo_bench.kinds import Stage, fetch
from fgrpo_bench.specs import Declaration, to_dict
from fgrpo_bench.stages.digests import sealed
from fgrpo_bench.stages.plan import DeclaredFamily, SweepRecord, declared_now, read_sweep
from sweeps import REPOSITORY
from sweeps.plan import Plan, make_plan, plan_record

RECORDED = ("numpy", "polars", "pydantic", "torch", "safetensors", "hydra-core", "mlflow")
"""Packages whose versions sweep.json records."""


def run_paths(declaration: Declaration) -> RunPaths:
    """Where a declaration's files stand; absolute, because stages run in another folder."""
    return RunPaths(
        root=Path(declaration.run_root).absolute(),
        sweep=declaration.sweep.name,
        experiment=declaration.experiment.name,
        version=declaration.version,
    )


def plan_over(declaration: Declaration) -> tuple[Plan, RunPaths]:
    """The plan of a declaration, and where its folder is; raises as `make_plan`."""
    return make_plan(declaration), run_paths(declaration)


def check_writable(paths: RunPaths) -> None:
    """Make the sweep's folder; OSError with the remedy where nothing can be written there."""
    try:
        paths.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=paths.folder):
            pass
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write under the run root {paths.root} ({error.strerror}: {error.filename}): "
            "name a folder that you may write, with run_root=<folder> or FGRPO_RUN_ROOT=<folder>",
        ) from error


def freeze(paths: RunPaths, plan: Plan, *, nothing_to_run: bool) -> None:
    """Write sweep.json, plan.json and every spec.json that does not say the same already, sealed.

    nothing_to_run: the results stand, so what made them (commit, versions) stays as recorded. What
    was declared first, and which families of comparisons since and when, stays recorded too.
    """
    before = read_sweep(paths) if paths.sweep_json.exists() else None
    declared: dict[str, Any] = {
        "declaration": stored_declaration(plan.declaration),
        "families": _families(paths, plan, () if before is None else before.families),
    }
    if before is None:
        record = SweepRecord(**declared, **provenance(), created=now())
    else:
        made_by = {} if nothing_to_run else provenance()
        record = replace(before, **declared, **made_by, further={})  # without the former seal
    plan_json = plan_record(plan)
    first = record.first or declared_now(record, plan_json)
    write_if_other(paths.sweep_json, sealed(replace(record, first=first).as_json()))
    _share_data(paths, plan)
    freeze_specs(paths, plan.stages)
    write_if_other(paths.plan, sealed(plan_json.as_json()))


def stored_declaration(declaration: Declaration) -> dict[str, Any]:
    """What sweep.json has of a declaration: all but the run root, which is where the file stands,
    so that a run that is moved or sent to somebody names no folder of this machine."""
    return {key: value for key, value in to_dict(declaration).items() if key != "run_root"}


def _families(
    paths: RunPaths, plan: Plan, before: tuple[DeclaredFamily, ...]
) -> tuple[DeclaredFamily, ...]:
    """What was declared before, and what is declared now where that is something else."""
    declared = DeclaredFamily(
        declared=now(),
        family=plan.family.name,
        question=plan.declaration.sweep.question,
        comparisons=len(plan.family.comparisons),
        sha256=plan.family.sha256,
        trained=len(list(paths.folder.glob("*/DONE.json"))),  # base models and datasets lie deeper
    )
    if before:
        last = before[-1]
        if replace(declared, declared=last.declared, trained=last.trained) == last:
            return before
    return (*before, declared)


def freeze_specs(paths: RunPaths, stages: Iterable[Stage]) -> None:
    """Write the spec.json of every stage that does not have it already."""
    wanted: dict[str, str] = {}
    for stage in stages:
        spec = StagePaths(paths.folder / stage.name).spec
        content = sealed(stage.spec.as_json())
        if readable_json(spec) != content:
            wanted[f"{stage.name}/{spec.name}"] = _a_line_a_field(content)
    write_many(paths.folder, wanted)


def _share_data(paths: RunPaths, plan: Plan) -> None:
    """Let the sweep's datasets be those that all sweeps share, so that none is fetched twice."""
    for stage in plan.stages:
        own = paths.folder / stage.name
        if not fetch.is_shared(stage) or own.exists():
            continue
        shared = shared_data(paths.root, own.name, stage.fingerprint)
        shared.mkdir(parents=True, exist_ok=True)
        own.parent.mkdir(parents=True, exist_ok=True)
        own.unlink(missing_ok=True)
        own.symlink_to(between(own.parent, shared), target_is_directory=True)


def _a_line_a_field(value: dict[str, Any]) -> str:
    """JSON; indenting every level takes ten times as long."""
    lines = [f" {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_if_other(path: Path, value: Any) -> None:
    """Write JSON unless the file says the same already."""
    if not path.exists() or read_json(path) != value:
        write_json(path, value)


def provenance() -> dict[str, Any]:
    """What made the results, apart from the settings, as fields of SweepRecord."""
    changed = _git("status", "--porcelain")
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": None if changed is None else bool(changed),
        "versions": {"python": platform.python_version(), **dict.fromkeys(RECORDED)}
        | installed(*RECORDED),
        "plugins": registry.record().get("plugins"),
    }


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(REPOSITORY), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
