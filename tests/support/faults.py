"""Killing drivers and workers at random moments until a sweep is done, and checking what is left.

Nothing here knows what the stages compute: the driver is any command that is run again until it
ends with 0, its workers are whoever holds a stage's lock.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.markers import is_done
from sweeps.local.pool import holder_here

VICTIMS = ("driver", "worker")
Start = Callable[[], "subprocess.Popen[bytes]"]


def run_with_kills(
    start: Start,
    paths: RunPaths,
    *,
    kills: int,
    pause: tuple[float, float],
    rng: random.Random,
    patience: float = 120.0,
    after: Callable[[], object] = lambda: None,
) -> list[str]:
    """Start the driver, kill -9 it or a worker after a random pause, start again until done.

    pause: shortest and longest time from when a victim is there to its kill, seconds.
    after: called when the last kill was made.
    Returns what was killed, in order; fewer than `kills` where the sweep was done before.
    """
    killed: list[str] = []
    victim, strike = rng.choice(VICTIMS), None
    deadline = time.monotonic() + patience
    driver = start()
    try:
        while True:
            clock = time.monotonic()
            assert clock < deadline, f"not done after {patience} s; killed {killed}"
            if driver.poll() == 0:
                return killed
            if driver.poll() is not None:
                driver = start()
            workers = worker_pids(paths)
            there = bool(workers) if victim == "worker" else is_locked(paths.driver_lock)
            if len(killed) < kills and there:
                strike = strike or clock + rng.uniform(*pause)
                if clock >= strike:
                    kill(rng.choice(workers) if victim == "worker" else driver.pid)
                    killed.append(victim)
                    victim, strike = rng.choice(VICTIMS), None
                    if len(killed) == kills:
                        after()
            time.sleep(0.01)
    finally:
        driver.kill()
        driver.wait()
        end_workers(paths)


def worker_pids(paths: RunPaths) -> list[int]:
    """Processes that hold a stage's lock, orphans of killed drivers included."""
    if not paths.plan.exists():
        return []
    locks = [StagePaths(folder).lock for folder in stage_folders(paths)]
    pids = (holder_here(lock, socket.gethostname()) for lock in locks)
    return [pid for pid in pids if pid is not None]


def end_workers(paths: RunPaths) -> None:
    """Kill whoever still works, and whoever takes over from it, so that a test leaves nobody."""
    for _ in range(100):
        pids = worker_pids(paths)
        if not pids:
            return
        for pid in pids:
            kill(pid)
        time.sleep(0.02)


def kill(pid: int) -> None:
    """SIGKILL; nothing where the process has just ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def stage_folders(paths: RunPaths) -> list[Path]:
    """Folders of all stages of the plan."""
    return [paths.folder / stage["name"] for stage in read_json(paths.plan)["stages"]]


def check_attempts(paths: RunPaths) -> None:
    """Every stage is done, none was completed twice, and each attempt has its note and its log."""
    for stage in read_json(paths.plan)["stages"]:
        folder = StagePaths(paths.folder / stage["name"])
        assert is_done(folder, fingerprint=stage["fingerprint"], target=stage["target"]), folder
        notes = attempts(folder)
        numbers = [note.attempt for note in notes]
        assert len(numbers) == len(set(numbers)) >= 1, notes
        assert {folder.log(number) for number in numbers} <= {*folder.logs.glob("attempt-*.log")}
        completed = [note for note in notes if note.outcome == "done"]
        assert len(completed) <= 1, notes  # an orphan's end is nobody's to note


def contents(paths: RunPaths, *patterns: str) -> dict[str, str]:
    """Digests of the files that match any pattern, by path relative to the sweep's folder."""
    return {
        str(path.relative_to(paths.folder)): sha256_file(path)
        for pattern in patterns
        for path in sorted(paths.folder.glob(pattern))
    }
