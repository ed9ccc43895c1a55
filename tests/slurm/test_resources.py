"""What jobs ask for: training the profile, everything else its share of a node."""

from __future__ import annotations

import pytest

from fgrpo_bench.specs import SlurmProfile, config
from sweeps.slurm.submissions import Resources, resources


def profile(name: str, *overrides: str) -> SlurmProfile:
    of = config.load("transfer", ["experiment=qwen2.5-7b", f"profile={name}", *overrides]).profile
    assert isinstance(of, SlurmProfile)
    return of


def asked(nodes: int, gpus: int | None, cpus: int, mem_gb: float) -> Resources:
    return Resources(
        nodes=nodes, gpus_per_node=gpus, cpus_per_task=cpus, mem_mb=round(mem_gb * 1024)
    )


FOUR = tuple(
    f"profile.placement.{setting}"
    for setting in (
        "evaluation_engines=2",
        "evaluation_tensor_parallel=2",
        "vllm_tensor_parallel=8",
    )
)
LEAST = ("profile.cpus_per_task=1", "profile.mem_gb=null", "profile.placement.evaluation_engines=1")
KINDS = ("train", "warmup", "evaluate", "report")
TWO_NODES = "slurm-multinode"


@pytest.mark.parametrize(
    ("name", "overrides", "kind", "openrlhf", "expected"),
    [
        (TWO_NODES, (), "train", True, asked(2, 8, 64, 900)),
        (TWO_NODES, (), "evaluate", True, asked(1, 8, 64, 900)),
        (TWO_NODES, (), "rare", True, asked(1, 8, 64, 900)),
        (TWO_NODES, (), "likelihood", True, asked(1, 1, 8, 112.5)),
        (TWO_NODES, (), "warmup", False, asked(1, 1, 8, 112.5)),
        (TWO_NODES, (), "report", False, asked(1, None, 8, 112.5)),
        (TWO_NODES, FOUR, "evaluate", True, asked(1, 4, 32, 450)),
        (TWO_NODES, FOUR, "likelihood", True, asked(1, 2, 16, 225)),
        *(("slurm-rehearsal", (), kind, True, asked(1, None, 2, 8)) for kind in KINDS),
    ],
)
def test_every_job_asks_for_the_gpus_that_it_uses_and_its_share_of_a_node(
    name: str, overrides: tuple[str, ...], kind: str, openrlhf: bool, expected: Resources
) -> None:
    assert resources(profile(name, *overrides), kind, is_placed=openrlhf) == expected


def test_no_share_is_less_than_a_processor() -> None:
    found = resources(profile("slurm-8gpu", *LEAST), "evaluate", is_placed=True)
    assert (found.cpus_per_task, found.mem_mb) == (1, None)
