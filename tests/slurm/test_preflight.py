"""What is asked before a sweep is sent, of canned words of SLURM and canned lists of mounts."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from fgrpo_bench.specs import SlurmProfile, config
from sweeps.cli import main
from sweeps.freeze import run_paths
from sweeps.plan import make_plan
from sweeps.slurm import preflight, scheduler
from sweeps.slurm.preflight import file_system
from sweeps.slurm.scheduler import list_nodes
from sweeps.slurm.submit import Sender
from tests.slurm.cluster import Cluster
from tests.slurm.config import CLUSTER_NAME
from tests.support.slurm_programs import Programs

HERE = socket.gethostname()
SINFO = f"""\
gpu*|n1|{HERE}|127.0.0.1|8|64000|gpu:a100:4(S:0-1)|1-12:30:00|idle~
gpu*|n2|{HERE}|localhost|16|32000|(null)|1-12:30:00|drained*
eval|n2|{HERE}|localhost|16|32000|(null)|infinite|drained*
"""
FAR = "gpu*|far1|far1|192.0.2.7|8|64000|(null)|30:00|mixed\n"
MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/fast tmpfs rw 0 0
/dev/sdb /mnt/my\\040disk xfs rw 0 0
lustre@tcp:/scratch /scratch lustre rw 0 0
/dev/sdc /late ext4 rw 0 0
server:/late /late nfs rw 0 0
"""


def test_nodes_are_those_of_the_partition_or_of_the_default() -> None:
    asked: list[list[str]] = []

    def call(command: list[str]) -> str:
        asked.append(command)
        return SINFO

    first, second = list_nodes(None, call)
    assert (first.name, first.cpus, first.memory_mb, first.gpus) == ("n1", 8, 64000, 4)
    assert (first.max_minutes, first.in_service, second.in_service) == (36.5 * 60, True, False)
    every = list_nodes("gpu,eval", call)
    assert [(node.partition, node.name) for node in every] == [
        ("gpu", "n1"),
        ("gpu", "n2"),
        ("eval", "n2"),
    ]
    assert every[2].max_minutes == math.inf
    assert ["--partition=gpu,eval" in command for command in asked] == [False, True]


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("/srv/runs", ("/", "ext4")),
        ("/home/ann/runs", ("/home", "nfs4")),
        ("/home/fast/runs", ("/home/fast", "tmpfs")),
        ("/home/faster", ("/home", "nfs4")),
        ("/mnt/my disk/runs", ("/mnt/my disk", "xfs")),
        ("/late/runs", ("/late", "nfs")),
    ],
)
def test_a_folders_file_system_is_that_of_the_nearest_mount(
    folder: str, found: tuple[str, str]
) -> None:
    assert file_system(Path(folder), MOUNTS) == found


def check(
    tmp_path: Path,
    *overrides: str,
    sinfo: str = SINFO,
    refusal: str | Callable[[], str] = "",
    root: str = "/scratch/x",
    choices: str | None = None,
) -> list[str]:
    """What is said; SLURM answers with the text of `sinfo`, and refuses in the words of
    `refusal`, where there are any. choices: what it says when it is asked for values of a key of
    the profile; None refuses."""
    declaration = config.load("smoke", ["profile=slurm", f"run_root='{root}'", *overrides])
    assert isinstance(declaration.profile, SlurmProfile)
    paths = run_paths(declaration)
    sender = Sender(paths=paths, profile=declaration.profile, code=paths.code, records={})
    (tmp_path / "mounts").write_text(MOUNTS)
    said: list[str] = []

    def call(command: list[str]) -> str:
        if command[0] == "sacctmgr" or ("--format=" in command[-1] and "%P" not in command[-1]):
            if choices is None:
                raise ValueError(f"`{command[0]}` was refused by SLURM: no")
            return choices
        if command[0] == "sinfo":
            return sinfo
        assert command[:2] == ["sbatch", "--test-only"]
        assert Path(command[2]).read_text().startswith("#!/bin/bash")
        words = refusal() if callable(refusal) else refusal
        if words:
            raise ValueError(words)
        return ""

    preflight.check(sender, elements=3, call=call, say=said.append, mounts=tmp_path / "mounts")
    return said


NOT_AVAILABLE = "allocation failure: Requested node configuration is not available"
BAD_POLICY, BAD_ARRAY = "Job violates accounting/QOS policy", "Invalid job array specification"
GPUS = (
    "4 GPUs, and 0 such are in partition gpu, which has 1 node with 8 processors, 64000 MB "
    "and 4 GPUs; 1 node with 16 processors, 32000 MB and 0 GPUs; lower"
)


