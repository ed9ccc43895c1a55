"""Losses in OpenRLHF's shape, both engines' first gradient on the same rollouts, and what leaves a
policy with adapters: whole weights by the base model's names."""

import re
from functools import partial

import numpy as np
import pytest
import torch
from openrlhf.models import Actor
from openrlhf.models.loss import PolicyLoss
from openrlhf.models.utils import compute_approx_kl
from openrlhf.trainer.ppo_utils.experience import Experience
from peft import LoraConfig, TaskType, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
from fgrpo_bench.engines.embedded.sampling import sample
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD
from fgrpo_bench.engines.openrlhf import policy
from fgrpo_bench.engines.openrlhf.experience import FocalExperienceMaker
from fgrpo_bench.engines.openrlhf.labels import dispatch, make_label
from fgrpo_bench.engines.openrlhf.policy import (
    ObjectiveLoss,
    check_update,
    check_weights,
    update_metrics,
)
from fgrpo_bench.objectives.advantages import action_mask, group_advantages
from fgrpo_bench.objectives.losses import OBJECTIVES, aggregate, kl_estimates
from tests.openrlhf.experiences import advantages, maker_arguments, micro_batches
from tests.support.openrlhf import train_problems

pytestmark = pytest.mark.openrlhf


def batch(seed=0):
    """(log_probs with gradient, old log_probs, advantages, mask) of 3 sequences of 5 actions."""
    generator = torch.Generator().manual_seed(seed)
    log_probs = torch.randn(3, 5, generator=generator).requires_grad_()
    old = log_probs.detach() + 2 * torch.randn(3, 5, generator=generator)
    advantages = torch.tensor([[0.5], [-1.5], [0.0]]).expand(3, 5)
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[0, 3:] = False
    return log_probs, old, advantages, mask


def test_the_gradient_of_cispo_is_the_clipped_ratio_times_the_advantage():
    log_probs, old, advantages, mask = batch()
    loss, share, kl, *_ = ObjectiveLoss("cispo", 1.0, 5.0)(log_probs, old, advantages, mask)
    loss.backward()
    weight = (log_probs.detach() - old).exp().clamp(0.0, 6.0)
    assert weight.max() == 6.0  # the bound binds somewhere
    torch.testing.assert_close(log_probs.grad, -(weight * advantages * mask) / mask.sum())
    clipped = (log_probs - old).exp() > 6.0
    assert share * mask.sum() == (clipped & mask)[:2].sum()  # only tokens with an advantage count
    torch.testing.assert_close(kl, (old - log_probs.detach())[mask].mean())


@pytest.mark.parametrize("bounds", [(0.2, 0.2), (0.2, 0.28)])
def test_openrlhfs_own_loss_is_the_clip_objective_of_the_table(bounds):
    found = []
    for loss in (ObjectiveLoss("clip", *bounds), PolicyLoss(*bounds)):
        log_probs, *rest = batch()
        made = loss(log_probs, *rest)[:3]
        made[0].backward()
        found.append((*made, log_probs.grad))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_metrics_of_a_micro_batch_are_means_over_its_action_tokens():
    returned = torch.full((2, 3), float("nan"))
    returned[0] = torch.tensor([-1.0, -2.0, -9.0])
    experience = Experience(
        action_mask=torch.tensor([[1, 1, 0], [1, 1, 1]]),
        advantages=torch.tensor([[0.5] * 3, [0.0] * 3]),
        rollout_log_probs=returned,
        action_log_probs=torch.tensor([[-1.5, -2.25, 0.0], [-1.0] * 3]),
    )
    assert update_metrics(experience) == pytest.approx(
        {"_active_share": 2 / 5, "_measured_share": 2 / 5, "_rollout_kl": 0.75 / 5}
    )


N_CORRECT = [1, 4, 7, 0]
"""Of eight rollouts of each of four prompts: three focal weights, and a group without signal."""


@pytest.fixture(scope="module")
def rollouts(model):
    """(prompts [4, ·], what the embedded engine sampled for them, its mask) of one policy."""
    sampler, tokenizer = load_checkpoint(model, "cpu", None)
    prompts = torch.from_numpy(np.stack(tokenizer.encode([p.prompt for p in train_problems(4)])))
    drawn = sample(sampler, prompts, np.arange(32).reshape(4, 8), length=4, temperature=1.0)
    return prompts, drawn, action_mask(drawn.tokens, eos=EOS, pad=PAD)


