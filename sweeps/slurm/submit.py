"""Sending batches through submitit, and showing what would be sent.

Every batch is noted before it is sent and after. Where SLURM refuses one, those sent with it are
taken back, so that a sweep is submitted whole or not at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError

from fgrpo_bench.specs import SlurmProfile
from fgrpo_bench.stages.paths import RunPaths
from sweeps.commands import StageCommand, interpreter, stage_command, stage_environment
from sweeps.former import as_frozen
from sweeps.slurm import recover, scheduler, submissions
from sweeps.slurm.arrays import Record, Sending
from sweeps.slurm.causes import damaged_path
from sweeps.slurm.manifest import manifest_path
from sweeps.slurm.payload import Payload, Report
from sweeps.slurm.resources import Resources, resources
from sweeps.slurm.submissions import REPORT

LAST_TASK_SECONDS = 60
"""How long the tasks of a job may outlive the first of them to end."""


@dataclass(frozen=True, kw_only=True)
class Sender:
    """What every batch of a sweep has in common."""

    paths: RunPaths
    profile: SlurmProfile
    code: Path
    """Folder of the frozen code."""
    records: Mapping[str, Record]
    """All stages by name."""
    command: StageCommand = stage_command
    placement: Any = None
    """The profile's as sweep.json has it, for code of before; None takes that of `profile`."""

    def payloads(self, sending: Sending) -> list[Callable[[], str]]:
        """What each element runs."""
        variables = stage_environment(self.profile, self.paths, {}) | {"PYTHONPATH": str(self.code)}
        cwd, environment = str(self.code), tuple(sorted(variables.items()))
        if sending.batch.kind == REPORT:
            last = (self._python(), "-m", "sweeps.slurm.last", str(self.paths.folder))
            return [Report(command=last, cwd=cwd, environment=environment)]
        payloads: list[Callable[[], str]] = []
        for name in sending.batch.stages:
            record = self.records[name]
            folder = self.paths.folder / name
            payloads.append(
                Payload(
                    folder=str(folder),
                    needs=tuple(str(self.paths.folder / need) for need in record["needs"]),
                    command=as_frozen(
                        self.command(record["kind"], folder, self.profile, record["environment"]),
                        self.code,
                        self.placement,
                    ),
                    cwd=cwd,
                    environment=environment,
                )
            )
        return payloads

    def executor(self, sending: Sending) -> SlurmExecutor:
        """submitit's executor with every parameter of the batch."""
        profile, code = self.profile, shlex.quote(str(self.code))
        asked = self._resources(sending)
        executor = Executor(
            folder=str(self.paths.batch(sending.batch.name)),
            max_num_timeout=0,
            python=shlex.quote(self._python()),
        )
        extra: dict[str, object] = {"requeue": True, "kill-on-invalid-dep": "yes"}
        extra |= {key: value or True for key, value in profile.additional_parameters.items()}
        executor.update_parameters(
            **_given(
                job_name=sending.batch.name,
                partition=profile.partition,
                account=profile.account,
                qos=profile.qos,
                constraint=profile.constraint,
                exclude=profile.exclude,
                nodes=asked.nodes,
                ntasks_per_node=1,
                gpus_per_node=asked.gpus_per_node,
                cpus_per_task=asked.cpus_per_task,
                mem=None if asked.mem_mb is None else f"{asked.mem_mb}MB",
                time=profile.time_minutes,
                signal_delay_s=profile.signal_seconds,
                dependency=sending.dependency(),
                array_parallelism=sending.at_once,
                setup=[*profile.setup, *self._checked(sending), f"export PYTHONPATH={code}"],
                srun_args=self._srun(sending),
                stderr_to_stdout=True,
                additional_parameters=extra,
            )
        )
        return executor

    def _checked(self, sending: Sending) -> list[str]:
        """Lines that compare the code with its digests and go to it; a job that finds it damaged
        says so beside its batch and ends."""
        code, digests = (shlex.quote(str(p)) for p in (self.code, manifest_path(self.code)))
        damaged = damaged_path(self.paths.batch(sending.batch.name), "")
        told = f"{shlex.quote(str(damaged.parent))}/$job{damaged.name}"
        return [
            f"said=$(cd {code} 2>&1 && LC_ALL=C sha256sum --check --quiet {digests} 2>&1) || {{",
            "  job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}",
            "  job=${job:-$SLURM_JOB_ID}",
            f'  echo "${{said:0:4000}}" | tee {told}',
            "  exit 1",
            "}",
            f"cd {code} || exit 1",
        ]

    def _resources(self, sending: Sending) -> Resources:
        return resources(self.profile, sending.batch.kind, openrlhf=self._openrlhf(sending))

    def _openrlhf(self, sending: Sending) -> bool:
        records = [self.records[name] for name in sending.batch.stages if name in self.records]
        return any(record["environment"] == "openrlhf" for record in records)

    def _srun(self, sending: Sending) -> list[str]:
        """One task, or where OpenRLHF trains one on each node."""
        asked = self._resources(sending)
        tasks = asked.nodes if self._openrlhf(sending) else 1
        arguments = [f"--nodes={tasks}", f"--ntasks={tasks}"]
        arguments += [f"--cpus-per-task={asked.cpus_per_task}"]
        if tasks > 1:  # where a task dies without a word, the others end after so many seconds
            arguments += ["--ntasks-per-node=1", f"--wait={LAST_TASK_SECONDS}"]
        return arguments

    def text(self, sending: Sending) -> str:
        """The sbatch file of a batch, to the letter."""
        executor = self.executor(sending)
        if sending.batch.size > 1:
            executor.parameters["map_count"] = sending.batch.size
        return str(executor._make_submission_file_text(executor._submitit_command_str, ""))

    def _python(self) -> str:
        return interpreter(self.profile, "base")