@pytest.mark.parametrize(
    ("overrides", "refusal", "words"),
    [
        ("", "something else", "^no job was sent: something else$"),
        ("", BAD_POLICY, "lower profile.time_minutes, .* or name another profile.qos"),
        ("cpus_per_task=17", NOT_AVAILABLE, "not available: a stage asks for 1 node with"),
        ("nodes=3", NOT_AVAILABLE, "3 nodes .* 2 such are in partition gpu, .* another"),
        ("gpus_per_node=4 cpus_per_task=16", NOT_AVAILABLE, GPUS),
        ("constraint=big", NOT_AVAILABLE, "although .* look at profile.constraint"),
        ("time_minutes=2191", "", r"2191 is over the 2190 .* \(PartitionTimeLimit"),
        ("max_array_size=9", BAD_ARRAY, "=9 is more than the"),
    ],
)
def test_a_refusal_has_slurms_words_and_the_remedy(
    tmp_path: Path, overrides: str, refusal: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        check(tmp_path, *(f"profile.{key}" for key in overrides.split()), refusal=refusal)


BAD_GPU = "Invalid generic resource (gres) specification"
BAD_QOS = "Invalid qos specification"
BAD_ACCOUNT = "Invalid account or account/partition combination specified"
ASKED = "`sacctmgr show associations format={} user=ann` shows"
QOS = f"'nope', and {ASKED.format('qos')}"


@pytest.mark.parametrize(
    ("override", "refusal", "choices", "words"),
    [
        (
            "partition=x",
            "Invalid partition name specified",
            "gpu\neval\n",
            "'x', and `sinfo` shows gpu, eval",
        ),
        (
            "constraint=x",
            "Invalid feature specification",
            "new,old\nold\n(null)\n",
            "'x', and `sinfo` shows new, old",
        ),
        ("account=null", BAD_ACCOUNT, "lab\nlab\n", f"null, and {ASKED.format('account')} lab"),
        ("qos=nope", BAD_QOS, "normal,short\n", f"{QOS} normal, short"),
        ("qos=nope", BAD_QOS, None, f"{QOS} none: ask the site which there are"),
        (
            "gpus_per_node=1",
            BAD_GPU,
            "cpu|(null)\nbig|license:1,gpu:a100:8\n",
            "1, and GPUs are in partition big: name it as profile.partition",
        ),
        (
            "gpus_per_node=1",
            BAD_GPU,
            "cpu|(null)\n",
            "1, and `sinfo` shows no GPU (gres) in any partition: null asks for none",
        ),
    ],
)
def test_a_refused_name_is_told_with_its_key_and_what_there_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    override: str,
    refusal: str,
    choices: str | None,
    words: str,
) -> None:
    monkeypatch.setattr("pwd.getpwuid", lambda _: SimpleNamespace(pw_name="ann"))
    with pytest.raises(ValueError, match="no job was sent") as refused:
        check(tmp_path, f"profile.{override}", refusal=refusal, choices=choices)
    key = override.partition("=")[0]
    assert str(refused.value) == f"no job was sent: {refusal}: profile.{key}={words}"


def test_memory_that_the_cluster_does_not_declare_is_left_out(tmp_path: Path) -> None:
    undeclared = SINFO.replace("64000", "1").replace("32000", "1")
    with pytest.raises(ValueError, match=r"mem_gb=4 cannot .*RealMemory.* profile.mem_gb=null "):
        check(tmp_path, sinfo=undeclared, refusal=NOT_AVAILABLE)
    assert check(tmp_path, "profile.mem_gb=null", sinfo=undeclared) == []


def test_only_partitions_whose_nodes_fit_a_stage_count_for_its_time(tmp_path: Path) -> None:
    two = ["profile.partition='gpu,eval'", "profile.time_minutes=2191"]
    assert check(tmp_path, *two) == [], "eval has no limit"
    with pytest.raises(
        ValueError, match="2190 minutes that partition gpu, whose nodes alone fit a"
    ):
        check(tmp_path, *two, "profile.mem_gb=40")


def test_a_time_limit_that_slurm_may_signal_at_once_is_warned_of(tmp_path: Path) -> None:
    (warning,) = check(tmp_path, "profile.time_minutes=1", "profile.signal_seconds=20")
    assert "leave a job 40 s before it is told to save, and SLURM may tell it up to 60" in warning
    assert check(tmp_path, "profile.time_minutes=2", "profile.signal_seconds=60") == []


