"""`logs`: the output of the latest attempt at a stage of a point; and what `status` shows of it
where that attempt failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from fgrpo_bench.command.runs import address
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.stages.attempts import attempts, logs, tail
from fgrpo_bench.stages.plan import StageRecord, read_plan
from fgrpo_bench.stages.states import read_stages
from sweeps.text import printable

FOLLOW_SECONDS = 0.3
"""Between looks for new lines."""
LAST_LINES = 3
"""Lines of a failed stage's log that `status` shows."""


def find_stage(paths: RunPaths, point_id: str, kind: str | None) -> StageRecord:
    """A stage of a point as plan.json records it; a point's warm-up is that of its seed.

    kind: None is the stage that was started last. ValueError lists near names, or the kinds there.
    """
    stages = {stage.name: stage for stage in read_plan(paths).stages}
    known = sorted({stage.point_id for stage in stages.values()})
    if point_id not in known:
        near = get_close_matches(point_id, known, n=5, cutoff=0.4) or known[:5]
        raise ValueError(
            f"unknown point {point_id!r} in {paths.folder}: near it are {', '.join(near)}; "
            f"`fgrpo-bench sweep status {address(paths)}` lists all {len(known)}"
        )
    own = {name: stage for name, stage in stages.items() if stage.point_id == point_id}
    if kind is None:
        notes = {name: attempts(StagePaths(paths.folder / name)) for name in own}
        begun = {name: max((note.begun or "" for note in notes[name]), default="") for name in own}
        last = max(reversed(own), key=begun.__getitem__)
        return own[last if begun[last] else next(iter(own))]
    needs = [need for stage in own.values() for need in stage.needs]
    for name in [*own, *needs]:
        if stages[name].kind == kind:
            return stages[name]
    kinds = ", ".join(stage.kind for stage in own.values())
    raise ValueError(f"{point_id} has no stage {kind!r}: it has {kinds}")


def others(paths: RunPaths, stage: StageRecord) -> list[str]:
    """The other kinds of stages that `find_stage` knows of a stage's point."""
    stages = {other.name: other for other in read_plan(paths).stages}
    of_point = [other for other in stages.values() if other.point_id == stage.point_id]
    needed = [stages[need] for other in of_point for need in other.needs]
    kinds = dict.fromkeys(other.kind for other in [*of_point, *needed])
    return [kind for kind in kinds if kind != stage.kind]


def latest_log(stage: StagePaths, output: Callable[[], Path | None]) -> Path:
    """The newest attempt's log; FileNotFoundError where the stage was never started.

    output: what the job of a stage without a log wrote itself; None where there is none.
    """
    written = logs(stage)
    latest = written[-1] if written else output()
    if latest is None:
        raise FileNotFoundError(
            f"{stage.folder} was never started, so it has no log; `status` tells what was"
        )
    return latest


def _outputs(paths: RunPaths) -> dict[str, Path]:
    """By stage, what its last job wrote itself; empty where none was submitted."""
    if not paths.submissions.exists():
        return {}
    from sweeps.slurm.attempts import outputs  # loads submitit, which few need

    return outputs(paths)


def read(paths: RunPaths, stage: StageRecord, *, lines: int, follow: bool) -> Iterator[str]:
    """The last lines of the latest log; then, to follow, what is appended while anybody works on
    the stage, over all its attempts."""
    folder = StagePaths(paths.folder / stage.name)

    def output() -> Path | None:
        return _outputs(paths).get(stage.name)

    log = latest_log(folder, output)
    yield f"==> {log}\n"
    with log.open(encoding="utf-8", errors="replace") as file:
        yield "".join(file.read().splitlines(keepends=True)[-lines:])
        while follow:
            follow = read_stages(paths, [stage])[0].state == "running"
            yield file.read()
            if latest_log(folder, output) != log:
                yield from read(paths, stage, lines=lines, follow=follow)
                return
            time.sleep(FOLLOW_SECONDS)


def with_last_lines(paths: RunPaths, answer: Mapping[str, Any]) -> dict[str, Any]:
    """A status (as of sweeps.status.report) with `log` and `last_lines` at every failed stage."""
    outputs = cache(lambda: _outputs(paths))
    points = [
        point | {"stages": [_with_lines(paths, stage, outputs) for stage in point["stages"]]}
        for point in answer["points"]
    ]
    return {**answer, "points": points}


def _with_lines(
    paths: RunPaths, stage: dict[str, Any], outputs: Callable[[], Mapping[str, Path]]
) -> dict[str, Any]:
    if stage["state"] != "failed":
        return stage
    try:
        folder = StagePaths(paths.folder / stage["name"])
        log = latest_log(folder, lambda: outputs().get(stage["name"]))
    except FileNotFoundError:
        return stage | {"log": None, "last_lines": []}
    lines = [printable(line) for line in tail(log) if line.strip()]
    return stage | {"log": str(log), "last_lines": lines[-LAST_LINES:]}


def render_failures(answer: Mapping[str, Any]) -> str:
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
        for point in answer["points"]
        for stage in point["stages"]
        if "last_lines" in stage
    ]
    return "".join(f"{block}\n" for block in blocks)
