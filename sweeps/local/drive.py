"""`run` on this machine, from a declaration to an exit code: freeze the plan, run the pool, finish.

In: a declaration. Out: 0 all done, 1 a stage failed, 128 + signal when it was stopped; refusals are
raised. A terminal gets a live view, a log file timestamped lines (the second half of this file).
What fetches the files of a sweep on SLURM runs here too, where there is a network.
Next: sweeps.local.pool, which runs stages; sweeps.reporting, which finishes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from fgrpo_bench import engines
from fgrpo_bench.data import DatasetMarker
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import noop
from fgrpo_bench.kinds import KINDS, Environment, Stage, rerun_hint
from fgrpo_bench.kinds.kind import dataset_name
from fgrpo_bench.specs import DatasetSpec, Declaration, Profile
from fgrpo_bench.stages.attempts import Ending, tail
from fgrpo_bench.stages.locks import driving, lock_holder
from fgrpo_bench.stages.markers import read_marker_as
from fgrpo_bench.stages.states import describe_damage, driver_id, read_progress
from sweeps import estimate
from sweeps.commands import (
    StageCommand,
    check_installed,
    stage_command,
    stage_environment,
    workers,
)
from sweeps.freeze import check_conflicts, check_writable, freeze, plan_over
from sweeps.local.pool import Attempt, Pool, Watcher, stop_requests
from sweeps.plan import Plan, stage_record
from sweeps.reporting import finish
from sweeps.text import counted, duration, echo, short_path

LOG_LINES = 12
"""Last lines of a failed stage's log that the end of a run shows."""

FETCHED_AT_ONCE = 4
"""Most files that are fetched at once: they share one line, and one machine that many use."""

Finish = Callable[[RunPaths, Callable[[str], None]], None]


def run(
    declaration: Declaration, *, command: StageCommand = stage_command, finish: Finish = finish
) -> int:
    """Bring a sweep as far as it goes; see the exit codes above.

    Raises ValueError or OSError where it cannot be begun: a plan that makes no sense, a folder
    that cannot be written or holds other settings, another driver at work.
    """
    plan, paths = plan_over(declaration)
    check_installed(declaration, {stage.environment for stage in plan.stages}, echo)
    check_writable(paths)
    with driving(paths):
        check_conflicts(paths, plan)

        def begin(pool: Pool) -> None:
            freeze(paths, plan, nothing_to_run=not pool.waiting)
            _say_begin(plan, pool)

        at_once = workers(declaration.profile)
        exit_code = pooled(plan, paths, plan.stages, command=command, workers=at_once, begin=begin)
        if exit_code == 0:
            finish(paths, echo)
        return exit_code


def pooled(
    plan: Plan,
    paths: RunPaths,
    stages: Sequence[Stage],
    *,
    command: StageCommand,
    workers: int,
    begin: Callable[[Pool], None] = noop,
) -> int:
    """Bring stages of a plan as far as they go, as the sweep's driver, who holds its lock; see the
    exit codes above.

    workers: at once. begin: called when what is done is known and nothing was started.
    """
    profile, seconds = plan.declaration.profile, estimate.assumed_seconds(plan)
    with stop_requests() as stop, progress_view(sys.stdout) as view:
        pool = Pool(
            paths=paths,
            stages=stages,
            seconds={stage.name: seconds[stage.name] for stage in stages},
            workers=workers,
            command=lambda stage, folder: command(stage.kind, folder, profile, stage.environment),
            environment=lambda stage: stage_environment(
                profile, paths, os.environ, fetches=KINDS[stage.kind].fetches
            ),
            driver=driver_id(lock_holder(paths.driver_lock)),
            watcher=view,
            stop=stop,
        )
        begin(pool)
        pool.run()
    if stop.signum is not None:
        done = f"{len(pool.done)} of {counted(len(pool.stages), 'stage')} done"
        echo(f"stopped: {done}, nothing is lost; run the same command again to continue")
        return stop.exit_code
    if pool.failures:
        _say_failures(pool)
        return 1
    return 0


