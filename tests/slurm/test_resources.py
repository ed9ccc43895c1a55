"""What jobs ask for: training the profile, everything else its share of a node."""

from __future__ import annotations

import pytest

from fgrpo_bench.specs import SlurmProfile, config
from sweeps.slurm.submissions import Resources, resources

ONE = "profile.placement.evaluation_engines=1"


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
        ("evaluate", True, asked(1, 8, 64, 900)),
        ("rare", True, asked(1, 8, 64, 900)),
        ("likelihood", True, asked(1, 1, 8, 112.5)),
        ("warmup", False, asked(1, 1, 8, 112.5)),
        ("report", False, asked(1, None, 8, 112.5)),
    ],
)
def test_every_job_asks_for_the_gpus_that_it_uses(
    kind: str, openrlhf: bool, expected: Resources
) -> None:
    assert resources(profile("slurm-multinode"), kind, is_placed=openrlhf) == expected


def test_an_evaluation_of_fewer_gpus_asks_for_its_share_of_a_node() -> None:
    changes = ("evaluation_engines=2", "evaluation_tensor_parallel=2", "vllm_tensor_parallel=8")
    four = profile("slurm-multinode", *(f"profile.placement.{each}" for each in changes))
    assert resources(four, "evaluate", is_placed=True) == asked(1, 4, 32, 450)
    assert resources(four, "likelihood", is_placed=True) == asked(1, 2, 16, 225)


@pytest.mark.parametrize("kind", ["train", "warmup", "evaluate", "report"])
def test_without_gpus_every_job_asks_for_the_same(kind: str) -> None:
    found = resources(profile("slurm-rehearsal"), kind, is_placed=True)
    assert found == asked(1, None, 2, 8)


def test_no_share_is_less_than_a_processor() -> None:
    one = profile("slurm-8gpu", "profile.cpus_per_task=1", "profile.mem_gb=null", ONE)
    found = resources(one, "evaluate", is_placed=True)
    assert (found.cpus_per_task, found.mem_mb) == (1, None)
