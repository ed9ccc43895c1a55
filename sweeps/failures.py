"""Why a stage failed, in the words of its log: what `status` shows beneath its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fgrpo_bench.stages.paths import RunPaths, StagePaths
from sweeps.logs import latest_log
from sweeps.text import printable

LAST_LINES = 3
"""Lines of a failed stage's log that are shown."""
SHOWN_BYTES = 8192
"""How much of a log's end is read for them."""


def with_last_lines(paths: RunPaths, found: Mapping[str, Any]) -> dict[str, Any]:
    """A status (as of sweeps.status.report) with `log` and `last_lines` at every failed stage."""
    points = [
        point | {"stages": [_with_lines(paths, stage) for stage in point["stages"]]}
        for point in found["points"]
    ]
    return {**found, "points": points}


def _with_lines(paths: RunPaths, stage: dict[str, Any]) -> dict[str, Any]:
    if stage["state"] != "failed":
        return stage
    try:
        log = latest_log(StagePaths(paths.folder / stage["name"]))
    except FileNotFoundError:
        return stage | {"log": None, "last_lines": []}
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - SHOWN_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    said = [printable(line) for line in lines if line.strip()]
    return stage | {"log": str(log), "last_lines": said[-LAST_LINES:]}


def render(found: Mapping[str, Any]) -> str:
    """The last lines of every failed stage; empty where none failed."""
    blocks = [
        "\n".join(
            [
                "",
                f"failed: {stage['kind']} of {point['point_id']}",
                *(f"  | {line}" for line in stage["last_lines"]),
                f"  {stage['log'] or 'it was never started'}",
            ]
        )
        for point in found["points"]
        for stage in point["stages"]
        if "last_lines" in stage
    ]
    return "".join(f"{block}\n" for block in blocks)
