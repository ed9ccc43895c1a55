"""What is sent to SLURM: what a batch asks for and runs, and what a job that waits would ask now.

Every batch is noted before it is sent and after. Where SLURM refuses one, those sent with it are
taken back, so that a sweep is submitted whole or not at all.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from fgrpo_bench import engines
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import SlurmProfile
from fgrpo_bench.stages.plan import StageRecord
from sweeps.commands import StageCommand, interpreter, stage_command, stage_environment
from sweeps.slurm import recover, scheduler, submissions
from sweeps.slurm.attempts import damaged_path
from sweeps.slurm.code import manifest_path
from sweeps.slurm.decide import StageObservation
from sweeps.slurm.packing import Packing, sent_file
from sweeps.slurm.payload import Payload, ReportJob
from sweeps.slurm.submissions import (
    REPORT,
    Abandoned,
    JobBatch,
    Resources,
    Sending,
    Submitted,
    resources,
)

GROWTH = 1.5
"""What times its memory a stage asks for after it was out of memory (profile.memory_growth)."""
LAST_TASK_SECONDS = 60
"""How long the tasks of a job may outlive the first of them to end."""
PASSED = ("HF_HOME", "HF_HUB_CACHE", "MLFLOW_TRACKING_URI")
"""Variables of whoever submits that stages need and a job may not get from SLURM; no secrets, as
what jobs run lies on the disk."""
OPTION = "#SBATCH --"
BATCH_OPTIONS = ("array", "dependency", "error", "job-name", "output")
"""Options that are a batch's own, whatever the profile says."""