def fetch_files(plan: Plan, paths: RunPaths, command: StageCommand) -> int:
    """Run the stages that fetch, as the sweep's driver, who holds its lock; exit code 0, or 128 +
    signal where it was stopped.

    Raises OSError where one fails, ValueError where a dataset is too small for what the points ask
    of it.
    """

    def local(kind: str, folder: Path, profile: Profile, environment: Environment) -> list[str]:
        return [sys.executable, *command(kind, folder, profile, environment)[1:]]

    stages = [stage for stage in plan.stages if KINDS[stage.kind].fetches]
    at_once = FETCHED_AT_ONCE
    exit_code = pooled(plan, paths, stages, command=local, workers=at_once) if stages else 0
    if exit_code == 1:
        missing = next(
            s.name for s in stages if not StagePaths(paths.folder / s.name).done.exists()
        )
        raise OSError(
            f"{missing} was not fetched, so nothing was submitted; its reason stands above"
        )
    if exit_code == 0:
        _check_sizes(plan, paths)
    return exit_code


def _check_sizes(plan: Plan, paths: RunPaths) -> None:
    """ValueError where a fetched dataset has fewer problems than an epoch of a point, or than its
    evaluation during training."""

    def rows(dataset: DatasetSpec) -> int:
        marker = read_marker_as(DatasetMarker, StagePaths(paths.folder / dataset_name(dataset)))
        return marker.rows

    for point in plan.points:
        try:
            engines.engine_for(point.train).check_sizes(point, rows)
        except ValueError as error:
            raise ValueError(f"{error}; nothing was submitted") from None


def _say_begin(plan: Plan, pool: Pool) -> None:
    watcher = pool.watcher
    watcher.say(f"{plan.declaration.sweep.name}: {plan.declaration.sweep.question}")
    watcher.say(f"folder {short_path(pool.paths.folder)}")
    watcher.say(
        f"{counted(len(plan.points), 'run')}, {counted(len(pool.stages), 'stage')}: "
        f"{len(pool.done)} done before, {len(pool.waiting)} to run, "
        f"{counted(pool.workers, 'worker')} at once"
    )
    for warning in plan.warnings:
        watcher.say(f"warning: {warning}")
    for stage in pool.waiting.values():
        folder = StagePaths(pool.paths.folder / stage.name)
        why = describe_damage(folder, stage_record(stage), rerun_hint, done=False)
        if why is not None:
            watcher.say(f"damaged: {stage_title(stage)}: {why}")


def _say_failures(pool: Pool) -> None:
    for failure in pool.failures:
        log = short_path(failure.log)
        print(f"\n{stage_title(failure.stage)} {failure.reason}; the end of {log}:")
        for line in tail(failure.log)[-LOG_LINES:]:
            print(f"  | {line}" if line.strip() else "")
    echo(
        f"\n{counted(len(pool.failures), 'stage')} failed, {len(pool.waiting)} that need them were "
        f"not started, {len(pool.done)} are done; mend the cause and run the same command again"
    )


LINE_SECONDS = 60.0
"""Between two summary lines in a log."""
LIVE_SECONDS = 0.5
"""Between two drawings on a terminal."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """One worker at work."""

    title: str
    """e.g. `training grpo-n8-g0.5-s11`."""
    elapsed_seconds: float
    step: int | None = None
    """None before the first word of the worker, likewise below."""
    steps: int | None = None
    reward: float | None = None
    eta_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The whole sweep at a moment."""

    stages_done: int
    stages_total: int
    failed: int
    running: tuple[Running, ...]
    eta_seconds: float
    """Until everything that can still be done is done."""


def stage_title(stage: Stage) -> str:
    """A stage in words."""
    return f"{KINDS[stage.kind].noun} {stage.point_id}"


def _overview(pool: Pool) -> Overview:
    """Counts, the workers' own words and the time left."""
    running = tuple(_running(pool, name) for name in pool.running)
    return Overview(
        stages_done=len(pool.done),
        stages_total=len(pool.stages),
        failed=len(pool.failures),
        running=running,
        eta_seconds=_eta(pool, running),
    )


def _running(pool: Pool, name: str) -> Running:
    attempt = pool.running[name]
    progress = read_progress(StagePaths(pool.paths.folder / name))
    running = Running(
        title=stage_title(attempt.stage), elapsed_seconds=time.monotonic() - attempt.begun
    )
    if progress is None:
        return running
    return replace(
        running,
        step=progress.step,
        steps=progress.of,
        reward=progress.numbers.get("reward"),
        eta_seconds=progress.eta_seconds,
    )


