"""What a job runs: the command of one stage as a child, and what the scheduler must be told after.

It is pickled, so it holds strings only; all state is in the stage's folder. submitit passes over
SIGTERM and answers USR2 itself, so both handlers are replaced while the child runs: either one
tells the child to save and stop. A stage that stopped (exit code 75) is requeued here, once, unless
SLURM is already ending the job, to requeue it or because it was cancelled. SIGTERM alone does not
say so: a job that ends by itself in the time of grace before it is preempted is over for good.

Each attempt is noted with its job and its end (fgrpo_bench.stages.attempts); whoever reconciles
later reads those notes, not the scheduler's word alone.

Where a stage has several nodes, each has a task that runs the same payload. Only the first one
notes, requeues and passes signals on; the others' children do what the stage's command says there,
and end when the first one's does.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import read_spec
from fgrpo_bench.stages.attempts import begin, end, ending, explain
from fgrpo_bench.stages.markers import is_done
from fgrpo_bench.stages.stage import EXIT_CONTINUE
from sweeps.slurm import scheduler
from sweeps.slurm.attempts import IDLE_ATTEMPTS, UNREADY, failure_reason, idle
from sweeps.slurm.packing import PackedJob

GETS_NOWHERE = f"got no further in {IDLE_ATTEMPTS} attempts of this job"


@dataclass(frozen=True, kw_only=True)
class Payload(PackedJob):
    """One stage as a job; paths are absolute."""

    folder: str
    """The stage's folder."""
    needs: tuple[str, ...]
    """Folders of the stages that must be done first."""
    command: tuple[str, ...]
    cwd: str
    environment: tuple[tuple[str, str], ...]
    """What the stage needs beyond the job's own environment."""
    batch: str
    """Its batch, whatever SLURM calls the job."""

    def __call__(self) -> str:
        """Run the stage; returns where its marker stands, ends the process where it stopped, raises
        RuntimeError where it failed."""
        stage = StagePaths(Path(self.folder))
        if is_marked(stage):
            return "already done"
        if os.environ.get("SLURM_PROCID", "0") != "0":
            return self._assist()
        if idle(stage, _job_id(), self.batch):
            raise RuntimeError(f"{self.folder} {GETS_NOWHERE}: see its logs")
        note, output = begin(
            stage,
            job_id=_job_id(),
            batch=self.batch,
            node=socket.gethostname(),
            restarts=int(os.environ.get("SLURM_RESTART_COUNT", "0")),
        )
        log, begun = stage.log(note.attempt), time.monotonic()
        with output:
            for need in self.needs:
                if not is_marked(StagePaths(Path(need))):
                    output.write(f"not started: {need} is not complete\n".encode())
                    end(stage, note, exit_code=EXIT_CONTINUE, outcome=UNREADY, seconds=0.0)
                    raise RuntimeError(f"{need} is not complete, so {self.folder} cannot start")
            exit_code, received = self._run(output)
        if not stage.logs.is_dir():  # to note the end there would make the folders anew
            raise RuntimeError(
                f"{self.folder} is gone: was the run root moved or removed? Before it is moved "
                "back, what stages made there meanwhile is to be removed"
            )
        outcome, why = ending(exit_code, marked=is_marked(stage)), None
        if outcome == "failed":
            why = failure_reason(stage, log, Path(self.cwd))
        seconds = time.monotonic() - begun
        end(stage, note, exit_code=exit_code, outcome=outcome, seconds=seconds, why=why)
        if outcome == "done":
            return "done"
        message = f"{self.folder} {explain(exit_code)}; see {log}"
        if why is not None:
            raise RuntimeError(f"{message}; {why}")
        if outcome == "stopped":
            if signal.SIGTERM in received and _state(self.batch) != "RUNNING":
                print(f"{message}; SLURM is ending this job", flush=True)
            elif idle(stage, _job_id(), self.batch):
                raise RuntimeError(f"{message}; it {GETS_NOWHERE}")
            else:
                _requeue(self.batch)
            sys.exit(EXIT_CONTINUE)
        raise RuntimeError(message)

    def _assist(self) -> str:
        """What a task does that is not the first; raises RuntimeError where its child failed."""
        exit_code, _ = self._run(None, deaf=True)
        if exit_code:
            raise RuntimeError(f"{self.folder} {explain(exit_code)} on {socket.gethostname()}")
        return "done"

    def _run(self, output: BinaryIO | None, *, deaf: bool = False) -> tuple[int, set[int]]:
        """The child's exit code, and the signals that came meanwhile.

        output: None is this process's. deaf: the child is told of none.
        """
        received: set[int] = set()
        child: subprocess.Popen[bytes] | None = None

        def tell(signum: int, _frame: object) -> None:
            received.add(signum)
            if deaf:
                return
            print(f"{signal.Signals(signum).name}: the stage is told to save", flush=True)
            if child is not None:
                child.send_signal(signal.SIGTERM)

        for signum in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(signum, tell)
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        child = subprocess.Popen(
            self.command,
            cwd=self.cwd,
            env=dict(os.environ) | dict(self.environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_deaf_to_all if deaf else _deaf_to_warning,
        )
        if received and not deaf:  # a signal between the handlers and the child
            child.send_signal(signal.SIGTERM)
        return child.wait(), received


def _deaf_to_warning() -> None:
    """SLURM sends USR2 to every process of a job, and it would end the stage on the spot."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _deaf_to_all() -> None:
    """SLURM sends SIGTERM to every process as well; here the first task says when to end."""
    _deaf_to_warning()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@dataclass(frozen=True, kw_only=True)
class ReportJob(PackedJob):
    """The last job of a sweep: writes the report on whatever is done; paths are absolute."""

    command: tuple[str, ...]
    cwd: str
    environment: tuple[tuple[str, str], ...]

    def __call__(self) -> str:
        """Run the command; CalledProcessError where it failed."""
        environment = dict(os.environ) | dict(self.environment)
        subprocess.run(self.command, cwd=self.cwd, env=environment, check=True)
        return "done"


def is_marked(stage: StagePaths) -> bool:
    """Whether the marker covers what the stage's spec, as it stands now, asks for."""
    spec = read_spec(stage)
    return is_done(stage, fingerprint=spec.fingerprint, target=spec.target)


def _job_id(environment: Mapping[str, str] = os.environ) -> str | None:
    """This job's id as squeue shows it, e.g. `12_3`; None outside a job."""
    array = environment.get("SLURM_ARRAY_JOB_ID")
    if array is not None:
        return f"{array}_{environment['SLURM_ARRAY_TASK_ID']}"
    return environment.get("SLURM_JOB_ID")


def _state(batch: str) -> str | None:
    """This job's state; None where SLURM does not say or knows another job by this id, as it may
    after a reset of the controller."""
    job_id = str(_job_id())
    try:
        job = scheduler.squeue_by_id(job_id).get(job_id)
    except (ValueError, ConnectionError):
        return None
    return job.state if job is not None and job.name == batch else None


def _requeue(batch: str) -> None:
    """Ask SLURM to run this job again; where it refuses, whoever reconciles submits it again."""
    if _state(batch) is None:
        print(f"not requeued: SLURM shows no job {_job_id()} of {batch}", flush=True)
        return
    try:
        scheduler.call(["scontrol", "requeue", str(_job_id())])
    except (ValueError, ConnectionError) as error:
        print(f"not requeued: {error}", flush=True)