def rewards():
    return torch.stack([(torch.arange(8) < n).float() for n in N_CORRECT])


def embedded_gradient(model, rollouts, gamma, objective, bounds):
    """Of the first update, by parameter; float32."""
    prompts, drawn, mask = rollouts
    network, _ = load_checkpoint(model, "cpu", None)
    logits = network.completion_logits(prompts, drawn.tokens)
    log_probs = logits.log_softmax(-1).gather(2, drawn.tokens[..., None]).squeeze(-1)
    advantage = group_advantages(rewards(), gamma).view(-1, 1)
    losses, _ = OBJECTIVES[objective](log_probs, drawn.log_probs, advantage, *bounds)
    aggregate(
        losses, mask, aggregation="token_mean", batch_tokens=int(mask.sum()), batch_sequences=32
    ).backward()
    return {name: p.grad for name, p in network.named_parameters()}


def openrlhf_gradient(model, rollouts, gamma, objective, bounds):
    """The same by OpenRLHF's actor in bf16, experience maker and loss, the batch permuted."""
    prompts, drawn, mask = rollouts
    args = maker_arguments(gamma, group_size=8)
    order = torch.randperm(32, generator=torch.Generator().manual_seed(1)).tolist()
    padded = torch.cat([torch.zeros(32, prompts.shape[1] - 1), mask], 1)  # as OpenRLHF lays it out
    batch = micro_batches(rewards().flatten().tolist(), order, mask=mask.float(), size=5)
    advantage = advantages(FocalExperienceMaker, args, batch).view(-1, 1)

    actor = Actor(str(model), attn_implementation="sdpa", param_dtype="bf16", temperature=1.0)
    sequences = torch.cat([prompts.repeat_interleave(8, 0), drawn.tokens], 1)
    attention = torch.cat([torch.ones(32, prompts.shape[1]), mask], 1).long()
    actions = padded.long()
    got = actor(sequences, actions, attention_mask=attention)
    made = PolicyLoss(*bounds) if objective == "clip" else ObjectiveLoss(objective, *bounds)
    loss, *_ = made(
        got, got.detach(), advantage.expand_as(got), actions, batch_num_tokens=mask.sum()
    )
    loss.backward()
    return {name.removeprefix("model."): p.grad.float() for name, p in actor.named_parameters()}


def flat(gradient, names):
    return torch.cat([gradient[name].flatten() for name in names])


@pytest.mark.parametrize(
    ("objective", "bounds", "gamma"),
    [("clip", (0.2, 0.2), 0.0), ("clip", (0.2, 0.28), 0.5), ("cispo", (1.0, 5.0), 2.0)],
)
def test_both_engines_have_the_same_first_gradient_within_bf16(
    model, rollouts, objective, bounds, gamma
):
    ours = embedded_gradient(model, rollouts, gamma, objective, bounds)
    theirs = openrlhf_gradient(model, rollouts, gamma, objective, bounds)
    assert ours.keys() <= theirs.keys()
    found, other = flat(ours, ours), flat(theirs, ours)
    assert found.norm() > 1e-3
    assert (found - other).norm() < 0.03 * found.norm()  # bf16: each product is off by up to 0.4%
    plain = flat(embedded_gradient(model, rollouts, 0.0, objective, bounds), ours)
    if gamma:  # focal weights change the gradient by more than bf16 does
        assert (found - plain).norm() > 0.2 * plain.norm()


def sampled_for(*problems):
    """A micro-batch of one rollout of each of these problems."""
    labels = [dispatch(make_label(problem), stream=1, position=0) for problem in problems]
    return Experience(
        action_mask=torch.ones(len(problems), 3, dtype=torch.bool),
        action_log_probs=torch.full((len(problems), 3), -1.0),
        advantages=torch.ones(len(problems), 3),
        labels=labels,
        prompts=[problem.prompt for problem in problems],
    )


def test_a_loss_that_is_not_finite_ends_the_run_with_its_step_and_groups():
    first, second = train_problems(2)
    values = {"policy_loss": torch.tensor(float("nan")), "actor_grad_norm": 1.0}
    both = f"step 7: the loss (nan) of the groups of {first.problem_id}, {second.problem_id} is"
    with pytest.raises(FloatingPointError, match=re.escape(both)):
        check_update(7, values, sampled_for(first, second, first))
    experience = sampled_for(first, second)
    experience.action_log_probs[1, 2] = float("-inf")
    alone = f"step 7: the loss (nan) of the group of {second.problem_id} is not finite"
    with pytest.raises(FloatingPointError, match=re.escape(alone)):
        check_update(7, values, experience)


