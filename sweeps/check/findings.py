"""What `check` found, as JSON types and in words, with what is to be made again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fgrpo_bench.command.runs import address
from fgrpo_bench.documents.terminal import escaped
from fgrpo_bench.files.paths import RunPaths
from sweeps.check import compare
from sweeps.check.examine import Examined
from sweeps.check.stored import DECLARATION, SHARED_DRAWS, SPEC_FILE
from sweeps.text import counted

SHOWN = 8
"""Most names that are listed."""
BEYOND = {
    "of_no_stage_of_the_plan": "not compared, of no stage of the plan",
    "in_no_record": "not compared, in no record",
}
"""What is said of files that are not the plan's."""
NOT_COMPARED = (
    "not compared: logs, locks, notes of progress and saved states; and whether the results follow "
    "from each other, which `fgrpo-bench report --verify <the report's folder>` computes"
)


def findings(examined: Examined) -> dict[str, Any]:
    """The whole answer as JSON types; `render` puts it into words."""
    records = [stage.record for stage in examined.stages]
    damaged = {each.of for each in examined.damage if not each.name.endswith(f"/{SPEC_FILE}")}
    again = [
        {"stage": stage.name, "kind": stage.record.kind}
        for stage in examined.stages
        if stage.name in damaged
    ]
    return {
        "sweep": examined.paths.sweep,
        "experiment": examined.paths.experiment,
        "version": examined.paths.version,
        "run_root": str(examined.paths.root),
        "folder": str(examined.paths.folder),
        "files": examined.n_files,
        "bytes": examined.n_bytes,
        "damaged": [{"of": d.of, "file": d.name, "fault": d.fault} for d in examined.damage],
        "rests_on_it": compare.resting(examined.damage, records),
        "to_make_again": again,
        "report_to_make_again": any(each.of != SHARED_DRAWS for each in examined.damage),
        "of_no_stage_of_the_plan": list(examined.unplanned),
        "in_no_record": list(examined.unlisted),
        "undone": [stage.name for stage in examined.stages if stage.standing == "undone"],
        "begun_again": [stage.name for stage in examined.stages if stage.standing == "begun again"],
    }


def render(answer: Mapping[str, Any]) -> str:
    """What is damaged, what rests on it, and what to do."""
    lines = [
        f"{answer['sweep']}  experiment={answer['experiment']}  version={answer['version']}",
        answer["folder"],
        "",
        f"{counted(answer['files'], 'file')} compared with their digests, "
        f"{answer['bytes'] / 1e6:.1f} MB",
    ]
    undone = [name for name in answer["undone"] if name not in _damaged(answer)]
    if undone:
        lines.append(f"not done yet: {_listed(undone)}")
    if answer["begun_again"]:
        lines.append(f"begun again and not compared: {_listed(answer['begun_again'])}")
    for key, words in BEYOND.items():
        if answer[key]:
            lines.append(f"{words}: {_listed(answer[key])}")
    if not answer["damaged"]:
        return _joined([*lines, "nothing is damaged", NOT_COMPARED])
    lines += ["", "damaged:", *(f"  {each['file']}: {each['fault']}" for each in answer["damaged"])]
    for name, above in answer["rests_on_it"].items():
        lines.append(f"  on {name} rest {_listed(above)}")
    return _joined([*lines, "", *_remedy(answer), NOT_COMPARED])


def _joined(lines: list[str]) -> str:
    return "\n".join(map(escaped, lines))


def _remedy(answer: Mapping[str, Any]) -> list[str]:
    again = answer["to_make_again"]
    parts = [f"{each['kind']} {each['stage']}" for each in again]
    stages = f"{counted(len(again), 'stage')} ({_listed(parts)}) and " if again else ""
    named = {key: answer[key] for key in ("sweep", "experiment", "version")}
    of_run = address(RunPaths(root=Path(answer["run_root"]), **named), full=True)
    if DECLARATION in _damaged(answer):
        return [f"first `fgrpo-bench sweep run {of_run}`, with the settings that it was run with"]
    if _damaged(answer) == {SHARED_DRAWS}:
        return [
            f"`fgrpo-bench check {of_run} --repair` moves these draws aside, which the "
            "sweep has as well; the next evaluation that lacks some makes them"
        ]
    return [
        f"to be made again: {stages}the report",
        f"`fgrpo-bench check {of_run} --repair` moves what is damaged aside and runs the "
        "sweep as it was declared, which makes again what is missing",
    ]


def _damaged(answer: Mapping[str, Any]) -> set[str]:
    return {each["of"] for each in answer["damaged"]}


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
