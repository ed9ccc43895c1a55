"""What vLLM's engine is told of a placement; its draws are tested in tests/openrlhf."""

from __future__ import annotations

import json
import os
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import evaluators.vllm as back_end
from evaluators.adapter import check_adapter
from evaluators.backends import make_engine
from evaluators.records import SamplingTarget
from evaluators.standalone import configuration
from evaluators.vllm import engine_settings, in_flight, sampling_settings
from fgrpo_bench.kinds.evaluate import draws_identity
from fgrpo_bench.specs import EvalSpec, Placement, to_dict
from fgrpo_bench.stages.digests import weights_sha256
from tests.support.points import declared, point


def placed(name: str = "node-8gpu") -> Placement:
    """A file of conf/placement, as a profile of GPUs has it."""
    return declared(f"placement@profile.placement={name}").profile.placement


@pytest.mark.slow
def test_a_gpu_has_its_placement_where_another_interpreter_draws() -> None:
    words = ["checkpoint=x", "placement.python=.venv-vllm/bin/python"]
    composed, _ = configuration(words, {"device": "cuda"})
    gpu = {
        field: value for field, value in to_dict(placed("single-gpu")).items() if field != "python"
    }
    assert composed["placement"] == gpu | {"python": ".venv-vllm/bin/python"}
    composed, _ = configuration([*words, "placement=cpu"], {"device": "cuda"})
    assert composed["placement"]["evaluation_gpu_memory"] == placed("cpu").evaluation_gpu_memory


def test_an_evaluation_has_a_placement_of_its_own() -> None:
    placement = replace(placed(), vllm_tensor_parallel=4, vllm_gpu_memory=0.3, vllm_engines=2)
    assert engine_settings(point().evaluation, placement, max_model_len=9216) == {
        "dtype": "bfloat16",
        "max_model_len": 9216,
        "tensor_parallel_size": 1,
        "gpu_memory_utilization": 0.9,
        "max_num_seqs": 192,
        "max_num_batched_tokens": 16384,
        "enforce_eager": False,
        "enable_prefix_caching": True,
        "seed": 0,
    }


def test_as_many_requests_are_in_flight_as_the_engine_draws_at_once() -> None:
    assert in_flight(placed(), "cuda", 9216) == 192


def test_on_processors_no_more_prompts_are_in_flight_than_fit_into_a_step() -> None:
    processors = placed("cpu")
    assert in_flight(processors, "cpu", 24) == 384
    assert in_flight(processors, "cpu", 9216) == 65_536 // 9216 == 7
    small = replace(processors, vllm_max_num_batched_tokens=512)
    with pytest.raises(ValueError, match=r"max_num_batched_tokens=512 .* 513 tokens .*: raise it"):
        in_flight(small, "cpu", 513)


def test_the_engine_fingerprint_tells_gpus_and_their_kernels_apart(monkeypatch) -> None:
    """Engines of one fingerprint are taken for alike, and are never compared."""

    def device_on(gpu: str, **changed: object) -> object:
        platform = SimpleNamespace(get_device_name=lambda: gpu)
        module = SimpleNamespace(current_platform=platform)
        monkeypatch.setitem(sys.modules, "vllm.platforms", module)
        placement = replace(placed(), **changed)  # type: ignore[arg-type]
        return back_end.facts(point().evaluation, "cuda", placement)

    h100 = device_on("NVIDIA H100 80GB HBM3")
    assert h100 == device_on("NVIDIA A100-SXM4-80GB") | {"device": "NVIDIA H100 80GB HBM3"}
    assert h100 == device_on("NVIDIA H100 80GB HBM3", vllm_max_num_seqs=7)
    eager = device_on("NVIDIA H100 80GB HBM3", vllm_enforce_eager=True)
    assert eager == h100 | {"enforce_eager": True}


def refusing(**_: object) -> None:
    raise RuntimeError("batch_invariant mode is not supported for MAMBA")


def asked(evaluation: EvalSpec, folder: Path, device: str = "cuda") -> SamplingTarget:
    (folder / "model.safetensors").write_bytes(b"weights")
    return SamplingTarget(
        folder=folder,
        sha256=weights_sha256(folder),
        evaluation=evaluation,
        settings={"prompt_tokens": 16, "response_tokens": 8},
        device=device,
        placement=placed(),
    )


@pytest.fixture
def starting(monkeypatch, tmp_path):
    """vLLM at the process boundary: what LLM is to be."""

    def start(llm, evaluation):
        monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=llm))
        machine = SimpleNamespace(environment=SimpleNamespace(check_machine=lambda: None))
        monkeypatch.setattr(back_end, "engine_for_sampler", lambda name: machine)
        monkeypatch.setenv("VLLM_BATCH_INVARIANT", "7")
        return back_end.start(asked(evaluation, tmp_path), max_model_len=24)

    return start


