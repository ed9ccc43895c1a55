"""Processes that make runs, the longest first; a kill costs the runs in flight and nothing else.

They are spawned and hear from the driver over a pipe: when the driver dies, however it dies, they
end at their next word. Two drivers cannot spoil a run: its files are a function of its spec, and
each is written whole.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from fgrpo_bench.simulation.plan import RUN, cost, masses
from fgrpo_bench.simulation.settings import Run, Settings
from fgrpo_bench.stages.files import now, read_json
from fgrpo_bench.stages.markers import described, is_done, write_marker
from fgrpo_bench.stages.paths import RunPaths, StagePaths
from fgrpo_bench.tables import write_table

TELL_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a simulation stands."""

    done: int
    """Runs, those of former calls included."""
    of: int
    share: float
    """Of the processor time that this call has to do, by estimate."""


def undone(paths: RunPaths, runs: Sequence[Run]) -> list[Run]:
    """The runs without a completion marker."""
    return [run for run in runs if not _done(paths.point(run.point_id))]


def make(
    paths: RunPaths,
    settings: Settings,
    runs: Sequence[Run],
    *,
    workers: int,
    tell: Callable[[Progress], None],
) -> None:
    """Make every run that is not done. RuntimeError with what a worker said where one failed."""
    waiting = sorted(undone(paths, runs), key=lambda run: -cost(settings, run))
    total = sum(cost(settings, run) for run in waiting)
    finished, spent = len(runs) - len(waiting), 0.0
    context = get_context("spawn")
    lines: dict[Connection, Run | None] = {}
    at: dict[Connection, int] = {}
    processes = []
    try:
        for _ in range(min(workers, len(waiting))):
            mine, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            _give(mine, waiting.pop(0), paths, lines)
        while any(lines.values()):
            for line in wait([line for line, run in lines.items() if run is not None]):
                assert isinstance(line, Connection)
                run = lines[line]
                assert run is not None
                try:
                    said, value = line.recv()
                except EOFError:
                    said, value = "failed", "its process ended; is there memory enough?"
                if said == "failed":
                    raise RuntimeError(f"{run.point_id}: {value}")
                at[line] = int(value)
                if said == "done":
                    finished, spent, at[line] = finished + 1, spent + cost(settings, run), 0
                    lines[line] = None
                    if waiting:
                        _give(line, waiting.pop(0), paths, lines)
            flying = sum(
                cost(settings, run) * at.get(line, 0) / settings.steps
                for line, run in lines.items()
                if run is not None
            )
            tell(Progress(done=finished, of=len(runs), share=(spent + flying) / total))
    finally:
        for process in processes:
            process.kill()
            process.join()


def _give(line: Connection, run: Run, paths: RunPaths, lines: dict[Connection, Run | None]) -> None:
    line.send(paths.point(run.point_id).folder)
    lines[line] = run


def serve(line: Connection) -> None:
    """Make runs whose folders come over a pipe, until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's to handle
    while True:
        try:
            folder = line.recv()
        except (EOFError, OSError):
            return
        try:
            make_one(StagePaths(folder), lambda step: line.send(("step", step)))
            line.send(("done", 0))
        except BrokenPipeError:  # nobody is there any more
            return
        except Exception as error:
            line.send(("failed", f"{type(error).__name__}: {error}"))


def make_one(paths: StagePaths, tell: Callable[[int], None]) -> None:
    """Make one run from its spec.json; does nothing where it is done."""
    from fgrpo_bench.simulation.run import MASSES, simulate

    spec: dict[str, Any] = read_json(paths.spec, RUN)
    if _done(paths):
        return
    begun, cpu, told = time.time(), time.process_time(), time.monotonic()

    def sometimes(step: int) -> None:
        nonlocal told
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            tell(step)

    defined = spec["identity"]
    table = simulate(Settings(**defined["settings"]), Run(**defined["run"]), sometimes)
    write_table(masses(paths), table, MASSES)
    last = table.row(-1, named=True)
    write_marker(
        paths,
        {
            "fingerprint": spec["fingerprint"],
            "target": spec["target"],
            "finished": now(),
            "finished_ms": int(time.time() * 1000),
            "wall_seconds": round(time.time() - begun, 3),
            "cpu_seconds": round(time.process_time() - cpu, 3),
            "peak_mb": round(peak_mb(), 1),
            "outputs": described(paths, [masses(paths)]),
            **last,
        },
    )


def peak_mb() -> float:
    """Largest resident set of this process so far, MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _done(paths: StagePaths) -> bool:
    mark = read_json(paths.spec, RUN)["fingerprint"]
    return is_done(paths, fingerprint=mark, target={}) and masses(paths).exists()
