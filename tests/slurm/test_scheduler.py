"""What SLURM's programs print, as canned text, and what is asked of them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from sweeps.slurm import scheduler
from sweeps.slurm.decide import NEVER
from sweeps.slurm.scheduler import FAILURES, elements, parse

SQUEUE = """\
41|smoke-train-1f|PENDING||0:00|N/A|DependencyNeverSatisfied
42_0|smoke-train-2a|RUNNING|n[1-2]|1-02:03:04|2026-11-22T10:00:00|None
42_1|smoke-train-2a|PENDING||0:00|N/A|launch failed requeued held
42_2|smoke-train-2a|SUSPENDED|n3|0:10|N/A|None
42_3|smoke-train-2a|COMPLETING|n3|0:10|2026-11-21T10:00:00|NonZeroExitCode
42_4|smoke-train-2a|PREEMPTED|n3|0:10|2026-11-21T10:00:00|None
43_[5-7%2]|smoke-train-2a|PENDING||0:00|N/A|ReqNodeNotAvail, UnavailableNodes:n[1|2]
"""
SACCT = """\
42_0|smoke-train-2a|OUT_OF_MEMORY|n1|00:00:09|2026-11-21T10:00:00|None
42_1|smoke-train-2a|NODE_FAIL|n1|00:00:09|2026-11-21T10:00:00|None
42_2|smoke-train-2a|CANCELLED by 0|None assigned|00:00:00|2026-11-21T10:00:00|Dependency
42_3|smoke-train-2a|TIMEOUT|n1|00:00:09|2026-11-21T10:00:00|None
42_4|smoke-train-2a|REQUEUED|n1|00:00:09|Unknown|None
42_[5-6,9%8]|smoke-train-2a|PENDING|None assigned|00:00:00|Unknown|None
"""


def test_squeue_tells_state_node_and_reason_of_every_element() -> None:
    jobs = parse(SQUEUE)
    assert list(jobs) == ["41", "42_0", "42_1", "42_2", "42_3", "42_4", "43_5", "43_6", "43_7"]
    assert jobs["41"].reason in NEVER and jobs["42_1"].reason in NEVER
    running = jobs["42_0"]
    assert (running.state, running.node, running.elapsed) == ("RUNNING", "n[1-2]", "1-02:03:04")
    assert (running.reason, running.ended) == ("", None)
    assert [job_id for job_id, job in jobs.items() if not job.active] == ["42_4"]
    assert jobs["42_4"].ended == datetime(2026, 11, 21, 10).timestamp()
    assert jobs["43_7"].reason == "ReqNodeNotAvail, UnavailableNodes:n[1|2]"


def test_sacct_tells_how_jobs_ended() -> None:
    jobs = parse(SACCT)
    ended = {job_id: FAILURES[job.state] for job_id, job in jobs.items() if not job.active}
    assert ended == {
        "42_0": "out of memory",
        "42_1": "node failure",
        "42_2": "cancelled",
        "42_3": "timed out",
    }
    assert jobs["42_4"].active and jobs["42_9"].active
    assert jobs["42_2"].node == ""


@pytest.mark.parametrize(
    ("row", "ids"),
    [
        ("7", ["7"]),
        ("7_3", ["7_3"]),
        ("7_[0-2]", ["7_0", "7_1", "7_2"]),
        ("7_[0-4:2,9%3]", ["7_0", "7_2", "7_4", "7_9"]),
    ],
)
def test_array_ranges_are_spelled_out(row: str, ids: list[str]) -> None:
    assert elements(row) == (ids, True)


def test_all_names_are_asked_for_in_one_call_and_no_names_in_none() -> None:
    asked: list[list[str]] = []

    def call(command: list[str]) -> str:
        asked.append(command)
        return ""

    assert scheduler.squeue(["b", "a"], call) == scheduler.squeue([], call) == {}
    assert scheduler.sacct([], call) == scheduler.sacct(["a"], call) == {}
    scheduler.scancel([], call)
    assert [command[0] for command in asked] == ["squeue", "sacct"]
    assert "--name=a,b" in asked[0]


def test_more_names_than_an_argument_holds_are_asked_for_in_several_calls() -> None:
    rows = {name: f"{name}|b{name}|RUNNING|n1|0:10|N/A|None\n" for name in map(str, range(2500))}

    def call(command: list[str]) -> str:
        names = command[-1].removeprefix("--name=").split(",")
        assert len(command[-1]) < 2**17
        return "".join(rows[name[1:]] for name in names) if len(names) > 500 else "<html>"

    answer = scheduler.squeue([f"b{name}" for name in rows], call)
    assert len(answer) == 2000 and answer.nonsense == "<html>"


def test_what_a_shell_sets_for_slurms_programs_does_not_reach_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only where their cluster is."""
    hidden = "SQUEUE_PARTITION SACCT_FORMAT SCANCEL_STATE SINFO_PARTITION SLURM_TIME_FORMAT"
    hidden += " SBATCH_EXPORT SBATCH_JOB_NAME SRUN_CPUS_PER_TASK SLURM_MEM_PER_CPU SLURM_JOB_ID"
    for name in hidden.split():
        monkeypatch.setenv(name, "mine")
    for name in scheduler.KEPT:
        monkeypatch.setenv(name, "near")
    lines = scheduler.call(["env"]).splitlines()
    assert {*(f"{name}=near" for name in scheduler.KEPT), "SLURM_TIME_FORMAT=standard"} <= {*lines}
    assert not [line for line in lines if line.endswith("=mine")]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ("SBATCH_TIMELIMIT", "SBATCH_TIMELIMIT (profile.time_minutes)"),
        (
            "SBATCH_PARTITION SBATCH_CORE_SPEC",
            "SBATCH_CORE_SPEC (profile.additional_parameters.core_spec), "
            "SBATCH_PARTITION (profile.partition)",
        ),
        ("SBATCH_EXPORT", "SBATCH_EXPORT (a sweep sets that itself)"),
        ("SBATCH_CLUSTERS", "SBATCH_CLUSTERS (SLURM_CLUSTERS names a cluster to all programs)"),
        ("SLURM_CPU_BIND", "SLURM_CPU_BIND (profile.setup: 'export SLURM_CPU_BIND=...')"),
        ("SLURM_CPU_BIND SLURM_JOB_ID", None),
        ("SLURM_CONF SLURM_TIME_FORMAT SQUEUE_FORMAT HOME", None),
    ],
)
def test_what_of_it_would_change_a_profile_is_told_with_what_does_the_same(
    names: str, told: str | None
) -> None:
    """In a job, SLURM_* are the job's."""
    note = "note: jobs ask for what the profile says, so this is ignored: "
    assert scheduler.ignored(dict.fromkeys(names.split(), "1")) == ([note + told] if told else [])


