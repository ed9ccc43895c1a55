"""A sweep that was sent to SLURM, as its files tell, and a cluster that says what it is told to."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import to_dict
from fgrpo_bench.stages.plan import FORMAT, PlanRecord, StageRecord
from sweeps.freeze import run_paths
from sweeps.slurm import drive, recover, scheduler, submissions
from sweeps.slurm.scheduler import Call, Job
from sweeps.slurm.submissions import JobBatch
from tests.support.plans import loaded

RUNNING = "7|smoke-train-1|RUNNING|n1|0:10|N/A|None\n"


def submitted(root: Path, *overrides: str, call: Call = scheduler.call) -> RunPaths:
    """The sweep `smoke`, as `run` sends it."""
    declaration = replace(loaded("smoke", "profile=slurm", *overrides), run_root=str(root))
    assert drive.run(declaration, call=call) == 0
    return run_paths(declaration)


def planned(paths: RunPaths, *names: str) -> None:
    """A plan of training runs."""
    plan = PlanRecord(
        format=FORMAT,
        sweep=paths.sweep,
        experiment=paths.experiment,
        version=paths.version,
        points=(),
        stages=tuple(map(stage_record, names)),
    )
    write_json(paths.plan, plan.as_json())
    declared = to_dict(loaded("smoke", "profile=slurm"))
    write_json(paths.sweep_json, {"declaration": declared, "versions": {}, "created": "2026-01-02"})


def stage_record(name: str, *needs: str, kind: str = "train") -> StageRecord:
    """A stage of plan.json."""
    return StageRecord(
        name=name,
        kind=kind,
        point_id=name,
        environment="base",
        fingerprint="f",
        target={},
        needs=needs,
    )


def send(
    paths: RunPaths,
    name: str,
    *stages: str,
    begun: float,
    job_id: str,
    cluster: str | None = None,
) -> None:
    """A batch of training runs, noted and with its card, as it is once sbatch has taken it."""
    batch = JobBatch(name=name, kind="train", stages=stages, begun=begun, cluster=cluster)
    submissions.append(paths.submissions, batch.intent("/code"))
    recover.write_card(paths, batch, "/code")
    submissions.append(paths.submissions, submissions.Submitted(batch=name, job_id=job_id))


def running_on(told: list[list[str]], cluster: str = "near", rows: str = "") -> Call:
    """A cluster whose queue has these rows; what it is told is noted."""
    said = {"squeue": rows, "scontrol": f"ClusterName             = {cluster}\n"}

    def call(command: list[str]) -> str:
        told.append(command)
        return said.get(command[0], "")

    return call


class Queue:
    """A SLURM in this process that remembers what it was sent; jobs wait until they are changed."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        """By id, an element of an array each for itself."""
        self.told: list[list[str]] = []
        self.refusals: dict[str, Exception] = {}
        """What a program raises, by its name."""

    def __call__(self, command: list[str]) -> str:
        self.told.append(command)
        program, last = command[0], command[-1]
        if program in self.refusals:
            raise self.refusals[program]
        match program:
            case "sbatch" if "--test-only" not in command:
                return self._send(Path(last))
            case "squeue":
                names = last.removeprefix("--name=").split(",")
                of_all = not last.startswith("--name=")
                shown = [j for j in self.jobs.values() if of_all or j.name in names]
                return "".join(
                    f"{j.job_id}|{j.name}|{j.state}||0:00|N/A|{j.reason}|{j.command}\n"
                    for j in shown
                )
            case "scancel":
                for job_id in self.jobs:
                    if {job_id, job_id.partition("_")[0]} & {*command[1:]}:
                        self.change(job_id, state="CANCELLED")
            case "scontrol" if command[1:3] == ["show", "config"]:
                return "ClusterName             = near\nMaxArraySize            = 1001\n"
            case "scontrol":
                raise ValueError(scheduler.INVALID_ID)
            case "sinfo":
                return "gpu*|n1|n1|localhost|8|64000|(null)|infinite|idle\n"
        return ""

    def _send(self, script: Path) -> str:
        text = script.read_text()
        options = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S*)", text, re.MULTILINE))
        number = 1 + max((int(job_id.partition("_")[0]) for job_id in self.jobs), default=0)
        size = (
            int(options["array"].partition("-")[2].partition("%")[0]) + 1
            if "array" in options
            else 1
        )
        for index in range(size):
            job_id = f"{number}_{index}" if "array" in options else f"{number}"
            self.jobs[job_id] = Job(
                job_id=job_id, name=options["job-name"], state="PENDING", command=str(script)
            )
        return f"Submitted batch job {number}\n"

    def change(self, job_id: str, **facts: Any) -> None:
        """Set what is shown of a job."""
        self.jobs[job_id] = replace(self.jobs[job_id], **facts)

    def active(self) -> list[Job]:
        """Jobs that wait or run."""
        return [job for job in self.jobs.values() if job.active]