@dataclass(frozen=True, kw_only=True)
class Sender:
    """What every batch of a sweep has in common."""

    paths: RunPaths
    profile: SlurmProfile
    code: Path
    """Folder of the frozen code."""
    records: Mapping[str, StageRecord]
    """All stages by name."""
    command: StageCommand = stage_command

    def payloads(self, sending: Sending) -> list[Callable[[], str]]:
        """What each element runs."""
        passed = {name: os.environ[name] for name in PASSED if name in os.environ}
        # jobs fetch nothing: nodes may have no network, and `run` has fetched it before
        variables = stage_environment(self.profile, self.paths, passed, fetches=False)
        variables["PYTHONPATH"] = str(self.code)
        cwd, environment = str(self.code), tuple(sorted(variables.items()))
        if sending.batch.kind == REPORT:
            command = [self._python(), "-m", "sweeps.reporting", str(self.paths.folder)]
            return [ReportJob(command=tuple(command), cwd=cwd, environment=environment)]
        payloads: list[Callable[[], str]] = []
        for name in sending.batch.stages:
            record = self.records[name]
            folder = self.paths.folder / name
            payloads.append(
                Payload(
                    folder=str(folder),
                    needs=tuple(str(self.paths.folder / need) for need in record.needs),
                    command=tuple(
                        self.command(record.kind, folder, self.profile, record.environment)
                    ),
                    cwd=cwd,
                    environment=environment,
                    batch=sending.batch.name,
                )
            )
        return payloads

    def packing(self, sending: Sending) -> Packing:
        """The batch with all that it asks of SLURM."""
        profile, code = self.profile, shlex.quote(str(self.code))
        request = self.resources(sending)
        # a preempted job resumes by itself; one whose input failed would else wait for ever
        extra: dict[str, object] = {"requeue": True, "kill-on-invalid-dep": "yes"}
        extra |= {key: value or True for key, value in profile.additional_parameters.items()}
        return Packing(
            self.paths.batch(sending.batch.name),
            self._python(),
            job_name=sending.batch.name,
            partition=profile.partition,
            account=profile.account,
            qos=profile.qos,
            constraint=profile.constraint,
            exclude=profile.exclude,
            nodes=request.nodes,
            ntasks_per_node=1,
            gpus_per_node=request.gpus_per_node,
            cpus_per_task=request.cpus_per_task,
            mem=None if request.mem_mb is None else f"{request.mem_mb}MB",
            time=profile.time_minutes,
            signal_delay_s=profile.signal_seconds,
            dependency=sending.dependency(),
            array_parallelism=sending.at_once,
            setup=[
                *map(_or_end, profile.setup),
                *self._checked(sending),
                f"export PYTHONPATH={code}",
            ],
            srun_args=self._srun(sending),
            stderr_to_stdout=True,
            additional_parameters=extra,
        )

    def _checked(self, sending: Sending) -> list[str]:
        """Lines that compare the code with its digests and go to it; a job that finds it damaged
        says so beside its batch and ends."""
        code, digests = (shlex.quote(str(p)) for p in (self.code, manifest_path(self.code)))
        damaged = damaged_path(self.paths.batch(sending.batch.name), "")
        report_path = f"{shlex.quote(str(damaged.parent))}/$job{damaged.name}"
        return [
            # LC_ALL=C: sweeps.slurm.attempts reads sha256sum's own English
            f"said=$(cd {code} 2>&1 && LC_ALL=C sha256sum --check --quiet {digests} 2>&1) || {{",
            "  job=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}",
            "  job=${job:-$SLURM_JOB_ID}",
            f'  echo "${{said:0:4000}}" | tee {report_path}',
            "  exit 1",
            "}",
            f"cd {code} || exit 1",
        ]

    def resources(self, sending: Sending) -> Resources:
        """What each of its jobs asks for."""
        batch = sending.batch
        request = resources(self.profile, batch.kind, is_placed=self._is_placed(sending))
        if request.mem_mb is None:
            return request
        return replace(request, mem_mb=ceil(request.mem_mb * batch.memory))

    def _is_placed(self, sending: Sending) -> bool:
        records = [self.records[name] for name in sending.batch.stages if name in self.records]
        return any(engines.environment(record.environment).is_placed for record in records)

    def _srun(self, sending: Sending) -> list[str]:
        """One task, or of a run over several nodes one on each."""
        request = self.resources(sending)
        tasks = request.nodes if self._is_placed(sending) else 1
        # with all that the batch script has: a site may send jobs with --export=NONE, which srun
        # would take over, and submitit says with a variable in which environment it runs
        arguments = ["--export=ALL", f"--nodes={tasks}", f"--ntasks={tasks}"]
        arguments += [f"--cpus-per-task={request.cpus_per_task}"]
        if tasks > 1:  # where a task dies without a word, the others end after so many seconds
            arguments += ["--ntasks-per-node=1", f"--wait={LAST_TASK_SECONDS}"]
        return arguments

    def text(self, sending: Sending) -> str:
        """The sbatch file of a batch, to the letter."""
        return self.packing(sending).text(sending.batch.size)

    def _python(self) -> str:
        return interpreter(self.profile, "base")


def _or_end(line: str) -> str:
    """A line of profile.setup that ends the job where it fails, and says so."""
    message = shlex.quote(f"profile.setup: this line failed: {' '.join(line.split())}")
    return f"{{ {line}\n}} || {{ echo {message}; exit 1; }}"


