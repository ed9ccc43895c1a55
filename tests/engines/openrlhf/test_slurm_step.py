"""Which task of a SLURM step this is, what it tells Ray, and what is said of nodes that fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.engines.openrlhf.cluster import (
    Meeting,
    SlurmStep,
    fake_gpus,
    missing,
    start_arguments,
    step_of,
)
from fgrpo_bench.specs import Placement, config

STEP = SlurmStep(rank=0, nodes=("n1", "n2", "n3"), node="n1", job=123, restarts=1)
ENVIRONMENT = {
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_PROCID": "1",
    "SLURMD_NODENAME": "n2",
    "SLURM_JOB_ID": "7",
}


def placement() -> Placement:
    return config.load("rehearsal", []).profile.placement


def test_a_task_knows_its_nodes_its_place_and_its_attempt() -> None:
    found = step_of(ENVIRONMENT, {"n[1-2]": ["n1", "n2"]}.__getitem__)
    assert found == SlurmStep(rank=1, nodes=("n1", "n2"), node="n2", job=7, restarts=0)
    again = step_of(ENVIRONMENT | {"SLURM_RESTART_COUNT": "3"}, lambda _: ["n1", "n2"])
    assert again is not None
    assert (found.key, again.key) == ("7.0", "7.3")


@pytest.mark.parametrize("environment", [{}, {"SLURM_NNODES": "2"}, {"SLURM_STEP_NUM_NODES": "1"}])
def test_outside_a_step_of_several_nodes_there_is_nothing_to_join(
    environment: dict[str, str],
) -> None:
    assert step_of(environment, str.split) is None


@pytest.mark.parametrize(
    ("changes", "nodes", "reference", "gpus"),
    [
        ({}, 2, False, 2),  # two of the policy and one engine
        ({}, 2, True, 3),
        ({"vllm_engines": 2, "vllm_tensor_parallel": 2}, 2, False, 3),
        ({"colocate": True, "actor_gpus_per_node": 4, "vllm_engines": 9}, 3, True, 4),
    ],
)
def test_without_gpus_ray_is_told_of_just_so_many_that_a_run_needs_all_nodes(
    changes: dict[str, int], nodes: int, reference: bool, gpus: int
) -> None:
    given = replace(placement(), **changes)  # type: ignore[arg-type]
    assert fake_gpus(given, nodes=nodes, reference=reference) == gpus


def test_the_head_listens_where_it_is_told_and_the_others_join_it() -> None:
    head = start_arguments(STEP, "10.0.0.1:20246", gpus=None, temporary=Path("/tmp/ray-x"))
    assert {"--head", "--node-ip-address=10.0.0.1", "--port=20246"} <= set(head)
    assert {"--ray-client-server-port=20247", "--temp-dir=/tmp/ray-x"} <= set(head)
    other = start_arguments(replace(STEP, node="n2"), "10.0.0.1:20246", gpus=2, temporary=None)
    assert {"--address=10.0.0.1:20246", "--node-name=n2", "--num-gpus=2"} <= set(other)
    assert "--head" not in other
    assert not any(argument.startswith("--num-gpus") for argument in head)


def test_nodes_that_did_not_join_are_named_with_the_remedy() -> None:
    said = missing(STEP, {"n1"}, seconds=120, logs=Path("/stage/nodes/123.1"))
    assert said.startswith("2 of 3 nodes did not join Ray within 120 s: n2, n3; ")
    assert "/stage/nodes/123.1" in said
    assert "profile.placement.start_seconds" in said and "FGRPO_RAY_HOST" in said


def test_the_tasks_of_one_attempt_meet_and_those_of_another_do_not(tmp_path: Path) -> None:
    meeting = Meeting.of(tmp_path, STEP)
    meeting.tell("head", address="10.0.0.1:20246", gpus=None)
    assert Meeting.of(tmp_path, replace(STEP, rank=1, node="n2")).read("head") == {
        "address": "10.0.0.1:20246",
        "gpus": None,
    }
    assert Meeting.of(tmp_path, replace(STEP, restarts=2)).read("head") is None
    meeting.check(STEP)
    meeting.tell("n3", failed="Ray ended there with exit code 1")
    with pytest.raises(RuntimeError, match="node n3 failed: Ray ended there with exit code 1"):
        meeting.check(STEP)
