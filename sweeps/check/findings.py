"""What `check` found, as JSON types and in words, with what it would cost to make it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgrpo_bench.kinds import Stage
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import StagePaths, default_root
from fgrpo_bench.stages.shapes import SPEC
from sweeps import cost
from sweeps.check import judge
from sweeps.check.examine import Examined
from sweeps.check.held import DECLARATION, Held
from sweeps.text import counted, duration

SHOWN = 8
"""Most names that are listed of what rests on a stage, or has no digest."""


def findings(found: Examined) -> dict[str, Any]:
    """The whole answer as JSON types; `render` puts it into words."""
    records = [held.record for held in found.held]
    again = [
        {"stage": held.name, "kind": held.record["kind"], "seconds": _seconds(found, held)}
        for held in found.held
        if judge.to_remove(held, found.damage)
    ]
    return {
        "sweep": found.paths.sweep,
        "experiment": found.paths.experiment,
        "version": found.paths.version,
        "run_root": str(found.paths.root),
        "folder": str(found.paths.folder),
        "files": found.n_files,
        "bytes": found.n_bytes,
        "damaged": [{"of": d.of, "file": d.name, "fault": d.fault} for d in found.damage],
        "rests_on_it": judge.resting(found.damage, records),
        "to_make_again": again,
        "report_to_make_again": bool(found.damage),
        "unrecorded": list(found.unrecorded),
        "undone": [held.name for held in found.held if held.standing == "undone"],
        "begun_again": [held.name for held in found.held if held.standing == "begun again"],
    }


def _seconds(found: Examined, held: Held) -> float | None:
    """At most, on one worker: what it took before, else an estimate; None where nothing tells."""
    if held.seconds is not None:
        return round(held.seconds, 1)
    try:
        spec = read_json(StagePaths(found.paths.folder / held.name).spec, SPEC)
        return round(cost.cpu_seconds(Stage(**held.record, spec=spec)), 1)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def render(found: Mapping[str, Any]) -> str:
    """What is damaged, what rests on it, and what to do."""
    lines = [
        f"{found['sweep']}  experiment={found['experiment']}  version={found['version']}",
        found["folder"],
        "",
        f"{counted(found['files'], 'file')} compared with their digests, "
        f"{found['bytes'] / 1e6:.1f} MB",
    ]
    undone = [name for name in found["undone"] if name not in _damaged(found)]
    if undone:
        lines.append(f"not done yet: {_listed(undone)}")
    if found["begun_again"]:
        lines.append(f"begun again and not compared: {_listed(found['begun_again'])}")
    if found["unrecorded"]:
        lines.append(f"no digest recorded for {_listed(found['unrecorded'])}")
    if not found["damaged"]:
        return "\n".join([*lines, "nothing is damaged"])
    lines += ["", "damaged:", *(f"  {each['file']}: {each['fault']}" for each in found["damaged"])]
    for name, above in found["rests_on_it"].items():
        lines.append(f"  on {name} rest {_listed(above)}")
    return "\n".join([*lines, "", *_remedy(found)])


def _remedy(found: Mapping[str, Any]) -> list[str]:
    again = found["to_make_again"]
    known = [each["seconds"] for each in again if each["seconds"] is not None]
    parts = [f"{each['kind']} {each['stage']}" for each in again]
    takes = f", at most {duration(sum(known))} on one worker" if known else ""
    takes += "; how long is not known of some" if len(known) < len(again) else ""
    made = f"{counted(len(again), 'stage')} ({_listed(parts)}{takes}) and " if again else ""
    address = f"{found['sweep']} experiment={found['experiment']} version={found['version']}"
    root = found["run_root"]
    if Path(root) != default_root().absolute():
        address += " " + shlex.quote(f"run_root={root}")
    if DECLARATION in _damaged(found):
        return [f"first `python -m sweeps run {address}`, with the settings that it was run with"]
    return [
        f"to be made again: {made}the report",
        f"`python -m sweeps check {address} --repair` moves what is damaged aside and makes "
        "exactly this again",
    ]


def _damaged(found: Mapping[str, Any]) -> set[str]:
    return {each["of"] for each in found["damaged"]}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
