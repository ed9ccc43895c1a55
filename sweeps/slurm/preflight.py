"""Before anything is sent: does SLURM take it, can it ever run, and do nodes see the files?

`sbatch --test-only` refuses in SLURM's own words. But it also refuses what only has to wait for
nodes that are out of service, and it accepts what is over a partition's time limit and would wait
for ever; there the nodes themselves decide, which one sinfo call lists. What a refusal means for
the profile, the key to change and what there is, is said after its words. Nothing is written.
"""

from __future__ import annotations

import math
import os
import pwd
import re
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from fgrpo_bench import engines
from fgrpo_bench.kinds import KINDS
from fgrpo_bench.specs import SlurmProfile
from sweeps.plan import Plan
from sweeps.slurm.scheduler import Call, Node, list_nodes
from sweeps.slurm.submissions import REPORT, JobBatch, Sending
from sweeps.slurm.submit import Sender
from sweeps.text import counted

PATIENCE_S = (0.5, 1.5)
"""Waits before a refusal is asked for again that what sinfo says of the nodes does not explain."""

EARLY_SECONDS = 60
"""How much earlier than asked SLURM may send a signal ahead of a time limit (sbatch --signal)."""
LARGEST = next(kind.name for kind in KINDS.values() if kind.takes == "profile")
"""The kind whose jobs ask for most."""
MOUNTS = Path("/proc/mounts")
LOCAL = {
    *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "bcachefs", "f2fs", "jfs", "reiserfs"),
    *("tmpfs", "ramfs", "rootfs", "overlay", "squashfs", "vfat", "exfat", "ntfs3", "fuseblk"),
}
"""File systems of one machine; all others are taken for shared ones (nfs4, lustre, gpfs, ...)."""
SHOW = ["scontrol", "show", "partition", "--oneliner"]
UNAVAILABLE = "Requested node configuration is not available"
"""What `sbatch --test-only` says of a request that no node in service fits."""
UNDECLARED_MB = 1
"""Memory that SLURM takes a node for of which slurm.conf says none (RealMemory)."""
SIZES_SHOWN, CHOICES_SHOWN = 4, 12
"""In a refusal."""


def check(
    sender: Sender, *, elements: int, call: Call, say: Callable[[str], None], mounts: Path = MOUNTS
) -> None:
    """Raises ValueError with SLURM's words and the remedy where the jobs could not run.

    elements: of the largest array that will be sent.
    """
    profile = sender.profile
    if "%" in str(sender.paths.root):
        raise ValueError(
            f"run_root={sender.paths.root}: SLURM reads % in the names of files that jobs write as "
            "the beginning of a pattern (%j is a job's id), so they would write elsewhere; name a "
            "folder without %"
        )
    # sbatch --test-only judges a script, so the two that ask for most and for least are tried.
    for kind, size in ((LARGEST, elements), (REPORT, 1)):
        batch = JobBatch(
            name=f"{sender.paths.sweep}-{kind}", kind=kind, stages=("",) * size, begun=0
        )
        refusal, nodes = _ask(sender.text(Sending(batch=batch)), profile, call)
        if refusal is None:
            continue
        # Nodes that are down come back, so that jobs may wait for them.
        if UNAVAILABLE in refusal and _in_service(nodes, profile) < profile.nodes <= _most(
            nodes, profile
        ):
            say("note: too few of the nodes that fit are in service now, so the jobs will wait")
            break
        raise ValueError(f"no job was sent: {refusal}{_explained(refusal, nodes, profile, call)}")
    _check_time(nodes, profile)
    _check_folder(sender.paths.root, nodes, profile, mounts)
    if (warning := _short_turn(profile)) is not None:
        say(warning)


def _ask(text: str, profile: SlurmProfile, call: Call) -> tuple[str | None, list[Node]]:
    """What SLURM has against an sbatch file, None where nothing, and the nodes at that time.

    A node that goes or comes back between the two questions makes them disagree for a moment.
    """
    for wait_s in (*PATIENCE_S, None):
        nodes = list_nodes(profile.partition, call)
        refusal = _refusal(text, call)
        is_explained = refusal is None or UNAVAILABLE not in refusal
        if is_explained or _in_service(nodes, profile) < profile.nodes or wait_s is None:
            break
        time.sleep(wait_s)
    return refusal, nodes


