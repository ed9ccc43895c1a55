"""Showing a running sweep: a live view on a terminal, timestamped lines in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from fgrpo_bench.stages.attempts import Ending
from sweeps.overview import Overview, Running, overview, title
from sweeps.pool import Attempt, Pool, Watcher
from sweeps.text import counted, duration

LINE_SECONDS = 15.0
"""Between two summary lines in a log."""
LIVE_SECONDS = 0.5
"""Between two drawings on a terminal."""


def start_words(attempt: Attempt) -> str:
    """One line about a start."""
    again = f"  (attempt {attempt.number})" if attempt.number > 1 else ""
    return f"start   {title(attempt.stage)}{again}"


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
    """Timestamped lines, one for each start and end and a summary now and then."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._told = time.monotonic()

    def say(self, text: str) -> None:
        """A line of its own."""
        print(f"{datetime.now():%Y-%m-%d %H:%M:%S}  {text}", file=self._out, flush=True)

    def started(self, attempt: Attempt) -> None:
        """A worker was started."""
        self.say(start_words(attempt))

    def ended(self, attempt: Attempt, outcome: Ending, seconds: float) -> None:
        """A worker ended."""
        self.say(end_words(attempt, outcome, seconds))

    def tick(self, pool: Pool) -> None:
        """A summary when it is time for one."""
        if time.monotonic() - self._told >= LINE_SECONDS and pool.running:
            self._told = time.monotonic()
            self.say(summary_words(overview(pool)))


class Screen:
    """A live drawing at the bottom of a terminal; ends and failures scroll by above it."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def say(self, text: str) -> None:
        """A line above the drawing."""
        self.console.print(text, markup=False, soft_wrap=True)

    def started(self, attempt: Attempt) -> None:
        """Nothing: the drawing shows it."""

    def ended(self, attempt: Attempt, outcome: Ending, seconds: float) -> None:
        """A line above the drawing, red for a failure."""
        style = "red" if outcome == "failed" else None
        words = end_words(attempt, outcome, seconds)
        self.console.print(words, markup=False, soft_wrap=True, style=style)

    def tick(self, pool: Pool) -> None:
        """Draw again when it is time to."""
        if time.monotonic() - self._drawn >= LIVE_SECONDS:
            self._drawn = time.monotonic()
            self.live.update(draw(overview(pool)), refresh=True)


def draw(seen: Overview) -> Group:
    """The drawing: a bar of stages done and a row for each worker."""
    head = Table.grid(padding=(0, 2))
    head.add_row(
        f"{seen.points_done}/{seen.points_total} points",
        f"{seen.stages_done}/{seen.stages_total} stages",
        _bar(seen.stages_done, seen.stages_total, width=24),
        f"about {duration(seen.eta_seconds)} left",
        f"[red]{seen.failed} failed[/red]" if seen.failed else "",
    )
    rows = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("running", "step", "", "reward", "elapsed", "left"):
        rows.add_column(name, no_wrap=True)
    for worker in seen.running:
        told = worker.step is not None
        rows.add_row(
            worker.title,
            f"{worker.step}/{worker.of}" if told else "",
            _bar(worker.step, worker.of, width=16),
            "" if worker.reward is None else f"{worker.reward:.3f}",
            duration(worker.elapsed_seconds),
            "" if worker.eta_seconds is None else duration(worker.eta_seconds),
        )
    return Group(head, rows)


def _bar(completed: int | None, total: int | None, *, width: int) -> ProgressBar | str:
    if completed is None:
        return ""
    return ProgressBar(
        total=total,
        completed=completed,
        width=width,
        complete_style="green",
        finished_style="green",
    )


@contextmanager
def shown(out: TextIO) -> Iterator[Watcher]:
    """The watcher that fits where the output goes."""
    if not out.isatty():
        yield Lines(out)
        return
    screen = Screen()
    with screen.live:
        yield screen


@contextmanager
def reading(out: TextIO) -> Iterator[Callable[[int], Callable[[int], None]]]:
    """A bar of the bytes that are read, on a terminal; nothing elsewhere. Gives what is told once
    how many there are, and then of every part."""
    console = Console(file=out)
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not out.isatty()) as progress:

        def begin(total: int) -> Callable[[int], None]:
            task = progress.add_task("reading", total=total)
            return lambda part: progress.advance(task, part)

        yield begin
