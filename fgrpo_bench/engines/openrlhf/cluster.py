"""The Ray of a run, on one node or over the nodes of a SLURM step that has one task on each.

The first task starts Ray's head, runs the stage and is the only one to touch its files; the others
join its head, and end when it says so. Where it dies without a word they miss its head. Ray is
started as a child and ended by process id, and with it all that it started; SLURM's signals reach
only the first task's stage, which saves.

Every task runs the same stage command. They meet in a folder of the stage that is named after job
and restart, so that none takes an earlier attempt for its own:

    nodes/123.0/head.json   {"address": "10.0.0.1:20246", "temporary": "/tmp/ray-x1", "gpus": null}
                            once the head answers; gpus: as Ray is told, null where it counts them
    nodes/123.0/n2.json     {"failed": "..."}, why a node left before the end
    nodes/123.0/over.json   {"exit_code": 0}, once the first task has ended the stage: the others
                            end
    nodes/123.0/n2.log      what `ray start` said on that node

Ray is in a folder and at an address of its own: left to itself it takes part in whatever cluster
the node's temporary folder names, be it somebody else's or long dead, and puts its sockets below
that folder however long its path is.
"""

from __future__ import annotations

import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgrpo_bench.engines.processes import deaf, die_with_parent, short_folder
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs import Placement
from fgrpo_bench.stages.stage import EXIT_DONE, EXIT_FAILED, Stopped

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


