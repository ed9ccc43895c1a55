"""Whether a run that is preempted can save first, on canned words of SLURM and on its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.specs import config
from sweeps.cli import main
from sweeps.plan import Plan, make_plan
from sweeps.slurm import preflight, scheduler
from tests.slurm.cluster import Cluster
from tests.slurm.config import CLUSTER_NAME
from tests.support.slurm_programs import Programs

WORDS = """\
PartitionName=gpu Default=YES DisableRootJobs=NO GraceTime=60 PreemptMode=REQUEUE
PartitionName=spare Default=NO DisableRootJobs=NO GraceTime=0 PreemptMode=GANG,CANCEL
PartitionName=long Default=NO DisableRootJobs=NO GraceTime=300 PreemptMode=CANCEL
PartitionName=own Default=NO DisableRootJobs=NO GraceTime=0 PreemptMode=OFF
PartitionName=held Default=NO DisableRootJobs=NO GraceTime=0 PreemptMode=SUSPEND,GANG
"""
CHOSEN = ("experiment=qwen2.5-7b", "profile=slurm-8gpu")


def plan(*overrides: str) -> Plan:
    return make_plan(config.load("transfer", [*CHOSEN, *overrides]))


@pytest.mark.parametrize(
    ("partition", "short"),
    [("null", {"gpu": 60}), ("'gpu,spare,long'", {"gpu": 60, "spare": 0}), ("'own,held'", {})],
)
def test_a_grace_that_is_shorter_than_a_save_is_a_warning(
    partition: str, short: dict[str, int]
) -> None:
    said = list(preflight.short_graces(plan(f"profile.partition={partition}"), lambda _: WORDS))
    assert len(said) == len(short)
    for text, (name, seconds) in zip(said, short.items(), strict=True):
        assert text.startswith("saving a training state of 91.4 GB takes about 91 s (12 bytes")
        assert f"partition {name} gives jobs that it preempts {seconds} s (GraceTime)" in text
        assert "lower profile.placement.state_every, have GraceTime raised, or name another" in text


def test_where_no_save_is_estimated_slurm_is_not_asked() -> None:
    def call(command: list[str]) -> str:
        raise AssertionError(command)

    assert list(preflight.short_graces(plan("profile.save_gb_per_second=null"), call)) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"cat <<'END'\n{WORDS}END", "warning: saving a training state of 91.4 GB"),
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


def test_a_real_slurm_tells_its_name_and_the_graces_of_its_partitions(cluster: Cluster) -> None:
    assert cluster.run("sinfo", "-h", "-o", "%R").split() == ["gpu", "eval", "high"]
    assert scheduler.cluster_name(scheduler.show_config()) == CLUSTER_NAME
    assert preflight.graces("gpu,eval,high", scheduler.call) == {"gpu": 5, "eval": 5}
    assert preflight.graces(None, scheduler.call) == {"gpu": 5}
