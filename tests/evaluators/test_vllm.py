"""What vLLM's engine is told of a placement; its draws are tested in tests/openrlhf."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluators.vllm import engine_settings, in_flight
from tests.support.points import declared, point

GPUS = declared().profile.placement
PROCESSORS = declared("placement@profile.placement=cpu").profile.placement


def test_an_evaluation_has_a_placement_of_its_own() -> None:
    placement = replace(GPUS, vllm_tensor_parallel=4, vllm_gpu_memory=0.3, vllm_engines=2)
    assert engine_settings(point().evaluation, placement, max_model_len=9216) == {
        "dtype": "bfloat16",
        "max_model_len": 9216,
        "tensor_parallel_size": 1,
        "gpu_memory_utilization": 0.9,
        "max_num_seqs": 512,
        "max_num_batched_tokens": 16384,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "seed": 0,
    }


def test_as_many_requests_are_in_flight_as_the_engine_draws_at_once() -> None:
    assert in_flight(GPUS, "cuda", 9216) == 512


def test_on_processors_no_more_prompts_are_in_flight_than_fit_into_a_step() -> None:
    assert in_flight(PROCESSORS, "cpu", 24) == 384
    assert in_flight(PROCESSORS, "cpu", 9216) == 65_536 // 9216 == 7
    small = replace(PROCESSORS, vllm_max_num_batched_tokens=512)
    with pytest.raises(ValueError, match=r"max_num_batched_tokens=512 .* 513 tokens .*: raise it"):
        in_flight(small, "cpu", 513)
