"""What SLURM's refusal of a job means for the profile: the key to change, and what there is."""

from __future__ import annotations

import os
import pwd
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from fgrpo_bench.specs import SlurmProfile
from sweeps.slurm.scheduler import Call, Node
from sweeps.text import counted

UNAVAILABLE = "Requested node configuration is not available"
"""What `sbatch --test-only` says of a request that no node in service fits."""
UNDECLARED_MB = 1
"""Memory that SLURM takes a node for of which slurm.conf says none (RealMemory)."""
SIZES_SHOWN, CHOICES_SHOWN = 4, 12


def explained(refusal: str, nodes: Sequence[Node], profile: SlurmProfile, call: Call) -> str:
    """The remedy, to follow SLURM's words; empty where none is known.

    nodes: of the profile's partition. SLURM is asked for what there is to choose; where it gives no
    answer, the words say whom to ask.
    """
    if UNAVAILABLE in refusal:
        return _too_large(nodes, profile) if nodes else ""
    if "Invalid generic resource (gres) specification" in refusal:
        return f": {_gpus(profile, call)}"
    if "Invalid job array specification" in refusal:
        return (
            f": profile.max_array_size={profile.max_array_size} is more than the site's "
            "MaxArraySize; null asks the site"
        )
    if "Job violates accounting/QOS policy" in refusal:
        return (
            ": lower profile.time_minutes, profile.cpus_per_task, profile.mem_gb or "
            "profile.gpus_per_node, run fewer points at once, or name another profile.qos or "
            "profile.account; "
            "`sacctmgr show qos` and `sacctmgr show associations` tell the limits"
        )
    key = next((key for words, key in KEYS.items() if words in refusal), None)
    return "" if key is None else f": {_of_key(key, profile, call)}"


def _too_large(nodes: Sequence[Node], profile: SlurmProfile) -> str:
    if all(node.memory_mb <= UNDECLARED_MB for node in nodes) and profile.mem_gb is not None:
        return (
            f": profile.mem_gb={profile.mem_gb:g} cannot be had, as {partition_of(nodes)} declares "
            "no memory of its nodes (no RealMemory in slurm.conf, which counts as 1 MB): "
            "profile.mem_gb=null asks for none"
        )
    n_fitting = max(fitting(nodes, profile).values(), default=0)
    if n_fitting >= profile.nodes:
        return (
            ", although nodes of this size are in service: look at profile.constraint, "
            "profile.exclude and profile.additional_parameters"
        )
    asked = [counted(profile.cpus_per_task, "processor")]
    if profile.mem_gb is not None:
        asked.append(f"{_memory_mb(profile)} MB of memory")
    if profile.gpus_per_node is not None:
        asked.append(counted(profile.gpus_per_node, "GPU"))
    return (
        f": a stage asks for {counted(profile.nodes, 'node')} with {', '.join(asked)}, and "
        f"{n_fitting} such are in {partition_of(nodes)}, which has {_sizes(nodes)}; "
        "lower profile.nodes, profile.cpus_per_task, profile.mem_gb or profile.gpus_per_node, or "
        "name another profile.partition"
    )


def fitting(nodes: Iterable[Node], profile: SlurmProfile) -> Counter[str]:
    """By partition, how many nodes have what a stage asks for on each."""
    return Counter(
        node.partition
        for node in nodes
        if node.cpus >= profile.cpus_per_task
        and node.memory_mb >= _memory_mb(profile)
        and node.gpus >= (profile.gpus_per_node or 0)
    )


def partition_of(nodes: Iterable[Node]) -> str:
    """e.g. `partition gpu,eval`."""
    return "partition " + ",".join(dict.fromkeys(node.partition for node in nodes))


def _memory_mb(profile: SlurmProfile) -> int:
    return round((profile.mem_gb or 0) * 1024)


def _sizes(nodes: Iterable[Node]) -> str:
    """e.g. `2 nodes with 8 processors, 64000 MB and 4 GPUs; 1 node with ...`, the most common
    first."""
    by_name = {node.name: (node.cpus, node.memory_mb, node.gpus) for node in nodes}
    sizes = Counter(by_name.values()).most_common()
    shown = [
        f"{counted(count, 'node')} with {counted(cpus, 'processor')}, {memory_mb} MB and "
        f"{counted(gpus, 'GPU')}"
        for (cpus, memory_mb, gpus), count in sizes[:SIZES_SHOWN]
    ]
    return "; ".join(shown) + ("; ..." if len(sizes) > SIZES_SHOWN else "")


def _of_key(key: str, profile: SlurmProfile, call: Call) -> str:
    """The value of a key of the profile, and what there is in its place."""
    value = getattr(profile, key)
    told = f"profile.{key}={'null' if value is None else repr(value)}"
    asked = CHOICES[key]
    if key in ("account", "qos"):
        asked = [*asked, f"user={pwd.getpwuid(os.getuid()).pw_name}"]
    command = " ".join(word for word in asked if not word.startswith("-"))
    try:
        names = [*dict.fromkeys(re.findall(r"[^,\s]+", call(asked).replace("(null)", "")))]
    except (ValueError, ConnectionError):
        names = []
    if not names:
        return f"{told}, and `{command}` shows none: ask the site which there are"
    more = ", ..." if len(names) > CHOICES_SHOWN else ""
    return f"{told}, and `{command}` shows {', '.join(names[:CHOICES_SHOWN])}{more}"


def _gpus(profile: SlurmProfile, call: Call) -> str:
    try:
        rows = [line.split("|") for line in call(["sinfo", "-h", "--format=%R|%G"]).splitlines()]
    except (ValueError, ConnectionError):
        rows = []
    having = [*dict.fromkeys(name for name, *gres in rows if "gpu" in "".join(gres))]
    return f"profile.gpus_per_node={profile.gpus_per_node}, and " + (
        f"GPUs are in partition {', '.join(having)}: name it as profile.partition"
        if having
        else "`sinfo` shows no GPU (gres) in any partition: null asks for none"
    )


_SINFO = ["sinfo", "-h"]
_SACCTMGR = ["sacctmgr", "-n", "-P", "show", "associations"]
CHOICES = {
    "partition": [*_SINFO, "--format=%R"],
    "constraint": [*_SINFO, "--format=%f"],
    "exclude": [*_SINFO, "-N", "--format=%N"],
    "account": [*_SACCTMGR, "format=account"],
    "qos": [*_SACCTMGR, "format=qos"],
}
"""What lists the values that a key of the profile may have, separated by commas or white space."""
KEYS = {
    "Invalid partition name specified": "partition",
    "User's group not permitted to use this partition": "partition",
    "Invalid feature specification": "constraint",
    "Invalid node name specified": "exclude",
    "Invalid account or account/partition combination specified": "account",
    "Invalid qos specification": "qos",
}
"""The key that a refusal in these words of SLURM's is about."""