def _refusal(text: str, call: Call) -> str | None:
    """What SLURM has against an sbatch file; None where nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".sh", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        try:
            call(["sbatch", "--test-only", file.name])
        except ValueError as error:
            return " ".join(str(error).split())
    return None


def _most(nodes: Iterable[Node], profile: SlurmProfile) -> int:
    """Most nodes of one partition that fit."""
    return max(_fitting(nodes, profile).values(), default=0)


def _in_service(nodes: Iterable[Node], profile: SlurmProfile) -> int:
    return _most([node for node in nodes if node.in_service], profile)


def _check_time(nodes: Sequence[Node], profile: SlurmProfile) -> None:
    """Only partitions with nodes that fit count: in no other one can the jobs begin."""
    counts = _fitting(nodes, profile)
    fit = [node for node in nodes if counts[node.partition] >= profile.nodes] or nodes
    most = max((node.max_minutes for node in fit), default=math.inf)
    if profile.time_minutes > most:
        where = _partition_names(fit)
        alone = "" if where == _partition_names(nodes) else ", whose nodes alone fit a stage,"
        raise ValueError(
            f"time_minutes={profile.time_minutes} is over the {most:.0f} minutes that "
            f"{where}{alone} allows, so SLURM would leave the jobs waiting for ever "
            "(PartitionTimeLimit); lower profile.time_minutes - a stage that needs longer saves, "
            "is requeued and resumes - or name another profile.partition"
        )


def _short_turn(profile: SlurmProfile) -> str | None:
    """A warning where SLURM may tell a stage to save before it has done anything."""
    before_s = profile.time_minutes * 60 - profile.signal_seconds
    if before_s >= EARLY_SECONDS:
        return None
    return (
        f"warning: profile.time_minutes={profile.time_minutes} and profile.signal_seconds="
        f"{profile.signal_seconds} leave a job {before_s} s before it is told to save, and SLURM "
        f"may tell it up to {EARLY_SECONDS} s early: jobs may do little but load and save, and a "
        "stage that gets no further in several is given up; raise profile.time_minutes"
    )


def _check_folder(root: Path, nodes: Sequence[Node], profile: SlurmProfile, mounts: Path) -> None:
    if profile.shared_run_root or not mounts.exists():
        return
    mount, kind = file_system(root, mounts.read_text(encoding="utf-8", errors="replace"))
    if kind not in LOCAL:
        return
    elsewhere = next((node for node in nodes if not _is_here(node)), None)
    if elsewhere is None:
        return
    python = profile.python or sys.executable
    raise ValueError(
        f"nodes could not see the run root {root}: it lies on {mount}, a disk of this machine "
        f"alone ({kind}), and node {elsewhere.name} of {_partition_names(nodes)} is another "
        "machine; name a folder that all of them see, with run_root=<folder> or "
        "FGRPO_RUN_ROOT=<folder>, or, where this machine exports the disk to them, set "
        "profile.shared_run_root=true. The "
        f"interpreter {python} must be there on the nodes as well (profile.python names another)"
    )


def file_system(folder: Path, mounts: str) -> tuple[str, str]:
    """Mount point and type of the file system that holds a folder, be it there yet or not.

    mounts: the content of /proc/mounts.
    """
    place, best = folder.resolve(), ("/", "")
    for line in mounts.splitlines():
        _, mount, kind, *_ = line.split(" ")
        mount = re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), mount)
        if place.is_relative_to(mount) and len(mount) >= len(best[0]):  # the later covers the older
            best = (mount, kind)
    return best


def _is_here(node: Node) -> bool:
    """Whether a node is this very machine."""
    hostname = socket.gethostname().split(".")[0]
    if hostname == node.host.split(".")[0] or node.address == "localhost":
        return True
    try:
        family, kind, *_, address = socket.getaddrinfo(node.address, 0, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)  # only an address of this machine can be bound
    except OSError:
        return False
    return True


def short_graces(plan: Plan, call: Call) -> Iterator[str]:
    """A warning for each partition that may end a run of the plan before it has saved, or one that
    SLURM did not tell; where no save is estimated it is not asked."""
    profile = plan.declaration.profile
    assert isinstance(profile, SlurmProfile)
    saving = engines.engine_for(plan.points[0].train).save(plan.points[0], profile)
    if saving is None:
        return
    try:
        by_partition = graces(profile.partition, call)
    except (ValueError, ConnectionError) as error:
        yield f"whether a run that is preempted can save is not known: {error}"
        return
    for name, grace in by_partition.items():
        if grace < saving.seconds:
            yield (
                f"{saving}, and partition {name} gives jobs that it preempts {grace} s "
                "(GraceTime): such a run resumes from its last state; lower "
                "profile.placement.state_every, have GraceTime raised, or name another "
                "profile.partition"
            )


def graces(partition: str | None, call: Call) -> dict[str, int]:
    """GraceTime in seconds of those partitions whose jobs preemption may end.

    partition: names with commas, as for sbatch; None is the site's default. Raises as `call` does.
    """
    by_partition = {}
    for line in call(SHOW).splitlines():
        facts = dict(re.findall(r"(\w+)=(\S*)", line))
        name, mode = facts.get("PartitionName", ""), facts.get("PreemptMode", "OFF")
        is_requested = (
            facts.get("Default") == "YES" if partition is None else name in partition.split(",")
        )
        if is_requested and {"REQUEUE", "CANCEL"} & set(mode.split(",")):
            by_partition[name] = (
                int(facts["GraceTime"]) if facts.get("GraceTime", "").isdecimal() else 0
            )
    return by_partition


def _explained(refusal: str, nodes: Sequence[Node], profile: SlurmProfile, call: Call) -> str:
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
    key = next((key for phrase, key in KEYS.items() if phrase in refusal), None)
    return "" if key is None else f": {_key_and_choices(key, profile, call)}"


def _too_large(nodes: Sequence[Node], profile: SlurmProfile) -> str:
    if all(node.memory_mb <= UNDECLARED_MB for node in nodes) and profile.mem_gb is not None:
        return (
            f": profile.mem_gb={profile.mem_gb:g} cannot be had, as {_partition_names(nodes)} "
            "declares no memory of its nodes (no RealMemory in slurm.conf, which counts as 1 MB): "
            "profile.mem_gb=null asks for none"
        )
    n_fitting = max(_fitting(nodes, profile).values(), default=0)
    if n_fitting >= profile.nodes:
        return (
            ", although nodes of this size are in service: look at profile.constraint, "
            "profile.exclude and profile.additional_parameters"
        )
    request = [counted(profile.cpus_per_task, "processor")]
    if profile.mem_gb is not None:
        request.append(f"{_memory_mb(profile)} MB of memory")
    if profile.gpus_per_node is not None:
        request.append(counted(profile.gpus_per_node, "GPU"))
    return (
        f": a stage asks for {counted(profile.nodes, 'node')} with {', '.join(request)}, and "
        f"{n_fitting} such are in {_partition_names(nodes)}, which has {_sizes(nodes)}; "
        "lower profile.nodes, profile.cpus_per_task, profile.mem_gb or profile.gpus_per_node, or "
        "name another profile.partition"
    )


def _fitting(nodes: Iterable[Node], profile: SlurmProfile) -> Counter[str]:
    """By partition, how many nodes have what a stage asks for on each."""
    return Counter(
        node.partition
        for node in nodes
        if node.cpus >= profile.cpus_per_task
        and node.memory_mb >= _memory_mb(profile)
        and node.gpus >= (profile.gpus_per_node or 0)
    )


def _partition_names(nodes: Iterable[Node]) -> str:
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


def _key_and_choices(key: str, profile: SlurmProfile, call: Call) -> str:
    """The value of a key of the profile, and what there is in its place."""
    value = getattr(profile, key)
    setting = f"profile.{key}={'null' if value is None else repr(value)}"
    listing = CHOICES[key]
    if key in ("account", "qos"):
        listing = [*listing, f"user={pwd.getpwuid(os.getuid()).pw_name}"]
    command = " ".join(word for word in listing if not word.startswith("-"))
    try:
        names = [*dict.fromkeys(re.findall(r"[^,\s]+", call(listing).replace("(null)", "")))]
    except (ValueError, ConnectionError):
        names = []
    if not names:
        return f"{setting}, and `{command}` shows none: ask the site which there are"
    more = ", ..." if len(names) > CHOICES_SHOWN else ""
    return f"{setting}, and `{command}` shows {', '.join(names[:CHOICES_SHOWN])}{more}"


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
