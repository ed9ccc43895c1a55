"""The tasks of a SLURM step with several nodes, what each tells Ray, and where they meet.

Every task runs the same stage command. They meet in a folder of the stage that is named after job
and restart, so that none takes an earlier attempt for its own:

    nodes/123.0/head.json   {"address": "10.0.0.1:20246", "temporary": "/tmp/ray-x1", "gpus": null}
                            once the head answers; gpus: as Ray is told, null where it counts them
    nodes/123.0/n2.json     {"failed": "..."}, why a node left before the end
    nodes/123.0/over.json   {"exit_code": 0}, once the first task has ended the stage: the others
                            end
    nodes/123.0/n2.log      what `ray start` said on that node
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs import Placement

OBJECT_STORE_BYTES = 200 * 2**20
"""Ray's store of objects on a node without a GPU, for rehearsals."""


@dataclass(frozen=True, kw_only=True)
class SlurmStep:
    """The tasks of a SLURM step, one on each node, and which of them this process is."""

    rank: int
    nodes: tuple[str, ...]
    """SLURM's names of all nodes of the step."""
    node: str
    """That of this one."""
    job: int
    """The job's id."""
    restarts: int
    """How often SLURM has requeued the job."""

    @property
    def key(self) -> str:
        """e.g. 123.0; no two attempts at a stage have the same."""
        return f"{self.job}.{self.restarts}"


def step_of(
    environment: Mapping[str, str], expand: Callable[[str], Sequence[str]]
) -> SlurmStep | None:
    """The step that this process is a task of; None outside SLURM, and where it has one node.

    expand: node names from SLURM's short form.
    """
    if int(environment.get("SLURM_STEP_NUM_NODES", "1")) == 1:
        return None
    return SlurmStep(
        rank=int(environment["SLURM_PROCID"]),
        nodes=tuple(expand(environment["SLURM_STEP_NODELIST"])),
        node=environment["SLURMD_NODENAME"],
        job=int(environment["SLURM_JOB_ID"]),
        restarts=int(environment.get("SLURM_RESTART_COUNT", "0")),
    )


def node_names(short: str) -> list[str]:
    """e.g. n[1-2] -> n1, n2, by SLURM itself."""
    command = ["scontrol", "show", "hostnames", short]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def fake_gpus(placement: Placement, *, nodes: int, reference: bool) -> int:
    """GPUs that Ray is told of on each node where there are none: just so many that a run needs all
    nodes.

    reference: whether a KL penalty asks for a reference model.
    """
    actors = nodes * placement.actor_gpus_per_node * (2 if reference else 1)
    engines = placement.vllm_engines * placement.vllm_tensor_parallel
    if placement.colocate:
        return placement.actor_gpus_per_node
    return math.ceil((actors + engines) / nodes)


def start_arguments(
    step: SlurmStep, address: str, *, gpus: int | None, temporary: Path | None
) -> list[str]:
    """Arguments of `ray start` on this node.

    No port is left to its default: two jobs on one host would both want it. gpus: None lets Ray
    count them. temporary: Ray's folder, which the others take over from the head; None is one of
    those others.
    """
    host, _, port = address.rpartition(":")
    arguments = [f"--node-name={step.node}", "--block", "--disable-usage-stats"]
    arguments += ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]
    if temporary is None:
        arguments += [f"--address={address}"]
    else:
        arguments += ["--head", f"--node-ip-address={host}", f"--port={port}"]
        arguments += [f"--ray-client-server-port={int(port) + 1}", "--include-dashboard=false"]
        arguments += [f"--temp-dir={temporary}"]
    if gpus is not None:
        arguments += [f"--num-gpus={gpus}", f"--num-cpus={2 * gpus}"]
        arguments += [f"--object-store-memory={OBJECT_STORE_BYTES}"]
    return arguments


def missing(step: SlurmStep, joined: Collection[str], *, seconds: float, logs: Path) -> str:
    """What to say where not all nodes have joined in time."""
    absent = [node for node in step.nodes if node not in joined]
    return (
        f"{len(absent)} of {len(step.nodes)} nodes did not join Ray within {seconds:.0f} s: "
        f"{', '.join(absent)}; what Ray said there is in {logs}; raise "
        "profile.placement.start_seconds where nodes are only slow, else see whether they reach "
        "the first one over the network, and name its address for them in FGRPO_RAY_HOST"
    )


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """The folder in which the tasks of a step meet."""

    folder: Path

    @classmethod
    def of(cls, stage: Path, step: SlurmStep) -> Meeting:
        """That of this attempt; stage: the stage's folder."""
        return cls(folder=stage / "openrlhf" / "nodes" / step.key)

    def tell(self, name: str, **facts: str | int | None) -> None:
        """Write <name>.json, whole or not at all."""
        write_json(self.folder / f"{name}.json", facts)

    def read(self, name: str) -> dict[str, Any] | None:
        """What <name>.json says; None where it is not there."""
        path = self.folder / f"{name}.json"
        return read_json(path) if path.exists() else None

    def log(self, node: str) -> Path:
        """What `ray start` said on a node."""
        return self.folder / f"{node}.log"

    def check(self, step: SlurmStep) -> None:
        """RuntimeError with the reason of a node that left."""
        for node in step.nodes:
            reason = (self.read(node) or {}).get("failed")
            if reason is not None:
                raise RuntimeError(f"node {node} failed: {reason}")
