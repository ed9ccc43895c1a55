"""Where a sweep stands, from its files alone: no configuration is composed, nothing is asked.

What the files say of stages, fgrpo_bench.stages.states tells. Imports stay light: this answers in a
blink.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, get_args

from fgrpo_bench.documents.terminal import aligned
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import void
from fgrpo_bench.stages.plan import StageRecord, read_plan, read_sweep
from fgrpo_bench.stages.states import StageStatus, State, driver_of, read_stages
from fgrpo_bench.stages.watch import NUMBERS, shown
from sweeps.text import counted, duration

DAMAGED: State = "damaged"


def on_slurm(paths: RunPaths) -> bool:
    """Whether the sweep was last run on SLURM."""
    if not paths.sweep_json.exists():
        return False
    return bool(read_sweep(paths).profile["dispatcher"] == "slurm")


def remade(kind: str) -> str:
    """What `run` does about a missing file of a stage of a kind."""
    from fgrpo_bench import kinds  # not before it is asked for: this answers in a blink

    return kinds.remade(kind)


def report(paths: RunPaths, warn: Callable[[str], None] = void) -> dict[str, Any]:
    """The whole answer as JSON types; `render` puts it into words.

    warn: told of damaged notes of attempts.
    """
    plan = read_plan(paths)
    stages = read_stages(paths, plan.stages, warn, remade)
    by_name = {stage.name: stage for stage in stages}
    by_point = {
        point.point_id: [
            by_name[name]
            for name in (point.train, *(checkpoint.evaluate for checkpoint in point.checkpoints))
        ]
        for point in plan.points
    }
    of_points = {stage.name for own in by_point.values() for stage in own}
    by_point |= {stage.name: [stage] for stage in stages if stage.name not in of_points}
    trained = [point.point_id for point in plan.points if point.algorithm is not None]
    counts = Counter(stage.state for stage in stages)
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "folder": str(paths.folder),
        "driver": driver_of(paths),
        "points_done": sum({s.state for s in by_point[name]} == {"done"} for name in trained),
        "points_total": len(trained),
        "draws": saved_draws(paths, plan.stages, {s.name for s in stages if s.state == "done"}),
        "stages": {state: counts[state] for state in get_args(State)},
        "points": [
            {"point_id": point_id, "stages": [_as_json(stage) for stage in of_point]}
            for point_id, of_point in by_point.items()
        ],
    }


def saved_draws(
    paths: RunPaths, records: Iterable[StageRecord], done: Container[str]
) -> dict[str, int] | None:
    """What draws that stop have saved in the evaluations that are done: how many these are, the
    draws that they use, and the most that they could have made. None where no problem stops.

    A table that cannot be read tells nothing; `check` names it.
    """
    staged = [record for record in records if record.target.get("design") and record.name in done]
    if not staged:
        return None
    from fgrpo_bench.kinds.graded import (
        draws_used,  # loads Polars: without a design nobody needs it
    )

    totals = dict.fromkeys(("evaluations", "draws", "of"), 0)
    for record in staged:
        target = record.target
        names = [name for name in target["graders"] if "/" not in name]  # not of further graders
        counts = draws_used(StagePaths(paths.folder / record.name), names)
        if counts is not None:
            totals["evaluations"] += 1
            totals["draws"] += counts.draws
            totals["of"] += counts.problems * target["n_samples"]
    return totals


def saved_words(draws: Mapping[str, int] | None) -> list[str]:
    """What is saved, in one line; none where no problem stops."""
    if not draws or not draws["of"]:
        return []
    saved = draws["of"] - draws["draws"]
    return [
        f"draws: {draws['draws']:,} in {counted(draws['evaluations'], 'finished evaluation')}; "
        f"{saved:,} of {draws['of']:,} were saved by stopping ({saved / draws['of']:.0%})"
    ]


def first_undone(states: Sequence[State]) -> State:
    """The state of several stages in a word: done where all are."""
    return next((state for state in states if state != "done"), "done")


def _as_json(stage: StageStatus) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in StageStatus.__slots__ if name != "point_id"}


def render(answer: Mapping[str, Any]) -> str:
    """The answer as a table, a row a point, and a summary."""
    columns = number_columns(point["stages"][0] for point in answer["points"])
    rows = []
    for point in answer["points"]:
        making, *judging = point["stages"]
        active = next((s for s in point["stages"] if s["state"] in ("running", "stopped")), making)
        eta = active.get("eta_seconds")
        rows.append(
            [
                point["point_id"],
                making["state"],
                first_undone([stage["state"] for stage in judging]) if judging else "",
                f"{active['step']}/{active['of']}" if active.get("of") else "",
                *(shown(name, making["numbers"]) for name in columns),
                "" if eta is None else duration(eta),
                " + ".join(str(stage["attempts"]) for stage in point["stages"]),
            ]
        )
    titles = [NUMBERS[name].column for name in columns]
    header = ["point", "train", "evaluate", "step", *titles, "left", "attempts"]
    driver_line = "no driver is running"
    if driver := answer["driver"]:
        since = driver.get("since")
        driver_line = f"driver: process {driver.get('pid')} on {driver.get('host')} since {since}"
    return framed(answer, aligned([header, *rows]), driver_line, *damaged(answer))


def framed(answer: Mapping[str, Any], lines: Sequence[str], *further: str) -> str:
    """Lines of a table, between the sweep's address and how much is done, with further lines."""
    counts = ", ".join(
        f"{count} {state}" for state, count in answer["stages"].items() if count or state != DAMAGED
    )
    return "\n".join(
        [
            f"{answer['sweep']}  experiment={answer['experiment']}  version={answer['version']}",
            f"{answer['folder']}",
            "",
            *lines,
            "",
            f"{answer['points_done']} of {counted(answer['points_total'], 'point')} done; "
            f"stages: {counts}",
            *saved_words(answer["draws"]),
            *further,
            *warnings(answer),
        ]
    )


def number_columns(stages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which of NUMBERS any of some stages has told, and the reward in any case."""
    reported = {name for stage in stages for name in stage["numbers"]}
    return [name for name in NUMBERS if name in {"reward", *reported}]


def warnings(answer: Mapping[str, Any]) -> list[str]:
    """A line a warning about a run that is not done."""
    return [
        f"warning: {point['point_id']}: {text}"
        for point in answer["points"]
        for stage in point["stages"]
        for text in stage["warnings"]
    ]


def damaged(answer: Mapping[str, Any]) -> list[str]:
    """A line a damaged stage, with its remedy."""
    return [
        f"damaged: {stage['name']}: {stage['why']}"
        for point in answer["points"]
        for stage in point["stages"]
        if stage["state"] == DAMAGED
    ]