def test_jobs_may_wait_for_nodes_that_are_out_of_service(tmp_path: Path) -> None:
    assert check(tmp_path, refusal="") == []
    (drained,) = check(tmp_path, "profile.cpus_per_task=16", refusal=NOT_AVAILABLE)
    (silent,) = check(tmp_path, sinfo=SINFO.replace("idle~", "idle*"), refusal=NOT_AVAILABLE)
    assert all("in service now, so the jobs will wait" in note for note in (drained, silent))


def test_a_refusal_that_the_nodes_do_not_explain_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    answers = [NOT_AVAILABLE, NOT_AVAILABLE, ""]
    monkeypatch.setattr("time.sleep", waits.append)
    assert check(tmp_path, refusal=lambda: answers.pop(0) if answers else "") == []
    assert (waits, answers) == ([0.5, 1.5], [])


def test_a_run_root_on_a_disk_of_this_machine_is_refused_where_nodes_are_others(
    tmp_path: Path,
) -> None:
    short = "profile.time_minutes=30"
    with pytest.raises(ValueError, match="could not see the run root /srv/x") as refused:
        check(tmp_path, short, root="/srv/x", sinfo=SINFO + FAR)
    said = str(refused.value)
    assert "it lies on /, a disk of this machine alone (ext4), and node far1" in said
    assert "run_root=<folder>" in said
    assert "shared_run_root=true" in said
    assert "interpreter" in said
    assert check(tmp_path, short, root="/srv/x", sinfo=SINFO) == []
    assert check(tmp_path, short, root="/home/x", sinfo=SINFO + FAR) == []
    exported = "profile.shared_run_root=true"
    assert check(tmp_path, short, exported, root="/srv/x", sinfo=SINFO + FAR) == []


GRACES = """\
PartitionName=gpu Default=YES DisableRootJobs=NO GraceTime=60 PreemptMode=REQUEUE
PartitionName=spare Default=NO DisableRootJobs=NO GraceTime=0 PreemptMode=GANG,CANCEL
PartitionName=long Default=NO DisableRootJobs=NO GraceTime=300 PreemptMode=CANCEL
PartitionName=own Default=NO DisableRootJobs=NO GraceTime=0 PreemptMode=OFF
PartitionName=held Default=NO DisableRootJobs=NO GraceTime=0 PreemptMode=SUSPEND,GANG
"""
CHOSEN = ("experiment=qwen2.5-7b", "profile=slurm-8gpu")


def graces_too_short(override: str, call: scheduler.Call) -> list[str]:
    plan = make_plan(config.load("transfer", [*CHOSEN, override]))
    return [*preflight.short_graces(plan, call)]


@pytest.mark.parametrize(
    ("partition", "short"),
    [("null", {"gpu": 60}), ("'gpu,spare,long'", {"gpu": 60, "spare": 0}), ("'own,held'", {})],
)
def test_a_grace_that_is_shorter_than_a_save_is_a_warning(
    partition: str, short: dict[str, int]
) -> None:
    said = graces_too_short(f"profile.partition={partition}", lambda _: GRACES)
    assert len(said) == len(short)
    for text, (name, seconds) in zip(said, short.items(), strict=True):
        assert text.startswith("saving a training state of 91.4 GB takes about 91 s (12 bytes")
        assert f"partition {name} gives jobs that it preempts {seconds} s (GraceTime)" in text
        assert "lower profile.placement.state_every, have GraceTime raised, or name another" in text


def test_where_no_save_is_estimated_slurm_is_not_asked() -> None:
    def call(command: list[str]) -> str:
        raise AssertionError(command)

    assert graces_too_short("profile.save_gb_per_second=null", call) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"cat <<'END'\n{GRACES}END", "warning: saving a training state of 91.4 GB"),
        (
            "echo no controller >&2; exit 1",
            "warning: whether a run that is preempted can save is not known",
        ),
    ],
)
def test_the_plan_says_it(
    script: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Programs(tmp_path / "bin", monkeypatch).install("scontrol", script)
    assert main(["plan", "transfer", *CHOSEN, f"run_root='{tmp_path}'"]) == 0
    assert capsys.readouterr().out.count(said) == 1


def test_a_real_slurm_tells_its_name_its_clock_and_the_graces_of_its_partitions(
    cluster: Cluster,
) -> None:
    assert cluster.run("sinfo", "-h", "-o", "%R").split() == ["gpu", "eval", "high"]
    said = scheduler.show_config()
    assert scheduler.cluster_name(said) == CLUSTER_NAME
    assert scheduler.controllers_clock(said, time.time()) == []
    (warning,) = scheduler.controllers_clock(said, time.time() + 7200)
    assert "ahead of" in warning
    assert preflight.graces("gpu,eval,high", scheduler.call) == {"gpu": 5, "eval": 5}
    assert preflight.graces(None, scheduler.call) == {"gpu": 5}