@pytest.mark.parametrize("norm", [float("nan"), float("inf"), -1.0])
def test_a_gradient_norm_that_is_not_finite_ends_the_run_also_as_deepspeed_hides_it(norm):
    values = {"policy_loss": torch.tensor(0.5), "actor_grad_norm": norm}
    with pytest.raises(FloatingPointError, match=r"^step 3: the gradient norm \(.*\) of the group"):
        check_update(3, values, sampled_for(*train_problems(1)))
    check_update(3, values | {"actor_grad_norm": 2.0}, sampled_for(*train_problems(1)))
    check_update(3, {"policy_loss": torch.tensor(0.5)}, sampled_for(*train_problems(1)))


def test_weights_that_are_not_finite_end_the_run_with_their_name():
    layer = torch.nn.Linear(2, 2)
    check_weights(4, layer)
    with torch.no_grad():
        layer.bias[1] = float("inf")
    with pytest.raises(FloatingPointError, match=r"^step 4: a weight of bias is not finite"):
        check_weights(4, layer)


def adapted(base, target_modules="all-linear", dtype=torch.bfloat16):
    """A model with adapters that change something, as OpenRLHF makes them."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=dtype)
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=4,
        lora_alpha=8,
        target_modules=target_modules,
        lora_dropout=0,
        bias="none",
    )
    torch.manual_seed(5)
    model = get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05)
    return model


def copies(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_vllm_gets_the_base_models_names_and_the_adapters_in_the_weights(model):
    trained, before = adapted(model), load_file(model / "model.safetensors")
    parts = copies(trained)
    with policy.merged(trained, zero_stage=2):
        sent = copies(trained)
    assert sent.keys() == before.keys()
    changed = {name for name in before if not torch.equal(sent[name], before[name].bfloat16())}
    assert changed == {name for name in before if name.endswith("_proj.weight")}
    name = "model.layers.1.self_attn.q_proj"
    a, b = (parts[f"{policy.PREFIX}{name}.lora_{x}.default.weight"].float() for x in "AB")
    whole = before[f"{name}.weight"].bfloat16().float() + 8 / 4 * b @ a
    assert torch.equal(sent[f"{name}.weight"], whole.bfloat16())


def test_afterwards_the_weights_are_what_they_were_to_the_bit(model):
    trained = adapted(model)
    parts = copies(trained)
    with pytest.raises(RuntimeError, match="cut off"), policy.merged(trained, zero_stage=2):
        raise RuntimeError("cut off")
    after = copies(trained)
    assert after.keys() == parts.keys()
    assert all(torch.equal(after[name], parts[name]) for name in parts)


def test_an_export_is_a_checkpoint_that_computes_what_the_policy_computes(model, tmp_path):
    trained, tokenizer = adapted(model, dtype=torch.float32), AutoTokenizer.from_pretrained(model)
    policy.export(trained, tokenizer, tmp_path, zero_stage=2, writes=True)
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        path.name for path in tmp_path.iterdir()
    }
    exported = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    tokens = torch.arange(12)[None]
    with torch.no_grad():
        got, wanted, former = (network(tokens).logits for network in (exported, trained, base))
    torch.testing.assert_close(got, wanted, atol=1e-4, rtol=1e-4)
    assert (wanted - former).abs().max() > 0.1


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
def test_adapters_on_anything_but_linear_layers_are_refused_by_name(model):
    with pytest.raises(ValueError, match=r"embed_tokens has an adapter and is no linear layer"):
        policy.check(adapted(model, target_modules=["embed_tokens"]))


def test_a_policy_without_adapters_is_known_as_one(model):
    trained = adapted(model)
    policy.check(trained)
    assert policy.has_adapters(trained)
    assert not policy.has_adapters(AutoModelForCausalLM.from_pretrained(model))


def test_both_engines_have_the_same_kl_term():
    """Values and gradients, beyond the bounds too."""
    given = torch.tensor([-30.0, -9.0, -1.0, -0.1, 0.0, 0.5, 2.0, 12.0])
    gradients = []
    for estimate in (kl_estimates, partial(compute_approx_kl, kl_estimator="k3")):
        log_probs = (given - 2).requires_grad_()
        values = estimate(log_probs, torch.full_like(given, -2.0))
        values.sum().backward()
        gradients.append((values.detach(), log_probs.grad))
    torch.testing.assert_close(*gradients)