def slurm_step(
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
    def from_step(cls, stage: Path, step: SlurmStep) -> Meeting:
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


HOST = "FGRPO_RAY_HOST"
"""Environment variable: the first node's address for the others, where Ray does not find it."""
FIRST_PORT, PAIRS = 20_000, 5_000
"""Ports of heads, two each: below those that outgoing connections are given."""
LONGEST_SOCKET = "/ray-12345678/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.9"
"""As long as any that Ray makes below the folder for temporary files; process ids have up to seven
digits."""


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A new folder for Ray's sockets and logs, removed at the end.

    Where an exception other than Stopped and SystemExit ends it, the folder stays for its logs and
    is named.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir=short_folder(LONGEST_SOCKET)))
    keep = False
    try:
        yield folder
    except Exception as error:
        keep = not isinstance(error, Stopped)
        raise
    finally:
        if keep:
            print(f"Ray's logs are in {folder} on each node of the run", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def node_address() -> str:
    """The address of this node for others: FGRPO_RAY_HOST, else that of its default route.

    ValueError where the variable names no address of this node.
    """
    named = os.environ.get(HOST)
    if not named:
        import ray

        return str(ray.util.get_node_ip_address())
    with socket.socket() as probe:
        try:
            probe.bind((named, 0))
        except OSError as error:
            raise ValueError(
                f"{HOST}={named!r} is no address of {socket.gethostname()}, the first node: take "
                "one that `hostname -I` lists there"
            ) from error
        return str(probe.getsockname()[0])


def free_address(host: str, job: int) -> str:
    """Where the head of a job can listen, at two ports in a row; RuntimeError where none is free.

    host: an address of this machine.
    """
    for turn in range(PAIRS):
        # each job begins at a pair of its own, so that two on one host seldom try the same
        port = FIRST_PORT + 2 * ((job + turn) % PAIRS)
        if _is_free(host, port) and _is_free(host, port + 1):
            return f"{host}:{port}"
    raise RuntimeError(
        f"no port for Ray's head is free on {host} between {FIRST_PORT} and "
        f"{FIRST_PORT + 2 * PAIRS}: free some"
    )


def _is_free(host: str, port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def answers(address: str) -> bool:
    """Whether a server listens there."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=2):
        return True
    return False


POLL_SECONDS = 0.5
"""Between looks at the other nodes."""
LOST_SECONDS = 10.0
"""How long a head may not answer before a node gives it up."""
NOTICE_SECONDS = 25.0
"""Ray takes about half as long to notice that a node has gone without a word."""


@dataclass(frozen=True, kw_only=True)
class RunningRay:
    """Ray on all nodes of a step."""

    address: str
    """Of its head, host:port."""
    check: Callable[[], None]
    """Raises RuntimeError with the name of a node that is lost."""


@contextmanager
def ray_over(
    step: SlurmStep,
    meeting: Meeting,
    *,
    seconds: float,
    gpus: int | None,
    stopping: Callable[[], bool],
) -> Iterator[RunningRay]:
    """Ray on all nodes of the step; for the first task.

    Entering raises RuntimeError where a node is lost, or not there after `seconds`, ValueError
    where `node_address` does, and Stopped as soon as stopping() holds. gpus: as `start_arguments`
    takes it. Ray's own logs are removed as `ray_folder` says.
    """
    address = free_address(node_address(), step.job)
    with ray_folder() as temporary:
        head = start(step, meeting, address, gpus=gpus, temporary=temporary)
        nodes = RayNodes(address)

        def check() -> None:
            if head.poll() is not None:
                raise RuntimeError(f"node {step.node} failed: {ended(step, meeting, head)}")
            meeting.check(step)
            lost = [node for node in step.nodes if nodes.states().get(node) is False]
            if lost:
                raise RuntimeError(f"node {', '.join(lost)} failed: Ray lost it without a word")

        deadline = time.monotonic() + seconds
        try:
            while True:
                check()
                joined = {node for node, alive in nodes.states().items() if alive}
                if joined.issuperset(step.nodes):
                    break
                # only once the head itself has joined: before, others would find nobody there
                if joined and meeting.read("head") is None:
                    meeting.tell("head", address=address, temporary=str(temporary), gpus=gpus)
                if stopping():
                    raise Stopped("nothing was begun: Ray was only being started")
                if time.monotonic() > deadline:
                    raise RuntimeError(missing(step, joined, seconds=seconds, logs=meeting.folder))
                time.sleep(POLL_SECONDS)
            print(f"Ray runs at {address} on {', '.join(step.nodes)}", flush=True)
            yield RunningRay(address=address, check=check)
        finally:
            end(head)


def blame(check: Callable[[], None]) -> None:
    """Give Ray the time to notice whether a node was lost, and raise what `check` raises."""
    deadline = time.monotonic() + NOTICE_SECONDS
    while time.monotonic() < deadline:
        check()
        time.sleep(POLL_SECONDS)


def join(step: SlurmStep, meeting: Meeting) -> int:
    """What all tasks but the first do; returns the exit code when the first is over.

    There is no limit to the wait for its head: it first reads its files, and where it fails, it
    says so, or SLURM ends the others soon after it.
    """
    with deaf():  # the first task saves, then ends this one
        while (head := meeting.read("head")) is None:
            if meeting.read("over") is not None:
                return EXIT_DONE
            time.sleep(POLL_SECONDS)
        ray = start(step, meeting, head["address"], gpus=head["gpus"], temporary=None)
        try:
            reason = _stay(step, meeting, ray, head["address"])
        finally:
            end(ray)
    if reason is not None:
        print(f"node {step.node} failed: {reason}", file=sys.stderr, flush=True)
        return EXIT_FAILED
    # after a failure Ray's logs stay on every node, as `ray_folder` says
    if (meeting.read("over") or {})["exit_code"] != EXIT_FAILED:
        shutil.rmtree(head["temporary"], ignore_errors=True)
    return EXIT_DONE


def _stay(
    step: SlurmStep, meeting: Meeting, ray: subprocess.Popen[bytes], address: str
) -> str | None:
    """Wait until the first task is over; returns the reason where this node fails before."""
    heard = time.monotonic()
    while meeting.read("over") is None:
        if ray.poll() is not None:
            reason = ended(step, meeting, ray)
            meeting.tell(step.node, failed=reason)
            return reason
        if answers(address):
            heard = time.monotonic()
        if time.monotonic() - heard > LOST_SECONDS:
            return f"Ray's head at {address} is gone"
        time.sleep(POLL_SECONDS)
    return None


class RayNodes:
    """The nodes of a Ray cluster, as its head knows them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._client: Any = None

    def states(self) -> dict[str, bool]:
        """Whether each node is alive, by name; empty where the head does not answer."""
        from ray._raylet import GcsClient
        from ray.core.generated.gcs_pb2 import GcsNodeInfo
        from ray.exceptions import RpcError

        if self._client is None:
            if not answers(self.address):
                return {}
            self._client = GcsClient(address=self.address)
        try:
            rows = self._client.get_all_node_info(timeout=5).values()
        except RpcError:
            return {}
        return {row.node_name: row.state == GcsNodeInfo.ALIVE for row in rows}


def start(
    step: SlurmStep, meeting: Meeting, address: str, *, gpus: int | None, temporary: Path | None
) -> subprocess.Popen[bytes]:
    """`ray start` on this node; it ends with this process, and all that it started with it."""
    arguments = start_arguments(step, address, gpus=gpus, temporary=temporary)
    meeting.folder.mkdir(parents=True, exist_ok=True)
    with meeting.log(step.node).open("wb") as log, deaf():
        return subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )


def end(ray: subprocess.Popen[bytes]) -> None:
    """Kill `ray start`, and so what it started, which would wait for a signal that never comes."""
    ray.kill()
    ray.wait()


def ended(step: SlurmStep, meeting: Meeting, ray: subprocess.Popen[bytes]) -> str:
    """How `ray start` ended, in one line."""
    lines = meeting.log(step.node).read_text(errors="replace").split("\n")
    output = [line.strip() for line in lines if line.strip()]
    last = f"; it said: {output[-1]}" if output else ""
    return f"Ray ended there with exit code {ray.returncode}{last}"
