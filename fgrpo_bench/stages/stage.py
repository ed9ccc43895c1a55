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
from typing import NoReturn

from fgrpo_bench.core import registry
from fgrpo_bench.core.commandline import Parser
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec, read_spec
from fgrpo_bench.files.whole import is_unfinished, now, write_json
from fgrpo_bench.stages.digests import is_edited, with_checksum
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import (
    Marker,
    Output,
    Owner,
    clear_damage,
    described,
    former_marker,
    is_done,
    read_marker,
    read_owner,
)
from fgrpo_bench.stages.watch import Progress

EXIT_DONE, EXIT_FAILED, EXIT_CONTINUE = 0, 1, 75
"""75 is EX_TEMPFAIL: stopped at a save, to be run again."""
PROGRESS_SECONDS = 2.0
"""Between writes of progress.json."""
LOG_SECONDS = 10.0
"""Between lines of progress in the log."""
SAVE_SECONDS = 5.0
"""Between saves of a stage's whole state: what a kill can cost. No result depends on it."""


class Stopped(Exception):
    """Raised by the work at a point where everything done so far is saved."""


class StageRun:
    """What the work of a stage may ask and tell while it runs."""

    def __init__(self, paths: StagePaths, *, save_seconds: float = SAVE_SECONDS) -> None:
        self.paths = paths
        self.token: str | None = None
        """What names this process as the stage's owner; None before it is."""
        self.save_seconds = save_seconds
        self.stopping = False
        self.quiet = False
        """Whether somebody else shows the progress."""
        self._begun = time.monotonic()
        self._first_step: int | None = None
        self._reported = self._logged = 0.0
        self.former: Marker | None = None
        """The marker that stood for the same fingerprint when the work began; None without."""
        self.outputs: dict[str, Output] = {}
        """What the stage promises, as its marker will list it (fgrpo_bench.stages.markers)."""

    def register_outputs(self, *promised: Path) -> None:
        """Promise files, and all files of folders, in the stage's folder: they are written, and
        the stage is done only while they are there. Their digests are taken now, once."""
        for path in promised:
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            finished = [file for file in files if file.is_file() and not is_unfinished(file)]
            self.outputs |= described(self.paths, finished)

    def digest(self, path: Path) -> str:
        """sha256 of a promised file."""
        return self.outputs[path.relative_to(self.paths.folder).as_posix()].sha256

    def recorded(self, path: Path) -> str | None:
        """sha256 of a file by the marker that stood when the work began; None where it is not
        listed there."""
        listed = {} if self.former is None else self.former.outputs
        output = listed.get(path.relative_to(self.paths.folder).as_posix())
        return None if output is None else output.sha256

    def request_stop(self, signum: int, _frame: object) -> None:
        """Signal handler: let the work reach its next save."""
        print(f"signal {signal.Signals(signum).name}: stopping at the next save", flush=True)
        self.stopping = True

    def check_stopping(self) -> None:
        """Stopped where that is asked for while another process has the stage in hand: that one may
        itself be held up, and never let go."""
        if self.stopping:
            raise Stopped("another process has the stage, and nothing was begun here")

    def acquire(self) -> None:
        """Take the stage over from whoever began it before; a marker that stands is kept."""
        self.token = uuid.uuid4().hex
        owner = Owner(
            token=self.token,
            over=read_marker(self.paths).owner if self.paths.done.exists() else None,
            pid=os.getpid(),
            host=socket.gethostname(),
            since=now(),
        )
        write_json(self.paths.owner, owner.as_json())

    def check_owned(self) -> None:
        """RuntimeError where a newer process has begun this stage."""
        if self.token is None:
            return
        owner = read_owner(self.paths)
        if owner.token != self.token:
            raise RuntimeError(
                f"process {owner.pid} on {owner.host} began this stage at {owner.since}, after "
                "this one, and owns it: this one marks nothing"
            )

    def progress(self, *, step: int, of: int, **numbers: float) -> None:
        """Say how far the work is; cheap enough to be called at every step."""
        clock = time.monotonic()
        if self._first_step is None or step < self._first_step:  # steps that are made again
            self._first_step, self._begun = step, clock
        if clock - self._reported < PROGRESS_SECONDS and step < of:
            return
        self._reported = clock
        self.check_owned()
        n_steps = step - self._first_step
        eta = (clock - self._begun) / n_steps * (of - step) if n_steps else None
        state = Progress(
            step=step,
            of=of,
            eta_seconds=eta,
            time=now(),
            pid=os.getpid(),
            host=socket.gethostname(),
            further=numbers,
        )
        write_json(self.paths.progress, state.as_json())
        if not self.quiet and (clock - self._logged >= LOG_SECONDS or step == of):
            self._logged = clock
            shown = "  ".join(f"{name} {_short(value)}" for name, value in numbers.items())
            remaining = "" if eta is None else f"  {eta:.0f} s left"
            print(f"step {step}/{of}  {shown}{remaining}", flush=True)