def test_batch_invariance_is_what_the_evaluation_says_whatever_the_environment_says(starting):
    def told(**_):
        return os.environ["VLLM_BATCH_INVARIANT"]

    evaluation = point().evaluation
    assert starting(told, evaluation) == "0"
    assert starting(told, replace(evaluation, batch_invariant=True)) == "1"


def test_where_vllm_refuses_to_be_batch_invariant_its_words_are_told(starting):
    evaluation = replace(point().evaluation, batch_invariant=True)
    with pytest.raises(ValueError, match=r"not supported for MAMBA .*batch_invariant=false"):
        starting(refusing, evaluation)
    with pytest.raises(RuntimeError, match=r"^batch_invariant mode is not supported for MAMBA$"):
        starting(refusing, point().evaluation)  # what else fails is no refusal of it


def test_batch_invariant_draws_are_others_and_false_is_no_part_of_an_identity():
    evaluation, train = point().evaluation, point().train
    plain = draws_identity(evaluation, train, stream=0)
    invariant = draws_identity(replace(evaluation, batch_invariant=True), train, stream=0)
    assert invariant == plain | {"batch_invariant": True} and "batch_invariant" not in plain


def test_batch_invariance_is_refused_for_other_samplers_and_processors_before_anything_starts(
    tmp_path,
):
    evaluation = point().evaluation
    with pytest.raises(ValueError, match=r"with sampler=transformers.*set batch_invariant=false"):
        replace(evaluation, batch_invariant=True, sampler="transformers")
    with pytest.raises(ValueError, match=r"device=cpu: vLLM has .* for GPUs alone; set"):
        declared(
            "experiment.evaluation.batch_invariant=true",
            "profile.device=cpu",
        )
    with pytest.raises(ValueError, match="device=cpu"):
        back_end.start(
            asked(replace(evaluation, batch_invariant=True), tmp_path, "cpu"), max_model_len=24
        )


def test_the_weights_are_read_once_before_any_engine_starts_and_others_are_refused(
    monkeypatch, tmp_path
):
    given: list[SamplingTarget] = []

    def start(make, **_):
        given.extend(deepcopy(make).args)  # by the state that a pickle holds, too

    monkeypatch.setattr("evaluators.engines.start_engines", start)
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: None)
    evaluation = replace(point().evaluation, sampler="vllm")
    right = asked(evaluation, tmp_path)
    with pytest.raises(ValueError, match="their stage recorded 000"):
        make_engine(replace(right, sha256="0" * 64))
    assert not given
    make_engine(right)
    (tmp_path / "model.safetensors").unlink()
    assert given[0] == right and given[0].weights == tmp_path  # without reading them again


def test_every_setting_of_sampling_reaches_vllm():
    evaluation = point().evaluation
    assert sampling_settings(evaluation, length=8) == {"temperature": 1.0, "max_tokens": 8}
    changed = replace(evaluation, top_p=0.9, top_k=20, stop=("Q:", "\n"), temperature=0.6)
    assert sampling_settings(changed, length=8) == {
        "temperature": 0.6,
        "max_tokens": 8,
        "top_p": 0.9,
        "top_k": 20,
        "stop": ["Q:", "\n"],
    }
    greedy = replace(evaluation, temperature=0.0, n_samples=1, ks=(1,), design=None)
    assert sampling_settings(greedy, length=8)["temperature"] == 0.0


@pytest.mark.parametrize(
    ("config", "rank", "refused"),
    [
        ({"peft_type": "LORA", "r": 16}, 16, None),
        ({"peft_type": "LORA", "r": 8, "rank_pattern": {"q_proj": 33}}, 64, None),
        ({"peft_type": "LORA", "r": 1000}, None, "has rank 1000: vLLM draws with ranks from 1 to"),
        ({"peft_type": "LORA"}, None, "has rank none"),
        ({"peft_type": "IA3"}, None, "is of type IA3: vLLM draws with LoRA alone"),
    ],
)
def test_an_adapter_is_checked_for_vllm_by_type_and_rank(tmp_path, config, rank, refused):
    (tmp_path / "adapter_config.json").write_text(json.dumps(config))
    (tmp_path / "adapter_model.safetensors").touch()
    if refused is None:
        check_adapter(tmp_path, sampler="vllm")
        assert back_end.lora_settings(tmp_path)["max_lora_rank"] == rank
    else:
        with pytest.raises(ValueError, match=refused):
            check_adapter(tmp_path, sampler="vllm")


def test_a_batch_size_is_how_many_sequences_vllm_has_at_once(monkeypatch, tmp_path):
    given = {}
    monkeypatch.setattr(
        "evaluators.engines.start_engines",
        lambda make, **more: given.update(more, target=make.args[0]),
    )
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda *_, **__: None)
    evaluation = replace(point().evaluation, sampler="vllm")
    make_engine(replace(asked(evaluation, tmp_path), batch_size=7))
    assert given["at_once"] == 7 == given["target"].placement.vllm_max_num_seqs
