"""One stage, one shape: a command that does its work once, survives a kill, and says so.

A stage reads `spec.json`, does nothing where its completion marker already covers that spec, and
otherwise works and writes `DONE.json` last. Exit code 0 is done, 75 is stopped at a checkpoint and
to be continued, anything else is failed. Only one process at a time works on a stage; a second one
waits and then finds the marker. Where a lock cannot be trusted (some network file systems, nodes
that were given up and come back), the process that began last owns the stage: an older one that
wakes up finds another's token, stops and marks nothing. Were it to mark between its last look and
its write, the marker would hold its token and not the owner's, and nobody would believe it.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fgrpo_bench.files import now, read_json, write_json
from fgrpo_bench.locks import locked
from fgrpo_bench.paths import StagePaths

EXIT_DONE, EXIT_FAILED, EXIT_CONTINUE = 0, 1, 75
PROGRESS_SECONDS = 2.0
LOG_SECONDS = 10.0
SAVE_SECONDS = 5.0
"""Between saves of a stage's whole state: what a kill can cost. No result depends on it."""


class Stopped(Exception):
    """Raised by the work at a point where everything done so far is saved."""


class StageRun:
    """What the work of a stage may ask and tell while it runs."""

    def __init__(self, paths: StagePaths, *, save_seconds: float = SAVE_SECONDS) -> None:
        self.paths = paths
        self._token: str | None = None
        self.save_seconds = save_seconds
        self.stopping = False
        self.quiet = False
        """Whether somebody else shows the progress."""
        self._begun = time.monotonic()
        self._first_step: int | None = None
        self._told = self._logged = 0.0

    def request_stop(self, signum: int, _frame: object) -> None:
        """Signal handler: let the work reach its next save."""
        print(f"signal {signal.Signals(signum).name}: stopping at the next save", flush=True)
        self.stopping = True

    def check_stopping(self) -> None:
        """Stopped where that is asked for while another process has the stage in hand: that one may
        itself be held up, and never let go."""
        if self.stopping:
            raise Stopped("another process has the stage, and nothing was begun here")

    def own(self) -> None:
        """Take the stage over from whoever began it before; a marker that stands is kept."""
        self._token = uuid.uuid4().hex
        marked = read_json(self.paths.done).get("owner") if self.paths.done.exists() else None
        facts = {"token": self._token, "over": marked, "pid": os.getpid()}
        write_json(self.paths.owner, facts | {"host": socket.gethostname(), "since": now()})

    @property
    def token(self) -> str | None:
        """What names this process as the stage's owner; None before it is."""
        return self._token

    def check_owned(self) -> None:
        """RuntimeError where a newer process has begun this stage."""
        if self._token is None:
            return
        owner = read_json(self.paths.owner)
        if owner["token"] != self._token:
            raise RuntimeError(
                f"process {owner['pid']} on {owner['host']} began this stage at {owner['since']}, "
                "after this one, and owns it: this one marks nothing"
            )

    def progress(self, *, step: int, of: int, **numbers: float) -> None:
        """Say how far the work is; cheap enough to be called at every step."""
        clock = time.monotonic()
        if self._first_step is None:
            self._first_step, self._begun = step, clock
        if clock - self._told < PROGRESS_SECONDS and step < of:
            return
        self._told = clock
        self.check_owned()
        made = step - self._first_step
        eta = (clock - self._begun) / made * (of - step) if made else None
        state = {"step": step, "of": of, "eta_seconds": eta, "time": now(), "pid": os.getpid()}
        write_json(self.paths.progress, state | {"host": socket.gethostname()} | numbers)
        if not self.quiet and (clock - self._logged >= LOG_SECONDS or step == of):
            self._logged = clock
            shown = "  ".join(f"{name} {value:.3f}" for name, value in numbers.items())
            left = "" if eta is None else f"  {eta:.0f} s left"
            print(f"step {step}/{of}  {shown}{left}", flush=True)


def is_done(paths: StagePaths, *, fingerprint: str, target: dict[str, Any]) -> bool:
    """Whether the marker stands for this fingerprint and covers the target.

    target: layers on top of the identity, e.g. {"n_samples": 512, "ks": [1, 256]}: an integer is
    covered by one at least as large, a list by one that contains it, other values by equal ones.
    """
    if not paths.done.exists():
        return False
    marker = read_json(paths.done)
    if marker["fingerprint"] != fingerprint or not _of_owner(paths, marker):
        return False
    return all(_covers(marker["target"].get(key), wanted) for key, wanted in target.items())


def _of_owner(paths: StagePaths, marker: dict[str, Any]) -> bool:
    """False for the marker of a process that another had taken the stage over from before."""
    if not paths.owner.exists():
        return True
    owner = read_json(paths.owner)
    return marker.get("owner") in (owner["token"], owner["over"])


def _covers(have: Any, wanted: Any) -> bool:
    if have is None:
        return False
    if isinstance(wanted, int):
        return bool(have >= wanted)
    if isinstance(wanted, list):
        return set(wanted) <= set(have)
    return bool(have == wanted)


def run_stage(
    paths: StagePaths,
    work: Callable[[dict[str, Any], StageRun], dict[str, Any]],
    *,
    save_seconds: float = SAVE_SECONDS,
) -> int:
    """Run a stage to its exit code.

    work: takes the spec and the StageRun; returns facts for the marker, or raises Stopped at a
    save. Any other exception is printed with its traceback and fails the stage.
    """
    begun, cpu = time.time(), time.process_time()
    run = StageRun(paths, save_seconds=save_seconds)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, run.request_stop)
    try:
        what = f"stage {paths.folder.name}"
        with locked(paths.lock, wait=True, what=what, waiting=run.check_stopping):
            spec = read_json(paths.spec)
            if is_done(paths, fingerprint=spec["fingerprint"], target=spec["target"]):
                print("already done", flush=True)
                return EXIT_DONE
            run.own()
            facts = work(spec, run)
            marker = {
                "fingerprint": spec["fingerprint"],
                "target": spec["target"],
                "owner": run.token,
                "finished": now(),
                "finished_ms": int(time.time() * 1000),
                "wall_seconds": round(time.time() - begun, 3),
                "cpu_seconds": round(time.process_time() - cpu, 3),
            }
            run.check_owned()
            write_json(paths.done, marker | facts)
            print(f"done in {time.time() - begun:.1f} s", flush=True)
            return EXIT_DONE
    except Stopped as stop:
        print(f"stopped: {stop}; run the same command again to continue", flush=True)
        return EXIT_CONTINUE
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        return EXIT_FAILED


def add_stage_arguments(parser: argparse.ArgumentParser) -> None:
    """What every stage command takes: a folder, a device and a number of threads."""
    parser.add_argument("folder", type=Path, help="the stage's folder")
    add_machine_arguments(parser)


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """A device and a number of threads."""
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch; default: 1")


def named_stage(parser: argparse.ArgumentParser, options: argparse.Namespace) -> StagePaths:
    """The stage that the arguments name; ends with the parser's error where it has no spec."""
    paths = StagePaths(options.folder)
    if not paths.spec.exists():
        parser.error(f"{paths.spec} does not exist: `python -m sweeps run` writes it")
    return paths
