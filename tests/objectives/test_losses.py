"""The objectives against hand-computed losses and gradients, with the shipped clip bounds."""

import pytest
import torch

from fgrpo_bench.objectives.losses import OBJECTIVES, aggregate, entropies, kl_estimates
from tests.support.plans import loaded

SHIPPED = loaded("gamma").algorithms
ALGORITHMS = {name: SHIPPED[name] for name in ("grpo", "dapo", "cispo")}


def gradient(name: str, ratio: float, advantage: float) -> tuple[float, float, bool]:
    """(loss, d loss / d log pi, clipped) of one token whose ratio to the old policy is given."""
    log_probs = torch.tensor([[-1.0]], dtype=torch.float64, requires_grad=True)
    old = log_probs.detach() - torch.tensor(ratio, dtype=torch.float64).log()
    advantages = torch.tensor([[advantage]], dtype=torch.float64)
    algorithm = ALGORITHMS[name]
    bounds = (algorithm.clip_low, algorithm.clip_high)
    loss, clipped = OBJECTIVES[algorithm.objective](log_probs, old, advantages, *bounds)
    loss.sum().backward()
    assert log_probs.grad is not None
    return loss.item(), log_probs.grad.item(), bool(clipped)


def test_the_shipped_bounds_are_the_papers():
    bounds = {name: (a.clip_low, a.clip_high) for name, a in ALGORITHMS.items()}
    assert bounds == {"grpo": (0.2, 0.2), "dapo": (0.2, 0.28), "cispo": (1.0, 5.0)}
    assert {a.loss_aggregation for a in ALGORITHMS.values()} == {"token_mean"}
    assert not any(a.dynamic_sampling for a in ALGORITHMS.values())


@pytest.mark.parametrize(
    ("name", "ratio", "advantage", "loss", "slope", "clipped"),
    [
        ("grpo", 1.0, 2.0, -2.0, -2.0, False),
        ("grpo", 1.1, 2.0, -2.2, -2.2, False),
        ("grpo", 1.5, 2.0, -2.4, 0.0, True),  # min(3.0, 1.2 * 2)
        ("grpo", 1.25, 2.0, -2.4, 0.0, True),
        ("dapo", 1.25, 2.0, -2.5, -2.5, False),  # within 1.28
        ("dapo", 1.5, 2.0, -2.56, 0.0, True),
        ("grpo", 0.5, 2.0, -1.0, -1.0, False),  # the low bound does not bind for A > 0
        ("grpo", 0.5, -2.0, 1.6, 0.0, True),  # min(-1.0, 0.8 * -2)
        ("grpo", 1.5, -2.0, 3.0, 3.0, False),  # nor the high bound for A < 0
        ("cispo", 3.0, 2.0, 6.0, -6.0, False),  # -r A log pi with log pi = -1
        ("cispo", 9.0, 2.0, 12.0, -12.0, True),  # weight 6, gradient kept
        ("cispo", 0.5, -2.0, -1.0, 1.0, False),  # no lower bound: 1 - 1.0 = 0
    ],
)
def test_losses_and_gradients(name, ratio, advantage, loss, slope, clipped):
    got = gradient(name, ratio, advantage)
    assert got[:2] == pytest.approx((loss, slope), abs=1e-12)
    assert got[2] == clipped


def test_the_gradient_of_cispo_is_the_clipped_ratio_times_advantage():
    for ratio in (0.1, 0.9, 1.0, 2.5, 6.0, 40.0):
        for advantage in (-1.5, 0.5):
            slope = -min(ratio, 6.0) * advantage
            assert gradient("cispo", ratio, advantage)[1] == pytest.approx(slope)


@pytest.mark.parametrize("name", ["grpo", "dapo", "cispo"])
def test_at_ratio_one_there_is_the_policy_gradient_and_without_advantage_none(name):
    assert gradient(name, 1.0, 0.7)[1] == pytest.approx(-0.7)
    assert gradient(name, 1.3, 0.0)[1] == 0.0


def test_the_token_mean_weighs_tokens_and_the_sequence_mean_sequences():
    losses = torch.tensor([[1.0, 2.0, 9.0], [4.0, 9.0, 9.0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    got = [
        aggregate(losses, mask, aggregation=name, batch_tokens=10, batch_sequences=4).item()
        for name in ("token_mean", "sequence_mean")
    ]
    assert got == pytest.approx([7.0 / 10, (1.5 + 4.0) / 4])


def test_the_entropy_and_its_gradient_are_those_of_the_definition():
    logits = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ours = logits.clone().requires_grad_()
    entropies(torch.log_softmax(ours, -1)).sum().backward()
    p = logits.softmax(-1)
    entropy = -(p * p.log()).sum(-1, keepdim=True)
    torch.testing.assert_close(entropies(p.log()), entropy[:, 0])
    torch.testing.assert_close(ours.grad, -p * (p.log() + entropy))


def test_the_kl_estimate_is_k3_whose_mean_over_the_policy_is_the_divergence():
    """Its gradient is that of the estimate, and beyond ten nats it has none."""
    logits = torch.randn(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    p, q = logits.log_softmax(-1)
    log_probs = p.clone().requires_grad_()
    estimates = kl_estimates(log_probs, q)
    assert bool((estimates >= 0).all())
    mean = (p.exp() * estimates.detach()).sum()
    torch.testing.assert_close(mean, (p.exp() * (p - q)).sum())
    estimates.sum().backward()
    torch.testing.assert_close(log_probs.grad, 1 - (q - p).exp())
    far = torch.tensor([-30.0, 30.0], requires_grad=True)
    bounded = kl_estimates(far, torch.zeros(2))
    bounded.sum().backward()
    assert bounded.tolist() == [10.0, 10.0] and far.grad.tolist() == [0.0, 0.0]