def _short(value: float) -> str:
    """e.g. 0.250, 9562, 1.3e-04."""
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.001 else f"{value:.1e}"


def run_stage(
    paths: StagePaths,
    work: Callable[[StageSpec, StageRun], Record],
    *,
    save_seconds: float = SAVE_SECONDS,
    refusing: bool = False,
) -> int:
    """Run a stage to its exit code.

    work: takes the spec and the StageRun, promises what it leaves (StageRun.register_outputs) and
    returns facts for the marker, or raises Stopped at a save. Any other exception is printed with
    its traceback and fails the stage. refusing: a ValueError or OSError goes to the caller
    instead, who shows its message to a person.
    """
    begun, cpu = time.time(), time.process_time()
    run = StageRun(paths, save_seconds=save_seconds)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, run.request_stop)
    try:
        name = f"stage {paths.folder.name}"
        with locked(paths.lock, wait=True, what=name, waiting=run.check_stopping):
            spec = read_spec(paths)
            if is_edited(spec.as_json()):
                raise ValueError(
                    f"{paths.spec} was changed after it was written: give the sweep's `run` again, "
                    "which writes it anew"
                )
            if is_done(paths, fingerprint=spec.fingerprint, target=spec.target):
                print("already done", flush=True)
                return EXIT_DONE
            clear_damage(paths, fingerprint=spec.fingerprint)
            run.former = former_marker(paths, fingerprint=spec.fingerprint)
            run.acquire()
            registry.load(spec.plugins or ())
            facts = work(spec, run)
            marker = Marker(
                fingerprint=spec.fingerprint,
                target=spec.target,
                owner=run.token,
                finished=now(),
                finished_ms=int(time.time() * 1000),
                wall_seconds=round(time.time() - begun, 3),
                cpu_seconds=round(time.process_time() - cpu, 3),
                outputs=run.outputs,
                **registry.record(),
            )
            content = marker.as_json() | facts.as_json()
            _warn_weights_differ(run.former, Marker.parsed(content))
            run.check_owned()
            write_json(paths.done, with_checksum(content))  # with the facts in the work's own order
            print(f"done in {time.time() - begun:.1f} s", flush=True)
            return EXIT_DONE
    except Stopped as stop:
        print(f"stopped: {stop}; run the same command again to continue", flush=True)
        return EXIT_CONTINUE
    except Exception as error:
        if refusing and isinstance(error, (ValueError, OSError)):
            raise
        traceback.print_exc()
        sys.stderr.flush()
        return EXIT_FAILED


def _warn_weights_differ(former: Marker | None, marker: Marker) -> None:
    """Weights that were made again need not be the same on another machine."""
    before = None if former is None else former.weights_sha256
    after = marker.weights_sha256
    if before not in (None, after):
        print(
            f"the weights have sha256 {after}, and those that stood here before had {before}: "
            "evaluations of those are refused until their folders are moved away",
            flush=True,
        )


EXIT_CODES = """

exit code 0: done (or was done before); 75: stopped at a save, run it again; other: failed"""


def stage_parser(program: str, description: str, examples: str) -> argparse.ArgumentParser:
    """The parser of `python -m <program> <folder>`, a command that runs stages."""
    parser = Parser(
        prog=f"python -m {program}",
        description=description,
        epilog=f"examples:\n{examples}{EXIT_CODES}",
    )
    parser.add_argument("folder", type=Path, help="the stage's folder")
    return parser


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """A device and a number of threads."""
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch; default: 1")


def named_stage(refuse: Callable[[str], NoReturn], folder: Path) -> StagePaths:
    """The stage in a folder. refuse: ends the command, with what it is told."""
    paths = StagePaths(folder)
    if not paths.spec.exists():
        refuse(f"{paths.spec} does not exist: `fgrpo-bench sweep run` writes it")
    return paths
