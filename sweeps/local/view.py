"""Showing a running sweep: a live view on a terminal, timestamped lines in a log file."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.kinds import KINDS, Stage, train
from fgrpo_bench.stages.attempts import Ending
from fgrpo_bench.stages.states import read_progress
from sweeps import schedule
from sweeps.local.pool import Attempt, Pool, Watcher
from sweeps.text import counted, duration

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
    of: int | None = None
    reward: float | None = None
    eta_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The whole sweep at a moment."""

    points_done: int
    points_total: int
    stages_done: int
    stages_total: int
    failed: int
    running: tuple[Running, ...]
    eta_seconds: float
    """Until everything that can still be done is done."""


def title(stage: Stage) -> str:
    """A stage in words."""
    return f"{KINDS[stage.kind].noun} {stage.point_id}"


def overview(pool: Pool) -> Overview:
    """Counts, the workers' own words and the time left."""
    running = tuple(_running(pool, name) for name in pool.running)
    by_point: dict[str, list[str]] = defaultdict(list)
    for stage in pool.stages:
        by_point[stage.point_id].append(stage.name)
    trained = {stage.point_id for stage in pool.stages if stage.kind == train.NAME}
    return Overview(
        points_done=sum(pool.done.issuperset(by_point[point_id]) for point_id in trained),
        points_total=len(trained),
        stages_done=len(pool.done),
        stages_total=len(pool.stages),
        failed=len(pool.failures),
        running=running,
        eta_seconds=_eta(pool, running),
    )


def _running(pool: Pool, name: str) -> Running:
    attempt = pool.running[name]
    progress = read_progress(StagePaths(pool.paths.folder / name))
    told = Running(title=title(attempt.stage), elapsed_seconds=time.monotonic() - attempt.begun)
    if progress is None:
        return told
    return replace(
        told,
        step=progress.step,
        of=progress.of,
        reward=progress.numbers.get("reward"),
        eta_seconds=progress.eta_seconds,
    )


def _eta(pool: Pool, running: tuple[Running, ...]) -> float:
    """Of everything that can still be done."""
    kinds = {stage.name: stage.kind for stage in pool.stages}
    walls = schedule.at_present_load(pool.walls, pool.loads)
    measured = [(kinds[name], pool.seconds[name], wall) for name, wall in walls.items()]
    blocked = {failure.stage.name for failure in pool.failures}
    left = [each.stage for each in pool.running.values()]
    left += [each for each in pool.waiting.values() if not blocked.intersection(each.needs)]
    at_work = {
        name: schedule.AtWork(elapsed=worker.elapsed_seconds, left=worker.eta_seconds)
        for name, worker in zip(pool.running, running, strict=True)
    }
    return schedule.seconds_left(left, pool.seconds, measured, at_work, pool.workers)


def end_words(attempt: Attempt, outcome: Ending, seconds: float) -> str:
    """One line about an end."""
    if outcome == "failed":
        return f"FAILED  {title(attempt.stage)}  see {attempt.log}"
    return f"{outcome:<7} {title(attempt.stage)}  after {duration(seconds)}"


def summary_words(seen: Overview) -> str:
    """One line about everything."""
    words = [
        f"{seen.points_done} of {counted(seen.points_total, 'point')} done, "
        f"{seen.stages_done} of {counted(seen.stages_total, 'stage')}"
        + (f", {seen.failed} failed" if seen.failed else ""),
        *(worker_words(worker) for worker in seen.running),
        f"about {duration(seen.eta_seconds)} left",
    ]
    return "; ".join(words)


def worker_words(worker: Running) -> str:
    """One worker in a few words, e.g. `train grpo-n8-g1-s11 120/300 reward 0.312`."""
    words = [worker.title]
    if worker.step is not None:
        words.append(f"{worker.step}/{worker.of}")
    if worker.reward is not None:
        words.append(f"reward {worker.reward:.3f}")
    return " ".join(words)


class Lines:
    """Timestamped lines, one for each end and a summary now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._printed = time.monotonic()

    def say(self, text: str) -> None:
        print(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}", file=self._out, flush=True)

    def started(self, attempt: Attempt) -> None:
        if attempt.number > 1:
            self.say(f"again   {title(attempt.stage)}  (attempt {attempt.number})")

    def ended(self, attempt: Attempt, outcome: Ending, seconds: float) -> None:
        self.say(end_words(attempt, outcome, seconds))

    def tick(self, pool: Pool) -> None:
        if time.monotonic() - self._printed >= LINE_SECONDS and pool.running:
            self._printed = time.monotonic()
            self.say(summary_words(overview(pool)))


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
            self.say(end_words(attempt, outcome, seconds), "red" if outcome == "failed" else None)

    def tick(self, pool: Pool) -> None:
        if time.monotonic() - self._drawn >= LIVE_SECONDS:
            self._drawn = time.monotonic()
            self.live.update(draw(overview(pool)), refresh=True)


def draw(seen: Overview) -> Table:
    """One line: stages done and a bar of them, the time left, and what is at work as far as there
    is room."""
    line = Table.grid(padding=(0, 2), expand=True)
    for _ in range(4):
        line.add_column(no_wrap=True)
    line.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    line.add_row(
        f"{seen.stages_done}/{seen.stages_total} stages",
        _bar(seen.stages_done, seen.stages_total, width=20),
        f"about {duration(seen.eta_seconds)} left",
        f"[red]{seen.failed} failed[/red]" if seen.failed else "",
        "; ".join(map(worker_words, seen.running)),
    )
    return line


def _bar(completed: int, total: int, *, width: int) -> ProgressBar:
    bar = ProgressBar(total=total, completed=completed, width=width)
    bar.complete_style = bar.finished_style = "green"
    return bar


@contextmanager
def shown(out: TextIO) -> Iterator[Watcher]:
    """The watcher that fits where the output goes."""
    if not out.isatty():
        yield Lines(out)
        return
    screen = Screen()
    with screen.live:
        yield screen
