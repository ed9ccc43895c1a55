"""Why jobs wait, in SLURM's words: which of its reasons no waiting ends, and what helps then.

The reasons are those that SLURM 22.05 knows, and those that its source has since (as far as
MpiPortsBusy in job_state_reason.c).
"""

from __future__ import annotations

import re

NEVER = {
    "DependencyNeverSatisfied": "its input failed",
    "launch failed requeued held": "SLURM could not launch it and holds it",
    "BadConstraints": "no node can ever fit what it asks for",
}
"""Reasons of a pending job that it cannot get over by waiting, in words; it is cancelled."""


def _again(words: str, change: str) -> str:
    return f"{words} give `run` with {change}, which sends them again"


PARTITION = "another profile.partition"
ELSEWHERE = "another profile.qos or profile.account"
LESS = "the quality of service or the account allows a job less"
LIMITS = {
    "PartitionTimeLimit": _again(
        "the partition allows less time now than the jobs ask for:",
        f"a lower profile.time_minutes or {PARTITION}",
    ),
    "PartitionNodeLimit": _again(
        "the partition allows fewer nodes now:", f"a lower profile.nodes or {PARTITION}"
    ),
    "PartitionConfig": _again(
        "`scontrol show partition` tells what the partition allows:", f"less or with {PARTITION}"
    ),
    "PartitionDown": _again("the partition starts no jobs now: wait, or", PARTITION),
    "PartitionInactive": _again("the partition takes no jobs now: wait, or", PARTITION),
    "AccountNotAllowed": _again(
        "the partition no longer takes this account:", f"another profile.account or {PARTITION}"
    ),
    "QOSNotAllowed": _again(
        "the partition no longer takes this quality of service:",
        f"another profile.qos or {PARTITION}",
    ),
    "InvalidAccount": _again("the account is not there any more:", "another profile.account"),
    "InvalidQOS": _again("the quality of service is not there any more:", "another profile.qos"),
    "MaxMemPerLimit": _again("the site allows a job less memory:", "a lower profile.mem_gb"),
    "Reservation(Deleted|Invalid)": _again(
        "the reservation is gone:", "another profile.additional_parameters.reservation"
    ),
    r"(QOS|Assoc)MaxWall\w+": _again(f"{LESS} time:", f"a lower {{key}} or {ELSEWHERE}"),
    r"(QOS|Assoc)Max\w+MinutesPerJob(Limit)?": _again(
        f"{LESS} of this, counted by the minute:",
        f"a lower profile.time_minutes or {{key}}, or {ELSEWHERE}",
    ),
    r"(QOS|Assoc)Max\w+Per(Job|Node)(Limit)?": _again(
        f"{LESS} of this:", f"a lower {{key}} or {ELSEWHERE}"
    ),
    r"QOSMin\w+": _again(
        "the quality of service asks a job to take more of this:",
        "a higher {key} or another profile.qos",
    ),
    r"(QOS|Assoc)Grp(\w+(?<!Run)Minutes|Wall)(Limit)?|(QOS|Association)TimeLimit": _again(
        "what the site grants the quality of service or the account is used up, or what is left is "
        "less than the jobs ask for: ask the site, or",
        f"a lower profile.time_minutes or {ELSEWHERE}",
    ),
    "JobHeldUser": "somebody holds them: `scontrol release <job>` lets them go",
    "JobHoldMaxRequeue|job.requeued.in.held.state": "SLURM holds them since they were requeued: "
    "`scontrol release <job>` lets them go",
    "JobHeldAdmin": "the site holds them: ask it",
}
"""What somebody's hand can do about a reason of a pending job that no waiting ends, by a pattern of
reasons, of which the first that fits counts. A limit on what all jobs have together
(QOSGrpCpuLimit, QOSMaxJobsPerUserLimit) is not among them: others end, and make room."""
KEYS = {
    "Cpu": "profile.cpus_per_task",
    "GRES": "profile.gpus_per_node",
    "Mem": "profile.mem_gb",
    "Node": "profile.nodes",
    "Wall": "profile.time_minutes",
}
"""What asks for that of which a limit of a quality of service or an account speaks."""


def remedy(reason: str) -> str | None:
    """What helps jobs that wait for this reason; None where waiting does, or nothing is known."""
    words = next((each for form, each in LIMITS.items() if re.fullmatch(form, reason)), None)
    if words is None:
        return None
    limited = re.match(rf"\w+?(?:Max|Min)({'|'.join(KEYS)})", reason)
    return words.format(key="demand" if limited is None else KEYS[limited[1]])
