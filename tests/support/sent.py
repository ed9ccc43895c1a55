"""A sweep that was sent to SLURM, as its files tell, and a cluster that says what it is told to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import to_dict
from fgrpo_bench.stages.plan import FORMAT, PlanRecord, StageRecord
from sweeps.freeze import run_paths
from sweeps.slurm import drive, recover, scheduler, submissions
from sweeps.slurm.scheduler import Call
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
