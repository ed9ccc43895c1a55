"""The objectives against hand-computed losses and gradients, with the shipped clip bounds."""

import pytest
import torch

from fgrpo_bench.objectives.losses import OBJECTIVES, aggregate
from fgrpo_bench.specs import config

SHIPPED = config.load("gamma").algorithms
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
