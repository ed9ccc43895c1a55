"""The focal weight on OpenRLHF's advantages, against hand-computed and stock ones."""

import pytest
import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker

from fgrpo_bench.engines.openrlhf.experience import FocalExperienceMaker
from fgrpo_bench.objectives import by_rewards
from fgrpo_bench.objectives.advantages import (
    ADVANTAGES,
    carries_state,
    default_parameters,
    group_advantages,
    has_signal,
    reads_log_probs,
)
from tests.openrlhf.experiences import advantages, made_by, make, maker_arguments, micro_batches

pytestmark = pytest.mark.openrlhf

SCORES = [1.0, 0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0]
"""Success rates 1/4, 3/4, 1 and 0 of four groups of four."""

OPENRLHF_EPSILON = 1e-9
"""Beside the standard deviation of OpenRLHF's own GRPO, which is used as it is."""


ORDERS = [
    list(range(16)),
    list(reversed(range(16))),
    [7, 3, 12, 0, 15, 4, 9, 1, 13, 6, 2, 10, 5, 14, 8, 11],
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_advantages_are_those_of_a_hand_computed_batch(gamma, order):
    # one right of four: mean 1/4, unbiased deviation 1/2; three right: mean 3/4, the same
    base = [1.5, -0.5, -0.5, -0.5, 0.5, 0.5, 0.5, -1.5] + 8 * [0.0]
    weight = 4 * [0.75**gamma] + 4 * [0.25**gamma] + 8 * [1.0]
    wanted = torch.tensor([a * w for a, w in zip(base, weight, strict=True)])
    got = advantages(FocalExperienceMaker, maker_arguments(gamma), micro_batches(SCORES, order))
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
def test_gamma_0_is_stock_openrlhf_to_the_bit(order):
    stock = advantages(RemoteExperienceMaker, maker_arguments(0.0), micro_batches(SCORES, order))
    assert torch.equal(
        advantages(FocalExperienceMaker, maker_arguments(0.0), micro_batches(SCORES, order)), stock
    )


def test_equal_rewards_give_exactly_0_and_a_mean_below_0_is_refused_by_name():
    scores = 8 * [0.95] + [1.0, 0, 0, 0] + 4 * [0.1]
    got = advantages(FocalExperienceMaker, maker_arguments(0.0), micro_batches(scores, ORDERS[2]))
    stock = advantages(
        RemoteExperienceMaker, maker_arguments(0.0), micro_batches(scores, ORDERS[2])
    )
    assert torch.equal(got[8:12], stock[8:12]) and got[8] > 1
    assert not got[:8].any() and not got[12:].any()
    coded = maker_arguments(0.0, advantage="maxrl_coded")
    with pytest.raises(ValueError, match=r"maxrl_coded must have a mean above 0 .* group 0 "):
        advantages(FocalExperienceMaker, coded, micro_batches([1.0, -1, -1, -1] * 4, ORDERS[2]))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_success_is_counted_before_the_length_penalty(gamma):
    lengths = [5, 5, 1, 1] * 4  # half of every group is penalised
    penalised = maker_arguments(gamma, overlong=4)
    stock = advantages(
        RemoteExperienceMaker, penalised, micro_batches(SCORES, ORDERS[2], lengths=lengths)
    )
    got = advantages(
        FocalExperienceMaker, penalised, micro_batches(SCORES, ORDERS[2], lengths=lengths)
    )
    rates = torch.tensor(SCORES).view(4, 4).mean(1)
    weight = ((1 - rates) ** gamma).repeat_interleave(4)
    assert stock[8:].abs().max() > 0.5  # the penalty gives groups of one outcome an advantage
    torch.testing.assert_close(got, stock * weight)


@pytest.mark.parametrize("group_size", [2, 4])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize("advantage", sorted(a for a in ADVANTAGES if not carries_state(a)))
def test_every_advantage_is_that_of_the_embedded_engine(advantage, gamma, group_size, monkeypatch):
    monkeypatch.setattr(by_rewards, "EPSILON", OPENRLHF_EPSILON)
    parameters = {"k": group_size // 2} if "k" in default_parameters(advantage) else {}
    log_probs = torch.randn(16, 5, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(16, 5)
    mask[::3, 3:] = 0
    read = {}
    if reads_log_probs(advantage):
        totals = {"log_probs": (log_probs * mask).sum(1), "n_tokens": mask.sum(1)}
        read = {name: values.view(-1, group_size) for name, values in totals.items()}
    rewards = torch.tensor(SCORES).view(-1, group_size)
    embedded = group_advantages(rewards, gamma, advantage, parameters, **read)
    arguments = maker_arguments(
        gamma, group_size=group_size, advantage=advantage, parameters=parameters
    )
    batch = micro_batches(SCORES, ORDERS[2], mask=mask, log_probs=log_probs)
    maker = make(FocalExperienceMaker, arguments)
    got = made_by(maker, batch)
    torch.testing.assert_close(got, embedded.flatten(), rtol=1e-6, atol=1e-6)
    assert maker.taught_rates == rewards.mean(1)[has_signal(embedded)].tolist()


@pytest.mark.parametrize("advantage", ["grpo", "broken"])
def test_an_advantage_that_is_not_finite_stops_the_run_at_that_step_with_its_group(
    advantage, monkeypatch
):
    monkeypatch.setitem(ADVANTAGES, "broken", lambda rewards: rewards / (rewards - rewards))
    scores = [*SCORES[:5], float("nan"), *SCORES[6:]] if advantage == "grpo" else SCORES
    maker = make(FocalExperienceMaker, maker_arguments(1.0, advantage=advantage))
    maker.step = 7
    groups = r"group of made-1 \(rewards \[1.0, nan, 1.0, 0.0\]\)"
    if advantage == "broken":
        groups = (
            r"groups of made-\d, made-\d, made-\d and 1 more \(rewards \[1.0, 0.0, 0.0, 0.0\]\)"
        )
    words = f"^step 7: the advantage {advantage} of the {groups} is not finite"
    with pytest.raises(FloatingPointError, match=words):
        made_by(maker, micro_batches(scores, ORDERS[2]))


def test_rollouts_without_scores_are_refused():
    batch = micro_batches(SCORES, ORDERS[0])
    batch[2].scores = None
    with pytest.raises(ValueError, match=r"came without scores.*agent_func_path"):
        advantages(FocalExperienceMaker, maker_arguments(1.0), batch)