def test_jobs_that_were_renamed_are_told_by_the_folder_of_what_they_run() -> None:
    script = f"/my runs/slurm/smoke-train-2a/{'0f' * 16}.sh"
    rows = f"7_0|mywork|RUNNING|n1|0:10|N/A|None|{script}\n8|other|RUNNING|n1|0:10|N/A|None|/x.sh\n"
    rows += (
        f"9|smoke-train-2a|PENDING||0:00|N/A|ReqNodeNotAvail, UnavailableNodes:n[1|2]|{script}\n"
    )
    told = list[list[str]]()
    jobs = scheduler.squeue_by_user(queue_of(rows, told))
    named = {job_id: (job.name, job.shown_name) for job_id, job in jobs.items()}
    assert named == {
        "7_0": ("smoke-train-2a", "mywork"),
        "8": ("other", ""),
        "9": ("smoke-train-2a", ""),
    }
    assert jobs["9"].reason == "ReqNodeNotAvail, UnavailableNodes:n[1|2]"
    scheduler.scancel([jobs["7_0"]], queue_of(rows, told))
    assert told == [["scancel", "7"]]


def test_the_site_names_its_largest_array() -> None:
    said = "MailProg                = /bin/mail\nMaxArraySize            = 1001\nMaxJobCount = 5\n"
    assert scheduler.max_array_size(said) == 1001
    with pytest.raises(ValueError, match=r"set profile\.max_array_size"):
        scheduler.max_array_size("")


def queue_of(rows: str, told: list[list[str]], refusal: str = "") -> scheduler.Call:
    """squeue shows these rows; what else is asked is noted, and refused with `refusal` if any."""

    def call(command: list[str]) -> str:
        if command[0] == "squeue":
            return rows
        told.append(command)
        if refusal:
            raise ValueError(refusal)
        return ""

    return call


def test_cancelling_what_is_gone_is_no_error_but_other_refusals_are() -> None:
    row, told = "7|a|RUNNING|n1|0:10|N/A|None\n", list[list[str]]()
    jobs = parse(row).values()
    scheduler.scancel(jobs, queue_of("", told))
    assert told == []
    gone = "scancel: error: Kill job error on job id 7: Invalid job id specified"
    scheduler.scancel(jobs, queue_of(row, told, gone))
    with pytest.raises(ValueError, match="Access/permission denied"):
        scheduler.scancel(jobs, queue_of(row, told, "scancel: error: Access/permission denied"))
    assert told == [["scancel", "7"]] * 2


def test_an_id_that_another_job_has_by_now_is_not_cancelled() -> None:
    told = list[list[str]]()
    jobs = parse("7|a|PENDING||0:00|N/A|None\n8|b|PENDING||0:00|N/A|None\n").values()
    now = "7|innocent|RUNNING|n1|0:10|N/A|None\n8|b|RUNNING|n1|0:10|N/A|None\n"
    scheduler.scancel(jobs, queue_of(now, told))
    assert told == [["scancel", "8"]]


def test_an_array_is_cancelled_whole_only_where_none_of_it_is_to_be_spared() -> None:
    told = list[list[str]]()
    rows = "7_[0-2]|a|PENDING||0:00|N/A|None\n8_[0-1]|b|PENDING||0:00|N/A|None\n"
    jobs = [job for job_id, job in parse(rows).items() if job_id != "7_1"]
    scheduler.scancel(jobs, queue_of(rows, told))
    assert told == [["scancel", "7_0", "7_2", "8"]]


def test_errors_are_in_the_schedulers_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"no `squeue` in PATH; log in .* or use profile=local"):
        scheduler.squeue(["a"])
    said_by(tmp_path / "squeue", "slurm_load_jobs error: Invalid job name")
    with pytest.raises(ValueError, match="refused by SLURM: slurm_load_jobs error: Invalid job n"):
        scheduler.squeue(["a"])


def test_slurm_without_a_cluster_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said_by(tmp_path / "sinfo", f"error: Unknown host\nsinfo: fatal: {scheduler.NO_CLUSTER}")
    with pytest.raises(ValueError, match=r"`sinfo` finds no configuration of a cluster") as refused:
        scheduler.call(["sinfo"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("words", scheduler.UNREACHABLE)
def test_no_answer_is_told_apart_from_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    said_by(tmp_path / "squeue", f"slurm_load_jobs error: {words}")
    with pytest.raises(ConnectionError, match=f"cannot reach SLURM: .*{words}"):
        scheduler.squeue(["a"])


def said_by(program: Path, words: str) -> None:
    program.write_text(f"#!/bin/sh\necho '{words}' >&2; exit 1\n")
    program.chmod(0o755)
