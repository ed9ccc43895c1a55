"""Where a sweep stands, from its files alone: no configuration is composed, nothing is asked.

In: a run's folder. Out: `report` as JSON types, `render` in words, and `read`, which prints the
output of the latest attempt at a stage. Imports stay light: this answers in a blink.
Next: fgrpo_bench.stages.states, which tells what the files say; sweeps.slurm.drive, `status` there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, get_args

from fgrpo_bench.command.runs import address
from fgrpo_bench.documents.terminal import aligned
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import noop
from fgrpo_bench.stages.attempts import attempts, logs, tail
from fgrpo_bench.stages.plan import StageRecord, read_plan, read_sweep
from fgrpo_bench.stages.states import StageStatus, State, living_driver, read_stages, runs_done
from fgrpo_bench.stages.watch import NUMBERS, shown
from sweeps.text import counted, duration, printable

DAMAGED: State = "damaged"


def on_slurm(paths: RunPaths) -> bool:
    """Whether the sweep was last run on SLURM."""
    if not paths.sweep_json.exists():
        return False
    return bool(read_sweep(paths).profile["dispatcher"] == "slurm")


def _rerun_hint(kind: str) -> str:
    """What `run` does about a missing file of a stage of a kind."""
    from fgrpo_bench import kinds  # not before it is asked for: this answers in a blink

    return kinds.rerun_hint(kind)


def report(paths: RunPaths, warn: Callable[[str], None] = noop) -> dict[str, Any]:
    """The whole answer as JSON types; `render` puts it into words.

    warn: told of damaged notes of attempts.
    """
    plan = read_plan(paths)
    stages = read_stages(paths, plan.stages, warn, _rerun_hint)
    by_name = {stage.name: stage for stage in stages}
    by_point = {}
    for point in plan.points:
        names = [point.train, *(checkpoint.evaluate for checkpoint in point.checkpoints)]
        by_point[point.point_id] = [by_name[name] for name in names]
    point_stages = {stage.name for point in by_point.values() for stage in point}
    by_point |= {stage.name: [stage] for stage in stages if stage.name not in point_stages}
    n_done, n_runs = runs_done(plan.points, stages)
    counts = Counter(stage.state for stage in stages)
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "folder": str(paths.folder),
        "driver": living_driver(paths),
        "points_done": n_done,
        "points_total": n_runs,
        "draws": saved_draws(paths, plan.stages, {s.name for s in stages if s.state == "done"}),
        "stages": {state: counts[state] for state in get_args(State)},
        "points": [
            {"point_id": point_id, "stages": [_as_json(stage) for stage in listed]}
            for point_id, listed in by_point.items()
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
    totals = dict.fromkeys(("evaluations", "draws", "of"), 0)
    for record in staged:
        target = record.target
        names = [name for name in target["graders"] if "/" not in name]  # not of further graders
        counts = _draws_used(StagePaths(paths.folder / record.name), names)
        if counts is not None:
            n_problems, n_draws = counts
            totals["evaluations"] += 1
            totals["draws"] += n_draws
            totals["of"] += n_problems * target["n_samples"]
    return totals


def _draws_used(stage: StagePaths, benchmarks: Iterable[str]) -> tuple[int, int] | None:
    """Problems of these benchmarks of a done evaluation under a design, and the draws that stand
    behind their pass@k; None where a table of it cannot be read."""
    import polars as pl  # without a design nobody needs it

    from fgrpo_bench.stages.tables import N_DRAWN, PASSK, reading, scan_table

    n_problems = n_draws = 0
    try:
        for name in benchmarks:
            path = stage.benchmark(name).passk()
            with reading(path):
                # the counts of a problem are the same at every k
                smallest_k = scan_table(path, PASSK).filter(pl.col("k") == pl.col("k").min())
                counts = smallest_k.select(pl.len(), draws=N_DRAWN.sum()).collect()
            n_problems += counts["len"].item()
            n_draws += counts["draws"].item()
    except (OSError, ValueError):
        return None
    return n_problems, n_draws


def saved_lines(draws: Mapping[str, int] | None) -> list[str]:
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


def render(answer: Mapping[str, Any], width: int | None = None) -> str:
    """The answer as a table, a row a point, and a summary. width: as of `fitted`."""
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
    lines = fitted([header, *rows], titles[1:], width)
    return framed(answer, lines, driver_line, *damaged(answer))


def fitted(rows: Sequence[Sequence[str]], optional: Sequence[str], width: int | None) -> list[str]:
    """Lines of a table whose first row has the heads. Columns with one of the heads `optional` are
    left out, the last first, until it has at most `width` characters; None: any number."""
    lines, dropped = aligned(rows), list[str]()
    for head in reversed(optional):
        if width is None or max(map(len, lines)) <= width:
            break
        place = rows[0].index(head)
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
        lines, dropped = aligned(rows), [head, *dropped]
    return [*lines, f"left out: {', '.join(dropped)} (--wide shows all)"] if dropped else lines


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
            f"{answer['points_done']} of {counted(answer['points_total'], 'run')} done; "
            f"stages: {counts}",
            *saved_lines(answer["draws"]),
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


FOLLOW_SECONDS = 0.3
"""Between looks for new lines."""
LAST_LINES = 3
"""Lines of a failed stage's log that `status` shows."""


