"""What jobs ask for: training the profile, everything else its share of a node."""

from __future__ import annotations

import pytest

from fgrpo_bench import config
from fgrpo_bench.specs import SlurmProfile
from sweeps.slurm.resources import Resources, resources


def profile(name: str, *overrides: str) -> SlurmProfile:
    of = config.load("transfer", ["experiment=qwen2.5-7b", f"profile={name}", *overrides]).profile
    assert isinstance(of, SlurmProfile)
    return of


def asked(nodes: int, gpus: int | None, cpus: int, mem_gb: float) -> Resources:
    return Resources(
        nodes=nodes, gpus_per_node=gpus, cpus_per_task=cpus, mem_mb=round(mem_gb * 1024)
    )


@pytest.mark.parametrize(
    ("kind", "openrlhf", "expected"),
    [
        ("train", True, asked(2, 8, 64, 900)),
        ("evaluate", True, asked(1, 2, 16, 225)),
        ("warmup", False, asked(1, 1, 8, 112.5)),
        ("report", False, asked(1, None, 8, 112.5)),
    ],
)
def test_only_training_takes_whole_nodes(kind: str, openrlhf: bool, expected: Resources) -> None:
    assert resources(profile("slurm-multinode"), kind, openrlhf=openrlhf) == expected


def test_an_evaluation_of_several_engines_asks_for_the_gpus_of_all() -> None:
    four = profile("slurm-multinode", "profile.openrlhf.evaluation_engines=4")
    assert resources(four, "evaluate", openrlhf=True) == asked(1, 8, 64, 900)


@pytest.mark.parametrize("kind", ["train", "warmup", "evaluate", "report"])
def test_without_gpus_every_job_asks_for_the_same(kind: str) -> None:
    found = resources(profile("slurm-rehearsal"), kind, openrlhf=True)
    assert found == asked(1, None, 2, 8)


def test_no_share_is_less_than_a_processor() -> None:
    one = profile("slurm-8gpu", "profile.cpus_per_task=1", "profile.mem_gb=null")
    found = resources(one, "evaluate", openrlhf=True)
    assert (found.cpus_per_task, found.mem_mb) == (1, None)
