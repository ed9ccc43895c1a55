"""Whether a run fits its machines: what is refused, what is warned of, and by which formula."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fgrpo_bench.engines.openrlhf import fit
from fgrpo_bench.engines.openrlhf.engine import ENGINE
from fgrpo_bench.specs import LocalProfile, SlurmProfile, config
from tests.support.points import ALGORITHMS, EXPERIMENTS, declared, point

CLUSTER = declared().profile
assert isinstance(CLUSTER, SlurmProfile)
NODE = CLUSTER.placement
BILLIONS = 7_615_616_512


@pytest.mark.parametrize("experiment", EXPERIMENTS)
@pytest.mark.parametrize("profile", ["slurm-8gpu", "slurm-multinode"])
def test_the_shipped_experiments_fit_the_shipped_clusters_with_room_to_spare(
    experiment: str, profile: str
) -> None:
    cluster = config.load("groupsize", [f"experiment={experiment}", f"profile={profile}"]).profile
    assert isinstance(cluster, SlurmProfile)
    for algorithm in ALGORITHMS:
        it = point(algorithm, experiment=experiment)
        assert fit.check(it, cluster, cluster.placement) == []
        assert fit.check_evaluation(it, cluster, cluster.placement) == []


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
    alone, beside = (
        fit.training_gib(
            BILLIONS, placement, processes=8, has_reference=reference, has_adapters=False
        )
        for reference in (False, True)
    )
    assert alone == pytest.approx(BILLIONS * bytes_each / 2**30)
    reference = 2 / 8 if placement.zero_stage == 3 else 2
    assert beside - alone == pytest.approx(BILLIONS * reference / 2**30)


def test_what_cannot_fit_is_refused_with_the_formula_and_the_remedy() -> None:
    with pytest.raises(ValueError, match="it cannot fit") as refused:
        fit.check(point(), CLUSTER, replace(NODE, zero_stage=1, gpu_memory_gb=24.0))
    said = str(refused.value)
    assert "qwen2.5-7b with 7.62 billion parameters needs 39.0 GiB a GPU" in said
    assert "2 + 2 + 12 bytes a parameter, zero_stage=1 over 8 processes" in said
    assert "adam_offload=false) of 24 GiB" in said
    assert "take zero_stage 3, more GPUs" in said and "adam_offload=true" in said


def test_adapters_need_the_weights_and_a_copy_of_them_and_no_optimizer() -> None:
    lora = "+extra@experiment.train.extra=lora"
    alone = replace(NODE, zero_stage=2, vllm_engines=1, vllm_tensor_parallel=1)
    alone = replace(alone, actor_gpus_per_node=1, gpu_memory_gb=40.0)
    assert fit.check(point("grpo", lora), CLUSTER, alone) == []
    with pytest.raises(ValueError, match=r"needs 113\.5 GiB a GPU for weights, gradients and"):
        fit.check(point(), CLUSTER, alone)
    with pytest.raises(
        ValueError, match=r"needs 28\.4 GiB a GPU for weights and their copy \(2 \+ 2"
    ):
        fit.check(point("grpo", lora), CLUSTER, replace(alone, gpu_memory_gb=24.0))


def test_the_reference_model_of_a_kl_penalty_is_counted() -> None:
    tight = replace(NODE, zero_stage=2, gpu_memory_gb=45.0, vllm_gpu_memory=0.9)
    assert fit.check(point("grpo-kl"), CLUSTER, tight)[0].count("2 for the reference model") == 1
    assert "reference" not in fit.check(point(), CLUSTER, replace(tight, gpu_memory_gb=30.0))[0]


def test_a_tight_fit_is_a_warning() -> None:
    tight = replace(NODE, gpu_memory_gb=18.0, vllm_gpu_memory=0.9, vllm_engines=4)
    (said,) = fit.check(point(), CLUSTER, replace(tight, vllm_tensor_parallel=2))
    assert re.search(r"needs 14\.2 GiB a GPU .* of 18 GiB: it leaves little for activations", said)


def test_an_engine_that_cannot_hold_the_weights_is_refused_and_a_tight_one_is_a_warning() -> None:
    rule = r"14\.2 GiB a GPU in vLLM .* vllm_gpu_memory=0\.1 of 80 GiB: raise profile\.placement\.v"
    with pytest.raises(ValueError, match=rule):
        fit.check(point(), CLUSTER, replace(NODE, vllm_gpu_memory=0.1))
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
    placement = replace(NODE, zero_stage=zero_stage)
    slow = replace(CLUSTER, save_gb_per_second=0.05, placement=placement)
    found = fit.save(point(), slow)
    assert found is not None and found.gb == pytest.approx(gb, abs=0.05)
    assert found.seconds == pytest.approx(gb / 0.05, abs=1)
    (said,) = fit.check(point(), slow, placement)
    assert re.search(rf"state of {gb} GB takes .* profile\.save_gb_per_second=0\.05", said)
    assert "more than signal_seconds=1800" in said and "raise profile.signal_seconds" in said
    assert fit.check(point(), replace(slow, signal_seconds=3000), placement) == []


def test_a_save_is_not_estimated_without_a_rate_or_the_number_of_parameters() -> None:
    assert fit.save(point(), replace(CLUSTER, save_gb_per_second=None)) is None
    assert fit.save(point(experiment="rehearsal"), replace(CLUSTER, save_gb_per_second=1.0)) is None


def test_without_a_known_memory_nothing_is_said_of_it() -> None:
    assert fit.check(point(), CLUSTER, replace(NODE, zero_stage=0, gpu_memory_gb=None)) == []


def test_policy_and_engines_that_share_gpus_must_be_as_many() -> None:
    rule = r"8 GPUs of the policy .* 3 of vLLM .*change profile\.placement\.vllm_engines to 8"
    with pytest.raises(ValueError, match=rule):
        fit.check(point(), CLUSTER, replace(NODE, vllm_engines=3))
    with pytest.raises(ValueError, match=r"vllm_tensor_parallel=3\).* to 1, 2, 4 or 8$"):
        fit.check(point(), CLUSTER, replace(NODE, vllm_tensor_parallel=3))


def test_more_gpus_than_the_profile_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs 16 GPUs and the profile has 8 .*raise them"):
        fit.check(point(), CLUSTER, replace(NODE, colocate=False))
    local = config.load("groupsize", ["experiment=qwen2.5-7b"]).profile
    assert isinstance(local, LocalProfile)
    assert fit.check(point(), None, replace(NODE, colocate=False)) == []  # nobody knows how many


def test_packing_needs_flash_attention() -> None:
    with pytest.raises(ValueError, match=r"attention=sdpa: packed samples need flash attention"):
        fit.check(point(), CLUSTER, replace(NODE, attention="sdpa"))


def test_mini_batches_that_processes_cannot_share_are_refused() -> None:
    placement = replace(NODE, max_tokens_per_gpu=None, train_micro_batch=3)
    rule = r"512 samples .* no multiple of the 24 .* 3 each: lower profile\.placement\.train_micro"
    with pytest.raises(ValueError, match=rule):
        fit.check(point(), CLUSTER, placement)


def test_packed_mini_batches_are_shared_by_whole_samples() -> None:
    odd = point("grpo", "experiment.train.prompts_per_step=252", group_size=2)
    rule = r"126 samples .* no multiple of the 8 .* 1 each: change the prompts a step"
    with pytest.raises(ValueError, match=rule):
        fit.check(odd, CLUSTER, NODE)


def test_too_few_samples_for_the_processes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2048 samples a step, fewer than 8 processes x rollout_"):
        fit.check(point(), CLUSTER, replace(NODE, rollout_micro_batch=512))


def test_a_length_penalty_is_refused_where_a_formula_is_for_rewards_of_0_and_1() -> None:
    penalised = point("rloo", "experiment.train.overlong_buffer_tokens=512")
    ENGINE.check(penalised, CLUSTER)
    for name in ("maxrl", "pkpo", "passk", "psr", "nsr", "w_reinforce", "ds_grpo"):
        of = replace(penalised, algorithm=replace(penalised.algorithm, advantage=name))
        words = (
            f"has the advantage {name}, which is defined for rewards of 0 and 1, and a length "
            "penalty changes them: set experiment.train.overlong_buffer_tokens=null"
        )
        with pytest.raises(ValueError, match=re.escape(words)):
            ENGINE.check(of, CLUSTER)
