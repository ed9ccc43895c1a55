"""Several nodes: one Ray cluster over the nodes of a SLURM step that has one task on each.

The first task starts Ray's head, runs the stage and is the only one to touch its files; the others
join its head, and end when it says so. Where it dies without a word they miss its head. Ray is
started as a child and ended by process id, and with it all that it started; SLURM's signals reach
only the first task's stage, which saves.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fgrpo_bench.engines.openrlhf.ray_place import answers, free_address, own_host, ray_folder
from fgrpo_bench.engines.openrlhf.slurm_step import Meeting, SlurmStep, missing, start_arguments
from fgrpo_bench.engines.processes import deaf, die_with_parent
from fgrpo_bench.stages.stage import EXIT_DONE, EXIT_FAILED, Stopped

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
    where `own_host` does, and Stopped as soon as stopping() holds. gpus: as `start_arguments`
    takes it. Ray's own logs are removed as `ray_folder` says.
    """
    address = free_address(own_host(), step.job)
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
