"""Whether a run fits its machines: what is refused, what is warned of, and by which formula."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.engines.openrlhf import fit
from fgrpo_bench.engines.openrlhf.engine import ENGINE
from fgrpo_bench.specs import ModelShape, SlurmProfile
from tests.support.plans import loaded
from tests.support.points import ALGORITHMS, EXPERIMENTS, declared, point

CLUSTER = declared().profile
assert isinstance(CLUSTER, SlurmProfile)
NODE = CLUSTER.placement
BILLIONS = 7_615_616_512


PLACEMENTS = {"single-gpu": (1, 1), "node-8gpu": (1, 8), "nodes-2x8gpu": (2, 8)}
"""Nodes, and GPUs of each, that the placements of conf/ for GPUs are for."""
ARCHITECTURES = {  # heads, width of the MLP; biases of q, k and v; norms of heads; tied embeddings
    "qwen2.5-7b": (28, 18944, True, False, False),
    "qwen3-4b-base": (32, 9728, False, True, True),
    "llama3.2-3b": (24, 8192, False, False, True),
}
"""What else of the published config.json and modelling code counts parameters."""


def on(placement: str, experiment: str, *overrides: str) -> SlurmProfile:
    """A cluster with GPUs for a placement of conf/."""
    nodes, gpus = PLACEMENTS[placement]
    chosen = [f"experiment={experiment}", "profile=slurm-8gpu", f"profile.nodes={nodes}"]
    chosen += [f"profile.gpus_per_node={gpus}", f"placement@profile.placement={placement}"]
    cluster = loaded("groupsize", *chosen, *overrides).profile
    assert isinstance(cluster, SlurmProfile)
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_shipped_experiment_fits_a_shipped_placement_or_is_told_one_that_it_fits(
    experiment: str, placement: str
) -> None:
    cluster = on(placement, experiment)
    for algorithm in ALGORITHMS:
        it = point(algorithm, experiment=experiment)
        assert fit.check_evaluation(it, cluster, cluster.placement) == []
        if (experiment, placement) == ("qwen2.5-7b", "single-gpu"):
            with pytest.raises(
                ValueError, match=r"cannot fit.* fits the 8 GPUs of profile=slurm-8"
            ):
                fit.check(it, cluster, cluster.placement)
            continue
        said = fit.check(it, cluster, cluster.placement)
        tight = (experiment, placement, algorithm) == ("qwen3-4b-base", "single-gpu", "grpo-kl")
        assert len(said) == tight, said
        (summed, cached) = ENGINE.memory([it], cluster)
        assert summed.startswith(f"GiB of a GPU's 80 by {algorithm}: ")
        assert cached.endswith(f"sequences of up to {fit.longest(it):,}")


@pytest.mark.slow
def test_every_profile_that_a_refusal_names_lays_a_run_out_as_it_says() -> None:
    for name, gpus in fit.SHIPPED.items():
        cluster = loaded("groupsize", "experiment=qwen2.5-7b", f"profile={name}").profile
        assert isinstance(cluster, SlurmProfile)
        assert cluster.nodes * cluster.placement.actor_gpus_per_node == gpus
        assert cluster.placement.zero_stage == 3


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_parameters_follow_from_the_shape(experiment: str) -> None:
    pretrained = fit.published(point(experiment=experiment))
    heads, mlp, has_biases, has_norms, is_tied = ARCHITECTURES[experiment]
    assert pretrained is not None and pretrained.shape is not None
    shape = pretrained.shape
    width, query = shape.hidden_size, heads * shape.head_dim
    joint = query + 2 * shape.n_kv_heads * shape.head_dim
    layer = joint * width + query * width + 3 * width * mlp + 2 * width
    layer += joint * has_biases + 2 * shape.head_dim * has_norms
    embeddings = (1 if is_tied else 2) * shape.vocabulary_size * width
    assert shape.n_layers * layer + embeddings + width == pretrained.parameters


@pytest.mark.slow
def test_the_sum_of_an_update_has_logits_and_activations_and_the_step_its_gradients() -> None:
    """Qwen3-4B-Base on one GPU, by hand: 16 bytes of 4.02 billion parameters are 59.9 GiB."""
    it, one = point(experiment="qwen3-4b-base"), on("single-gpu", "qwen3-4b-base").placement
    held = fit.phases(it, one, nodes=1)
    assert held is not None
    assert held.states == pytest.approx(16 * 4_022_468_096 / 2**30)
    assert held.logits == pytest.approx(10 * 6144 * 151_936 / 2**30)
    assert held.activations == pytest.approx(2 * 6144 * 2560 * 36 / 2**30)
    assert held.step == pytest.approx(6e9 / 2**30)  # a billion parameters at a time
    assert held.peaks == {
        "an update": pytest.approx(69.7, abs=0.05),
        "an optimizer step": pytest.approx(65.5, abs=0.05),
        "sync and save": pytest.approx(4 * 4.022468096e9 / 2**30 + 4 * 151_936 * 2560 / 2**30),
        "rollouts": pytest.approx(0.7 * 80 + 7.49, abs=0.01),
    }
    wide = {"max_tokens_per_gpu": 16384}
    with pytest.raises(
        ValueError, match=r"needs 85\.9 GiB .* in an update: 59\.9 .*23\.2 for logits"
    ):
        fit.check(it, None, replace(one, **wide))
    with pytest.raises(
        ValueError, match=r"needs 82\.4 GiB .* in an optimizer step: .*22\.5 for gr"
    ):
        fit.check(it, None, replace(one, zero_stage=2))
    bonus = fit.phases(point("grpo-entropy", experiment="qwen3-4b-base"), one, nodes=1)
    assert bonus is not None and bonus.logits == pytest.approx(1.2 * held.logits)
    samples = replace(one, max_tokens_per_gpu=None, packing=False, train_micro_batch=2)
    assert fit.pass_tokens(it, samples) == 2 * 5120
    assert fit.pass_tokens(it, replace(one, max_tokens_per_gpu=4096)) == 5120


@pytest.mark.slow
def test_vllm_and_what_the_policy_keeps_share_a_gpu_while_it_draws() -> None:
    one = on("single-gpu", "llama3.2-3b").placement
    it = point(experiment="llama3.2-3b")
    with pytest.raises(
        ValueError, match=r"81\.5 GiB a GPU of 80 GiB in rollouts: 6\.0 for what .*l"
    ):
        fit.check(it, None, replace(one, vllm_gpu_memory=0.944))
    apart = replace(one, colocate=False, vllm_gpu_memory=0.944)
    assert fit.check(it, None, apart) == []


@pytest.mark.parametrize(
    ("changes", "bytes_each"),
    [
        ({"zero_stage": 0}, 16),
        ({"zero_stage": 1}, 2 + 2 + 12 / 8),
        ({"zero_stage": 2}, 2 + 2 / 8 + 12 / 8),
        ({"zero_stage": 3}, 16 / 8),
        ({"zero_stage": 3, "adam_offload": True}, 4 / 8),
        ({"zero_stage": 2, "adam_offload": True}, 2 + 2 / 8),
    ],
)
def test_weights_gradients_and_optimizer_are_sharded_by_stage(
    changes: dict[str, object], bytes_each: float
) -> None:
    placement = replace(NODE, **changes)  # type: ignore[arg-type]
    alone, with_reference = (
        fit.states_gib(
            BILLIONS, placement, processes=8, has_reference=reference, has_adapters=False
        )
        for reference in (False, True)
    )
    assert alone == pytest.approx(BILLIONS * bytes_each / 2**30)
    reference = 2 / 8 if placement.zero_stage == 3 else 2
    assert with_reference - alone == pytest.approx(BILLIONS * reference / 2**30)


def test_what_cannot_fit_is_refused_with_the_formula_and_the_remedy() -> None:
    with pytest.raises(ValueError, match="it cannot fit") as refused:
        fit.check(point(), CLUSTER, replace(NODE, zero_stage=1, gpu_memory_gb=24.0))
    said = str(refused.value)
    assert "qwen2.5-7b with 7.62 billion parameters needs 65.3 GiB a GPU of 24 GiB" in said
    assert "in an update: 39.0 for weights, gradients and optimizer (2 + 2 + 12 bytes" in said
    assert "23.2 for logits (10 bytes x 16,384 tokens x vocabulary), 3.1 for activations" in said
    assert "at zero_stage=1 over 8 processes, adam_offload=false" in said
    assert "take a lower max_tokens_per_gpu, or zero_stage 3, or more GPUs (profile" in said
    assert said.endswith("or adam_offload=true in profile.placement")  # no shipped profile fits it


@pytest.mark.slow
def test_adapters_need_the_weights_and_for_vllm_a_copy_of_them_and_no_optimizer() -> None:
    lora = "+extra@experiment.train.extra=lora"
    alone = replace(on("single-gpu", "qwen2.5-7b").placement, vllm_gpu_memory=0.6)
    assert fit.check(point("grpo", lora), None, alone) == []
    of = r"needs 44\.6 GiB a GPU of 40 GiB in sync and save: 14\.2 .*, 14\.2 for vLLM's w.*, 16\.2"
    with pytest.raises(ValueError, match=of) as refused:
        fit.check(point("grpo", lora), None, replace(alone, gpu_memory_gb=40.0))
    assert "a larger vllm_tensor_parallel" in str(refused.value)


def test_the_reference_model_of_a_kl_penalty_is_counted() -> None:
    tight = replace(NODE, zero_stage=2, gpu_memory_gb=60.0, max_tokens_per_gpu=9216)
    tight = replace(tight, vllm_gpu_memory=0.4, vllm_max_num_seqs=64)
    (said,) = fit.check(point("grpo-kl"), CLUSTER, tight)
    assert "55.6 GiB" in said and "(2 + 2 + 12 bytes a parameter, 2 for the reference" in said
    (said,) = fit.check(point(), CLUSTER, replace(tight, gpu_memory_gb=45.0, vllm_gpu_memory=0.6))
    assert "41.4 GiB" in said and "reference" not in said


def test_a_tight_fit_is_a_warning() -> None:
    tight = replace(NODE, gpu_memory_gb=43.0, vllm_max_num_seqs=96)
    (said,) = fit.check(point(), CLUSTER, tight)
    assert re.search(r"needs 40\.5 GiB a GPU of 43 GiB .*: it leaves little for buffers", said)
    assert "; take a lower max_tokens_per_gpu, or more GPUs" in said


def test_a_cache_for_less_than_a_quarter_of_the_longest_sequences_is_a_warning() -> None:
    """Qwen3-4B has 36 layers with 8 key/value heads of width 128: 147,456 bytes a token."""
    it, cluster = point(experiment="qwen3-4b-base"), on("node-8gpu", "qwen3-4b-base")
    former = replace(cluster.placement, vllm_gpu_memory=0.6, vllm_max_num_seqs=512)
    weights = 2 * 4_022_468_096
    (said,) = fit.check(it, cluster, former)
    tokens = int((0.6 * 80 * 2**30 - weights) / 147_456)
    assert f"{tokens:,} tokens (vllm_gpu_memory=0.6), {tokens // 512} for each of " in said
    assert "less than a quarter of the longest (5,120)" in said
    assert f"lower profile.placement.vllm_max_num_seqs to {tokens // 1280}, or raise" in said
    assert fit.check(it, cluster, replace(former, vllm_max_num_seqs=tokens // 1280)) == []
    (said,) = fit.check_evaluation(it, cluster, former)
    tokens = int((0.9 * 80 * 2**30 - weights) / 147_456)
    assert f"{tokens:,} tokens (evaluation_gpu_memory=0.9), {tokens // 512} for each of " in said
    assert f"to {tokens // 1280}, or raise profile.placement.evaluation_gpu_memory" in said
    published = fit.published(it)
    assert published is not None and published.shape is not None
    of_two, whole = (
        fit.samplers(it, replace(former, vllm_tensor_parallel=n), published)[0] for n in (2, 1)
    )
    assert of_two.cache_tokens(published.shape) > 2 * whole.cache_tokens(published.shape)


def test_a_shape_that_is_not_declared_is_read_from_the_models_folder(tmp_path: Path) -> None:
    folder = f"experiment.train.pretrained.path={tmp_path}"
    local = point("grpo", folder, "experiment.train.pretrained.shape=null")
    small = replace(NODE, max_tokens_per_gpu=None)
    (said,) = ENGINE.memory([local], CLUSTER)
    assert "+ logits 0.0 +" in said and "; without logits, activations and cache: set" in said
    assert f"{tmp_path} is no folder with a config.json that says it" in said
    config_json = {"hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28}
    config_json |= {"num_key_value_heads": 4, "vocab_size": 152064}
    (tmp_path / "config.json").write_text(json.dumps(config_json))
    declared_shape = fit.published(point())
    pretrained = fit.published(local)
    assert pretrained is not None and declared_shape is not None
    assert fit.model_shape(pretrained) == declared_shape.shape
    assert fit.phases(local, small, nodes=1) == fit.phases(point(), small, nodes=1)
    config_json |= {"num_key_value_heads": None, "head_dim": 64, "num_hidden_layers": 2}
    (tmp_path / "config.json").write_text(json.dumps(config_json))
    assert fit.model_shape(pretrained) == ModelShape(
        hidden_size=3584, n_layers=2, n_kv_heads=28, head_dim=64, vocabulary_size=152064
    )
    (tmp_path / "config.json").write_text(json.dumps(config_json | {"head_dim": "wide"}))
    assert fit.model_shape(pretrained) is None


def test_an_engine_that_hardly_holds_the_weights_is_a_warning() -> None:
    (said,) = fit.check(point(), CLUSTER, replace(NODE, vllm_gpu_memory=0.2))
    assert "needs 14.2 GiB a GPU in vLLM" in said and "of the 16.0 GiB that vllm_gpu_mem" in said
    assert "or vllm_tensor_parallel and lower vllm_engines alike" in said


def test_evaluation_has_limits_of_its_own() -> None:
    rule = (
        r"qwen2\.5-7b needs 14\.2 GiB a GPU in an evaluation \(2 bytes a parameter over "
        r"evaluation_tensor_parallel=1\), more than evaluation_gpu_memory=0\.1 of 80 GiB: raise "
        r"profile\.placement\.evaluation_gpu_memory, or evaluation_tensor_parallel and lower "
        r"evaluation_engines alike"
    )
    with pytest.raises(ValueError, match=rule):
        fit.check_evaluation(point(), CLUSTER, replace(NODE, evaluation_gpu_memory=0.1))
    two = replace(NODE, evaluation_gpu_memory=0.1, evaluation_tensor_parallel=2)
    (said,) = fit.check_evaluation(point(), CLUSTER, replace(two, evaluation_engines=4))
    assert "needs 7.1 GiB a GPU in an evaluation" in said and "of the 8.0 GiB" in said
    whole = point("grpo", "experiment.evaluation.dtype=float32")
    with pytest.raises(ValueError, match=r"28\.4 GiB a GPU in an evaluation \(4 bytes"):
        fit.check_evaluation(whole, CLUSTER, replace(NODE, evaluation_gpu_memory=0.3))


@pytest.mark.parametrize(
    ("engines", "parallel", "remedy"),
    [
        (3, 1, r"evaluation_engines to 1, 2, 4 or 8$"),
        (8, 2, r"evaluation_engines to 1, 2 or 4$"),
        (2, 3, r"evaluation_tensor_parallel to 1, 2, 4 or 8$"),
        (3, 8, r"evaluation_engines to 1$"),
    ],
)
def test_an_evaluation_that_does_not_divide_the_gpus_is_refused(
    engines: int, parallel: int, remedy: str
) -> None:
    placement = replace(NODE, evaluation_engines=engines, evaluation_tensor_parallel=parallel)
    with pytest.raises(ValueError, match=rf"does not divide the 8 of a node .*{remedy}") as refused:
        fit.check_evaluation(point(), CLUSTER, placement)
    assert f"takes {engines * parallel} GPUs (evaluation_engines={engines} x" in str(refused.value)
    assert fit.check_evaluation(point(), None, placement) == []  # nobody knows how many


@pytest.mark.parametrize(("zero_stage", "gb"), [(3, 91.4), (2, 106.6)])
def test_a_save_is_estimated_and_one_longer_than_the_signals_lead_is_a_warning(
    zero_stage: int, gb: float
) -> None:
    """Bytes a parameter: files that DeepSpeed wrote over two ranks, 4 million parameters."""
    placement = replace(NODE, zero_stage=zero_stage, vllm_gpu_memory=0.6)
    slow = replace(CLUSTER, save_gb_per_second=0.05, placement=placement)
    found = fit.save(point(), slow)
    assert found is not None and found.gb == pytest.approx(gb, abs=0.05)
    assert found.seconds == pytest.approx(gb / 0.05, abs=1)
    (said,) = fit.check(point(), slow, placement)
    assert re.search(rf"state of {gb} GB takes .* profile\.save_gb_per_second=0\.05", said)
    assert "more than signal_seconds=1800" in said and "raise profile.signal_seconds" in said
    assert fit.check(point(), replace(slow, signal_seconds=3000), placement) == []


def test_what_is_not_known_is_neither_estimated_nor_refused() -> None:
    assert fit.save(point(), replace(CLUSTER, save_gb_per_second=None)) is None
    assert fit.save(point(experiment="rehearsal"), replace(CLUSTER, save_gb_per_second=1.0)) is None
    assert fit.check(point(), CLUSTER, replace(NODE, zero_stage=0, gpu_memory_gb=None)) == []
    assert fit.check(point(), None, replace(NODE, colocate=False)) == []  # nobody knows how many


SHARED = r"8 GPUs of the policy .* 3 of vLLM .*change profile\.placement\.vllm_engines to 8"
UNEVEN = r"512 samples .* no multiple of the 24 .* 3 each: lower profile\.placement\.train_micro"
HELD = r"14\.2 GiB a GPU in vLLM .* vllm_gpu_memory=0\.1 of 80 GiB: raise profile\.placement\.v"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"vllm_engines": 3}, SHARED),
        ({"vllm_tensor_parallel": 3}, r"vllm_tensor_parallel=3\).* to 1, 2, 4 or 8$"),
        ({"colocate": False}, r"needs 16 GPUs and the profile has 8 .*raise them"),
        ({"attention": "sdpa"}, r"attention=sdpa: packed samples need flash attention"),
        ({"max_tokens_per_gpu": None, "train_micro_batch": 3}, UNEVEN),
        ({"rollout_micro_batch": 512}, "2048 samples per step, fewer than 8 processes x rollout_"),
        ({"vllm_gpu_memory": 0.1}, HELD),
    ],
)
def test_a_placement_that_contradicts_itself_is_refused_with_the_remedy(
    changes: dict[str, object], rule: str
) -> None:
    with pytest.raises(ValueError, match=rule):
        fit.check(point(), CLUSTER, replace(NODE, **changes))  # type: ignore[arg-type]


def test_packed_mini_batches_are_shared_by_whole_samples() -> None:
    odd = point("grpo", "experiment.train.prompts_per_step=252", group_size=2)
    rule = r"126 samples .* no multiple of the 8 .* 1 each: change the prompts per step"
    with pytest.raises(ValueError, match=rule):
        fit.check(odd, CLUSTER, NODE)
