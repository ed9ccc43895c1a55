"""The nodes of a partition, as sinfo lists them: their size, their limit, whether they get work."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sweeps.slurm.scheduler import Call

SINFO_FORMAT = "%P|%N|%n|%o|%c|%m|%G|%l|%T"
IN_SERVICE = {"idle", "allocated", "mixed", "completing", "planned", "reserved"}
NOT_RESPONDING = "*"
"""Follows the state of a node that gets no work until the controller hears from it again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """A node in one of its partitions."""

    partition: str
    name: str
    host: str
    """The machine's own name."""
    address: str
    """Where the controller reaches it."""
    cpus: int
    memory_mb: int
    gpus: int
    max_minutes: float
    """The partition's time limit; inf where it has none."""
    in_service: bool


def list_nodes(partition: str | None, call: Call) -> list[Node]:
    """Nodes of the partitions, named with commas as for sbatch; None is the site's default.

    Empty where there is no such partition.
    """
    chosen = [] if partition is None else [f"--partition={partition}"]
    rows = (
        line.split("|")
        for line in call(["sinfo", "-h", "-N", *chosen, f"--format={SINFO_FORMAT}"]).splitlines()
    )
    return [
        _node(row)
        for row in rows
        if len(row) == 9 and (partition is not None or row[0].endswith("*"))
    ]


def _node(row: Sequence[str]) -> Node:
    partition, name, host, address, cpus, memory, gres, limit, state = row
    if not (cpus.isdecimal() and memory.isdecimal()):
        raise ValueError(
            f"`sinfo` printed what makes no sense, so nothing is sent: {'|'.join(row)!r}"
        )
    return Node(
        partition=partition.rstrip("*"),
        name=name,
        host=host,
        address=address,
        cpus=int(cpus),
        memory_mb=int(memory),
        gpus=sum(map(int, re.findall(r"(?:^|,)gpu(?::[^:,()]+)?:(\d+)", gres))),
        max_minutes=_minutes(limit),
        in_service=NOT_RESPONDING not in state and re.sub(r"\W+$", "", state) in IN_SERVICE,
    )


def _minutes(limit: str) -> float:
    """e.g. 1-12:00:00, 4:00:00, 30:00 or infinite."""
    days, _, clock = limit.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts):
        return math.inf
    hours, minutes, seconds = [0] * (3 - len(parts)) + list(map(int, parts))
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60