def find_stage(paths: RunPaths, point_id: str, kind: str | None) -> StageRecord:
    """A stage of a point as plan.json records it; a point's warm-up is that of its seed.

    kind: None is the stage that was started last. ValueError lists near names, or the kinds there.
    """
    stages = {stage.name: stage for stage in read_plan(paths).stages}
    point_ids = sorted({stage.point_id for stage in stages.values()})
    if point_id not in point_ids:
        near = get_close_matches(point_id, point_ids, n=5, cutoff=0.4) or point_ids[:5]
        raise ValueError(
            f"unknown point {point_id!r} in {paths.folder}: near it are {', '.join(near)}; "
            f"`fgrpo-bench sweep status {address(paths)}` lists all {len(point_ids)}"
        )
    point_stages = {name: stage for name, stage in stages.items() if stage.point_id == point_id}
    if kind is None:
        notes = {name: attempts(StagePaths(paths.folder / name)) for name in point_stages}
        begun = {
            name: max((note.begun or "" for note in notes[name]), default="")
            for name in point_stages
        }
        last = max(reversed(point_stages), key=begun.__getitem__)
        return point_stages[last if begun[last] else next(iter(point_stages))]
    needs = [need for stage in point_stages.values() for need in stage.needs]
    for name in [*point_stages, *needs]:
        if stages[name].kind == kind:
            return stages[name]
    kinds = ", ".join(stage.kind for stage in point_stages.values())
    raise ValueError(f"{point_id} has no stage {kind!r}: it has {kinds}")


def other_kinds(paths: RunPaths, stage: StageRecord) -> list[str]:
    """The other kinds of stages that `find_stage` knows of a stage's point."""
    stages = {other.name: other for other in read_plan(paths).stages}
    point_stages = [other for other in stages.values() if other.point_id == stage.point_id]
    needed = [stages[need] for other in point_stages for need in other.needs]
    kinds = dict.fromkeys(other.kind for other in [*point_stages, *needed])
    return [kind for kind in kinds if kind != stage.kind]


def _latest_log(stage: StagePaths, output: Callable[[], Path | None]) -> Path:
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
    from sweeps.slurm.recover import outputs  # loads submitit, which few need

    return outputs(paths)


def read(paths: RunPaths, stage: StageRecord, *, lines: int, follow: bool) -> Iterator[str]:
    """The last lines of the latest log; then, to follow, what is appended while anybody works on
    the stage, over all its attempts."""
    folder = StagePaths(paths.folder / stage.name)

    def output() -> Path | None:
        return _outputs(paths).get(stage.name)

    log = _latest_log(folder, output)
    yield f"==> {log}\n"
    with log.open(encoding="utf-8", errors="replace") as file:
        yield "".join(file.read().splitlines(keepends=True)[-lines:])
        while follow:
            follow = read_stages(paths, [stage])[0].state == "running"
            yield file.read()
            if _latest_log(folder, output) != log:
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
        log = _latest_log(folder, lambda: outputs().get(stage["name"]))
    except FileNotFoundError:
        return stage | {"log": None, "last_lines": []}
    lines = [printable(line) for line in tail(log) if line.strip()]
    return stage | {"log": str(log), "last_lines": lines[-LAST_LINES:]}


def render_failures(answer: Mapping[str, Any]) -> str:
    """The last lines of every failed stage; empty where none failed."""
    lines = []
    for point in answer["points"]:
        for stage in point["stages"]:
            if "last_lines" in stage:
                lines += ["", f"failed: {stage['kind']} of {point['point_id']}"]
                lines += [f"  | {line}" for line in stage["last_lines"]]
                lines.append(f"  {stage['log'] or 'it was never started'}")
    return "".join(f"{line}\n" for line in lines)