def send(sender: Sender, sendings: Sequence[Sending], call: scheduler.Call) -> None:
    """Submit batches in order.

    Raises ValueError with SLURM's own words where it refuses one; those sent before it are then
    cancelled. ConnectionError where sbatch gives no answer: SLURM may have that batch, so that its
    intent is left to `sweeps.slurm.tick`, as those of a dead driver are.
    """
    journal_path = sender.paths.submissions
    sent: list[Sending] = []
    if (absent := scheduler.missing("sbatch")) is not None:
        raise ValueError(absent)
    for sending in sendings:
        batch = sending.batch
        submissions.append(journal_path, batch.intent(str(sender.code)))
        sent.append(sending)
        try:
            recover.write_card(sender.paths, batch, str(sender.code))
            batch.job_id = sender.packing(sending).send(sender.payloads(sending), call)
        except ConnectionError as error:
            raise ConnectionError(
                f"{error}. Whether SLURM has the {batch.kind} jobs is not known yet, and nothing "
                "was submitted after them: `follow`, or `run` again in two minutes, finds out and "
                "resumes"
            ) from error
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
        submissions.append(journal_path, Submitted(batch=batch.name, job_id=batch.job_id))


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
    user_jobs = scheduler.squeue_by_user(call).values()
    scheduler.scancel([job for job in user_jobs if job.name in names], call)
    for name in names:
        submissions.append(
            sender.paths.submissions,
            Abandoned(batch=name, why="a batch of the same sweep was refused"),
        )


def with_more_memory(
    observations: Iterable[StageObservation], sender: Sender, call: scheduler.Call
) -> list[StageObservation]:
    """With `more_memory` at every stage that was out of memory, where the profile lets it grow and
    a node of its partition has it; raises as `call` does."""
    grown, most_mb = [], None
    for stage in observations:
        job, place = stage.job, stage.place
        ended = job is not None and not job.active and not stage.done
        struck = stage.out_of_memory or (job is not None and job.state == "OUT_OF_MEMORY")
        if place is None or not (sender.profile.memory_growth and ended and struck):
            grown.append(stage)
            continue
        # asked once, and only where a stage was out of memory
        if most_mb is None:
            nodes = scheduler.list_nodes(sender.profile.partition, call)
            most_mb = max((node.memory_mb for node in nodes), default=0)
        more = place.batch.memory * GROWTH
        request = sender.resources(Sending(batch=replace(place.batch, memory=more)))
        fits = request.mem_mb is not None and request.mem_mb <= most_mb
        grown.append(replace(stage, more_memory=more if fits else None))
    return grown


def with_stale_resources(
    observations: Iterable[StageObservation], sender: Sender
) -> list[StageObservation]:
    """With `anew` at every stage whose job waits and asked otherwise than it would now.

    A time limit, a partition or memory that is given to `run` would else reach only what is sent
    later.
    """
    changes: dict[str, str] = {}
    renewed = []
    for stage in observations:
        waits = stage.queued and stage.job is not None and stage.job.state == "PENDING"
        if stage.place is None or stage.done or not waits:
            renewed.append(stage)
            continue
        batch = stage.place.batch
        if batch.name not in changes:
            changes[batch.name] = _changed(sender, batch)
        renewed.append(replace(stage, anew=changes[batch.name]))
    return renewed


def _changed(sender: Sender, batch: JobBatch) -> str:
    """e.g. `--time=2 in place of --time=5`; empty where a batch would ask for the same now, or what
    was sent is not there any more.

    What it asked for is read from the very file that was sent: SLURM's own word is not compared, as
    a site may have changed what was asked.
    """
    path = sent_file(sender.paths.batch(batch.name), batch.job_id)
    if not path.exists():
        return ""
    sent = options(path.read_text(encoding="utf-8", errors="replace"))
    now = options(sender.text(Sending(batch=batch)))
    return ", ".join(
        f"{_shown(key, now)} in place of {_shown(key, sent)}"
        for key in sorted(now.keys() | sent.keys())
        if now.get(key) != sent.get(key)
    )


def options(text: str) -> dict[str, str]:
    """What an sbatch file asks of SLURM, by option; empty for one without a value."""
    lines = (line.removeprefix(OPTION) for line in text.splitlines() if line.startswith(OPTION))
    pairs = (line.partition("=") for line in lines)
    return {key: value for key, _, value in pairs if key not in BATCH_OPTIONS}


def _shown(key: str, by_option: dict[str, str]) -> str:
    if key not in by_option:
        return f"no --{key}"
    return f"--{key}={by_option[key]}" if by_option[key] else f"--{key}"
