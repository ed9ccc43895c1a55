"""CISPO in OpenRLHF's shape, and both engines' first gradient on the same rollouts."""

import numpy as np
import pytest
import torch
from openrlhf.models import Actor
from openrlhf.models.loss import PolicyLoss
from openrlhf.trainer.ppo_utils.experience import Experience

from fgrpo_bench.training.advantages import action_mask, group_advantages
from fgrpo_bench.training.embedded.checkpoint import load_checkpoint
from fgrpo_bench.training.embedded.sampling import sample
from fgrpo_bench.training.embedded.tokenizer import EOS, PAD
from fgrpo_bench.training.objectives import aggregate, token_losses
from fgrpo_bench.training.openrlhf.policy import CispoLoss, update_metrics
from tests.support.openrlhf import algorithm, train_problems

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
    loss, *_ = CispoLoss(1.0, 5.0)(log_probs, old, advantages, mask)
    loss.backward()
    weight = (log_probs.detach() - old).exp().clamp(0.0, 6.0)
    assert weight.max() == 6.0  # the bound binds somewhere
    torch.testing.assert_close(log_probs.grad, -(weight * advantages * mask) / mask.sum())


def test_only_tokens_with_an_advantage_count_as_clipped():
    log_probs, old, advantages, mask = batch()
    _, share, kl, *_ = CispoLoss(1.0, 5.0)(log_probs, old, advantages, mask)
    clipped = (log_probs - old).exp() > 6.0
    assert share * mask.sum() == (clipped & mask)[:2].sum()
    torch.testing.assert_close(kl, (old - log_probs.detach())[mask].mean())


@pytest.mark.parametrize("bounds", [(0.2, 0.2), (0.2, 0.28)])
def test_openrlhfs_own_loss_is_the_embedded_engines_clip_objective(bounds):
    log_probs, old, advantages, mask = batch()
    losses, clipped = token_losses(log_probs, old, advantages, algorithm("clip", bounds))
    ours = (losses * mask).sum() / mask.sum()
    theirs, share, *_ = PolicyLoss(*bounds)(log_probs, old, advantages, mask)
    torch.testing.assert_close(ours, theirs)
    assert share * mask.sum() == (clipped & mask).sum()
    ours.backward()
    grad = log_probs.grad.clone()
    log_probs.grad = None
    theirs.backward()
    torch.testing.assert_close(grad, log_probs.grad)


def test_metrics_of_a_micro_batch_are_means_over_its_action_tokens():
    told = torch.full((2, 3), float("nan"))
    told[0] = torch.tensor([-1.0, -2.0, -9.0])
    experience = Experience(
        action_mask=torch.tensor([[1, 1, 0], [1, 1, 1]]),
        advantages=torch.tensor([[0.5] * 3, [0.0] * 3]),
        rollout_log_probs=told,
        action_log_probs=torch.tensor([[-1.5, -2.25, 0.0], [-1.0] * 3]),
    )
    assert update_metrics(experience) == pytest.approx(
        {"_active_share": 2 / 5, "_measured_share": 2 / 5, "_rollout_kl": 0.75 / 5}
    )


@pytest.mark.parametrize(
    ("objective", "bounds"), [("clip", (0.2, 0.2)), ("clip", (0.2, 0.28)), ("cispo", (1.0, 5.0))]
)
def test_both_engines_have_the_same_first_gradient_within_bf16(model, objective, bounds):
    policy, tokenizer = load_checkpoint(model, "cpu", None)
    prompts = torch.from_numpy(tokenizer.encode([p.prompt for p in train_problems(4)]))
    drawn = sample(policy, prompts, np.arange(32).reshape(4, 8), length=4, temperature=1.0)
    rewards = (torch.arange(32) % 3 == 0).float().view(4, 8)
    advantages = group_advantages(rewards, 0.5).view(-1, 1)
    mask = action_mask(drawn.tokens, eos=EOS, pad=PAD)
    chosen = algorithm(objective, bounds)
    logits = policy.completion_logits(prompts, drawn.tokens, 8)
    log_probs = logits.log_softmax(-1).gather(2, drawn.tokens[..., None]).squeeze(-1)
    losses, _ = token_losses(log_probs, drawn.log_probs, advantages, chosen)
    aggregate(
        losses, mask, algorithm=chosen, batch_tokens=int(mask.sum()), batch_sequences=32
    ).backward()

    actor = Actor(str(model), attn_implementation="sdpa", param_dtype="bf16", temperature=1.0)
    sequences = torch.cat([prompts.repeat_interleave(8, 0), drawn.tokens], 1)
    attention = torch.cat([torch.ones(32, prompts.shape[1]), mask], 1).long()
    actions = attention[:, 1:].clone()
    actions[:, : prompts.shape[1] - 1] = 0
    got = actor(sequences, actions, attention_mask=attention)
    loss_class = CispoLoss if objective == "cispo" else PolicyLoss
    loss, *_ = loss_class(*bounds)(
        got, got.detach(), advantages.expand_as(got), actions, batch_num_tokens=mask.sum()
    )
    loss.backward()

    theirs = {name.removeprefix("model."): p.grad for name, p in actor.named_parameters()}
    ours = dict(policy.named_parameters())
    assert set(ours) <= set(theirs)
    ours_flat = torch.cat([p.grad.flatten() for p in ours.values()])
    theirs_flat = torch.cat([theirs[name].float().flatten() for name in ours])
    gap = (ours_flat - theirs_flat).norm() / ours_flat.norm()
    assert ours_flat.norm() > 1e-3
    assert gap < 0.03  # bf16 keeps 8 bits: each product is off by up to 0.4%
