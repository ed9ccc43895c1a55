"""Processes that make runs, the longest first; a kill costs the runs in flight and nothing else.

Two drivers cannot spoil a run: its files are a function of its spec, and each is written whole.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from threading import Thread

from fgrpo_bench.simulation.run import simulate
from fgrpo_bench.simulation.runs import MASSES, RUN, Simulation, from_spec, is_made, masses_path
from fgrpo_bench.stages.files import now, read_json
from fgrpo_bench.stages.markers import described, write_marker
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.tables import write_table


def processors() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def make(simulation: Simulation, *, workers: int, tell: Callable[[], None]) -> None:
    """Make every run that is not done, the longest first; tell() after each. RuntimeError with what
    a worker said where one failed; then, and when it is stopped, what is in flight is finished."""
    waiting = sorted(simulation.undone, key=lambda run: -run.cost(simulation.settings))
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
        run_by_future = {pool.submit(make_one, simulation.stage(run)): run for run in waiting}
        try:
            for future in as_completed(run_by_future):
                future.result()
                tell()
        except BrokenProcessPool as error:
            raise RuntimeError("a process ended amid its run; is there memory enough?") from error
        except Exception as error:
            message = f"{run_by_future[future].point_id}: {type(error).__name__}: {error}"
            raise RuntimeError(message) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """In a worker: Ctrl-C is the driver's to handle, and none outlives it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_driver, daemon=True).start()


def _end_with_driver() -> None:
    driver = parent_process()
    assert driver is not None
    connection.wait([driver.sentinel])
    os._exit(1)


def make_one(stage: StagePaths) -> None:
    """Make one run from its spec.json; does nothing where it is done."""
    if is_made(stage):
        return
    begun, cpu = time.time(), time.process_time()
    spec = read_json(stage.spec, RUN)
    run, settings = from_spec(stage.spec)
    table = simulate(settings, run)
    write_table(masses_path(stage), table, MASSES)
    marker = {
        "fingerprint": spec["fingerprint"],
        "target": spec["target"],
        "finished": now(),
        "finished_ms": int(time.time() * 1000),
        "wall_seconds": round(time.time() - begun, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "peak_mb": round(peak_mb(), 1),
        "outputs": described(stage, [masses_path(stage)]),
        **table.row(-1, named=True),
    }
    write_marker(stage, marker)


def peak_mb() -> float:
    """Largest resident set of this process so far, MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