def _eta(pool: Pool, running: tuple[Running, ...]) -> float:
    """Of everything that can still be done."""
    kinds = {stage.name: stage.kind for stage in pool.stages}
    walls = estimate.at_mean_load(pool.walls, pool.loads)
    measured = [(kinds[name], pool.seconds[name], wall) for name, wall in walls.items()]
    blocked = {failure.stage.name for failure in pool.failures}
    remaining = [item.stage for item in pool.running.values()]
    remaining += [item for item in pool.waiting.values() if not blocked.intersection(item.needs)]
    at_work = {
        name: estimate.AtWork(elapsed=worker.elapsed_seconds, seconds_remaining=worker.eta_seconds)
        for name, worker in zip(pool.running, running, strict=True)
    }
    return estimate.remaining_seconds(remaining, pool.seconds, measured, at_work, pool.workers)


def _attempt_line(attempt: Attempt, outcome: Ending, seconds: float) -> str:
    """One line about an end."""
    if outcome == "failed":
        return f"FAILED  {stage_title(attempt.stage)}  see {attempt.log}"
    return f"{outcome:<7} {stage_title(attempt.stage)}  after {duration(seconds)}"


def summary_line(overview: Overview) -> str:
    """One line about everything."""
    parts = [
        f"{overview.stages_done} of {counted(overview.stages_total, 'stage')} done"
        + (f", {overview.failed} failed" if overview.failed else ""),
        *(_worker_summary(worker) for worker in overview.running),
        f"about {duration(overview.eta_seconds)} left",
    ]
    return "; ".join(parts)


def _worker_summary(worker: Running) -> str:
    """One worker in a few words, e.g. `train grpo-n8-g1-s11 120/300 reward 0.312`."""
    parts = [worker.title]
    if worker.step is not None:
        parts.append(f"{worker.step}/{worker.steps}")
    if worker.reward is not None:
        parts.append(f"reward {worker.reward:.3f}")
    return " ".join(parts)


class Lines:
    """Timestamped lines, one for each end and a summary now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._printed = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}", file=self._out, flush=True)

    def started(self, attempt: Attempt) -> None:
        if attempt.number > 1:
            self.say(f"again   {stage_title(attempt.stage)}  (attempt {attempt.number})")

    def ended(self, attempt: Attempt, outcome: Ending, seconds: float) -> None:
        self.say(_attempt_line(attempt, outcome, seconds))

    def tick(self, pool: Pool) -> None:
        if time.monotonic() - self._printed >= LINE_SECONDS and pool.running:
            self._printed = time.monotonic()
            self.say(summary_line(_overview(pool)))


class Screen:
    """A line at the bottom of a terminal that moves; failures scroll by above it."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def say(self, text: str, style: str | None = None) -> None:
        self.console.print(text, markup=False, soft_wrap=True, style=style)

    def started(self, attempt: Attempt) -> None:
        """Nothing: the line shows it."""

    def ended(self, attempt: Attempt, outcome: Ending, seconds: float) -> None:
        if outcome != "done":  # the line counts it
            self.say(
                _attempt_line(attempt, outcome, seconds), "red" if outcome == "failed" else None
            )

    def tick(self, pool: Pool) -> None:
        if time.monotonic() - self._drawn >= LIVE_SECONDS:
            self._drawn = time.monotonic()
            self.live.update(draw(_overview(pool)), refresh=True)


def draw(overview: Overview) -> Table:
    """One line: stages done and a bar of them, the time left, and what is at work as far as there
    is room."""
    line = Table.grid(padding=(0, 2), expand=True)
    for _ in range(4):
        line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    line.add_row(
        f"{overview.stages_done}/{overview.stages_total} stages",
        _bar(overview.stages_done, overview.stages_total, width=20),
        f"about {duration(overview.eta_seconds)} left",
        f"[red]{overview.failed} failed[/red]" if overview.failed else "",
        "; ".join(map(_worker_summary, overview.running)),
    )
    return line


def _bar(completed: int, total: int, *, width: int) -> ProgressBar:
    bar = ProgressBar(total=total, completed=completed, width=width)
    bar.complete_style = bar.finished_style = "green"
    return bar


@contextmanager
def progress_view(out: TextIO) -> Iterator[Watcher]:
    """The watcher that fits where the output goes."""
    if not out.isatty():
        yield Lines(out)
        return
    screen = Screen()
    with screen.live:
        yield screen