class Executor(SlurmExecutor):
    """submitit's, which can also be asked for its file where there is no SLURM."""

    @classmethod
    def affinity(cls) -> int:
        """Usable anywhere; whether SLURM is there shows when something is sent."""
        return 2


def _given(**parameters: object) -> dict[str, object]:
    return {key: value for key, value in parameters.items() if value is not None}


def send(sender: Sender, sendings: Sequence[Sending], call: scheduler.Call) -> None:
    """Submit batches in order.

    Raises ValueError with SLURM's own words where it refuses one; those sent before it are then
    cancelled. A dead driver leaves intents that `sweeps.slurm.tick` resolves.
    """
    ledger = sender.paths.submissions
    sent: list[Sending] = []
    for sending in sendings:
        batch = sending.batch
        submissions.append(ledger, "intent", **batch.intent(str(sender.code)))
        sent.append(sending)
        try:
            recover.write_card(sender.paths, batch, str(sender.code))
            batch.job_id = _sbatch(sender, sending)
        except OSError as error:
            with suppress(OSError):  # what cannot be written now is made up by the next tick
                _take_back(sender, sent, call)
            raise _unsent(sender, error) from error
        except ValueError as error:
            _take_back(sender, sent, call)
            raise ValueError(
                f"SLURM refused the {batch.kind} jobs of this sweep, so nothing of it was left in "
                f"the queue; it said: {error}"
            ) from error
        submissions.append(ledger, "submitted", batch=batch.name, job_id=batch.job_id)


def _sbatch(sender: Sender, sending: Sending) -> str:
    absent = scheduler.missing("sbatch")
    if absent is not None:
        raise ValueError(absent)
    try:
        jobs = sender.executor(sending).submit_array(sender.payloads(sending))
    except (FailedJobError, FailedSubmissionError) as error:
        raise ValueError(str(error).strip()) from error
    return str(jobs[0].job_id).split("_")[0]


def _unsent(sender: Sender, error: OSError) -> OSError:
    return OSError(
        error.errno,
        f"cannot hand over what the jobs run, under {sender.paths.batch('')}: "
        f"{error.strerror or error}; nothing of it was left in the queue: free some space or mend "
        "the permissions and run the same command again",
    )


def _take_back(sender: Sender, sent: Sequence[Sending], call: scheduler.Call) -> None:
    """Also what an sbatch submitted that then said it had failed, found by its name."""
    names = [sending.batch.name for sending in sent]
    scheduler.scancel(scheduler.squeue(names, call).values(), call)
    for name in names:
        submissions.append(
            sender.paths.submissions,
            "void",
            batch=name,
            why="a batch of the same sweep was refused",
        )
