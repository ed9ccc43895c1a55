"""plan.json: the points and stages of a sweep as last run, and the format of the sweep's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fgrpo_bench.stages.files import fitting, read_json, readable_json
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.stages.shapes import PLAN

FORMAT = 1
"""Of the files in a sweep's folder. It rises when this code could no longer read what the code
before it wrote, or the other way round."""


def read_plan(paths: RunPaths) -> dict[str, Any]:
    """What plan.json says; FileNotFoundError where it is not there, ValueError where it is damaged
    or of another format."""
    plan: dict[str, Any] = read_json(paths.plan)
    _check_format(paths, plan)  # before its shape, which is another one then
    fitting(paths.plan, plan, PLAN)
    return plan


def check_format(paths: RunPaths) -> None:
    """ValueError where plan.json is of another format, with the commit whose code reads it. Nothing
    is checked where there is no plan.json, or none that is JSON."""
    plan = readable_json(paths.plan)
    if plan is not None:
        _check_format(paths, plan)


def _check_format(paths: RunPaths, plan: Mapping[str, Any]) -> None:
    if plan.get("format") == FORMAT:
        return
    commit = (readable_json(paths.sweep_json) or {}).get("git_commit")
    code = (
        f"of commit {commit}, which wrote it"
        if commit
        else f"that wrote it ({paths.sweep_json.name} names no commit)"
    )
    raise ValueError(
        f"{paths.plan} has format {plan.get('format')!r}, and this code reads format {FORMAT} "
        f"alone: go on with the code {code}, or move {paths.folder} away and run the sweep anew"
    )
