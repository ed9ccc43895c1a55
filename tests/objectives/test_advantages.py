"""Group advantages and the action mask against numbers computed by hand."""

from itertools import combinations, product
from math import sqrt

import pytest
import torch

from fgrpo_bench.objectives.advantages import (
    ADVANTAGES,
    action_mask,
    carries_state,
    check_parameters,
    default_parameters,
    group_advantages,
    has_signal,
    has_signal_when_all_are_alike,
    is_active,
    reads_log_probs,
    reads_rewards_only,
    restricted,
)
from fgrpo_bench.objectives.by_rewards import OfBinary
from tests.support.plans import is_somebodys, loaded

SHIPPED = [name for name, of in ADVANTAGES.items() if not is_somebodys(name, of)]


def test_three_of_four_correct_gives_the_hand_computed_advantages():
    """mu = 3/4, unbiased std = 1/2: (1 - 3/4) / (1/2) = 0.5 and (0 - 3/4) / (1/2) = -1.5."""
    rewards = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    plain = group_advantages(rewards, 0.0)
    torch.testing.assert_close(plain, torch.tensor([[0.5, 0.5, 0.5, -1.5]]), rtol=3e-6, atol=0)
    torch.testing.assert_close(group_advantages(rewards, 0.5), plain * 0.5)  # sqrt(1/4)
    torch.testing.assert_close(group_advantages(rewards, 1.0), plain * 0.25)
    torch.testing.assert_close(group_advantages(rewards, 2.0), plain * 0.0625)


def test_gamma_zero_is_bitwise_the_unweighted_advantage():
    rewards = (torch.rand(64, 8, generator=torch.Generator().manual_seed(0)) < 0.3).float()
    mean = rewards.mean(1, keepdim=True)
    base = (rewards - mean) / (rewards.std(1, keepdim=True) + 1e-6)
    assert torch.equal(group_advantages(rewards, 0.0), base)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_a_group_all_right_or_all_wrong_has_exactly_no_advantage(gamma):
    rewards = torch.tensor([[0.0], [1.0]]).expand(2, 8)
    assert torch.equal(group_advantages(rewards, gamma), torch.zeros(2, 8))


def test_active_groups_are_those_with_both_outcomes():
    rewards = torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert is_active(rewards).tolist() == [False, False, True, True]


def test_a_sampled_end_or_padding_token_is_an_action_and_what_follows_is_not():
    pad, eos = 0, 1
    tokens = torch.tensor([[5, 6, eos, pad], [5, pad, pad, pad], [pad, 7, 7, 7], [5, 6, 7, 8]])
    assert action_mask(tokens, eos=eos, pad=pad).int().tolist() == [
        [1, 1, 1, 0],
        [1, 1, 0, 0],
        [1, 0, 0, 0],
        [1, 1, 1, 1],
    ]


PARAMETERS = {
    name: {"k": 2} if "k" in default_parameters(name) else {}
    for name in sorted(ADVANTAGES)
    if not carries_state(name)
}
"""Some of every advantage that it takes in a group of four; those with a state across steps have
a file to themselves."""
REWARDS = torch.tensor(
    [[1.0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=torch.float64
)
"""Groups with 1, 2, 3, 4 and 0 right rollouts of 4."""


GRADED = torch.tensor(
    [[0.25, 1.0, 0.0, 0.5], [0.5, 0.5, 0.0, 1.0], [-1.0, 2.0, 2.0, 0.1], [0.3, 0.3, 0.3, 0.3]],
    dtype=torch.float64,
)


def by_subsets(groups: torch.Tensor, k: int) -> torch.Tensor:
    """PKPO's theorem 1, by definition: N / C(N, k) times the sum over the subsets of k that hold a
    rollout of their best reward, less the best of the others in the subset."""
    out = torch.zeros_like(groups)
    for group, rewards in enumerate(groups.tolist()):
        subsets = list(combinations(range(4), k))
        for subset in subsets:
            for i in subset:
                others = [rewards[j] for j in subset if j != i]
                gain = max(rewards[j] for j in subset) - max(others)
                out[group, i] += 4 / len(subsets) * gain
    return out


def with_and_without(groups: torch.Tensor, k: int) -> torch.Tensor:
    """max@K by definition: the mean best of the subsets of k with a rollout less of those
    without."""
    out = torch.zeros_like(groups)
    for group, rewards in enumerate(groups.tolist()):
        for i in range(4):
            best: dict[bool, list[float]] = {True: [], False: []}
            for subset in combinations(range(4), k):
                best[i in subset].append(max(rewards[j] for j in subset))
            out[group, i] = sum(best[True]) / len(best[True]) - sum(best[False]) / len(best[False])
    return out


@pytest.mark.parametrize(
    ("advantage", "parameters", "right", "wrong"),
    [  # of groups with 1, 2, 3, 4 and 0 right rollouts
        ("dr_grpo", {}, [3 / 4, 1 / 2, 1 / 4, 0, 0], [-1 / 4, -1 / 2, -3 / 4, 0, 0]),
        ("rloo", {}, [1, 2 / 3, 1 / 3, 0, 0], [-1 / 3, -2 / 3, -1, 0, 0]),
        ("maxrl", {}, [3, 1, 1 / 3, 0, 0], [-1, -1, -1, 0, -1]),
        ("maxrl_coded", {}, [3, 1, 1 / 3, 0, 0], [-1, -1, -1, 0, 0]),
        ("psr", {}, [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]),
        ("nsr", {}, [0, 0, 0, 0, 0], [-1, -1, -1, 0, -1]),
        ("w_reinforce", {"weight": 0.1}, [0.1, 0.1, 0.1, 0.1, 0], [-1, -1, -1, 0, -1]),
        # R = 1/2, 5/6, 1, 1, 0; A- subtracts C(N - c - 1, k - 1) / C(N - 1, k - 1) = 2/3, 1/3, 0
        (
            "passk",
            {"k": 2},
            [1, (1 / 6) / sqrt(5 / 36), 0, 0, 0],
            [(1 / 2 - 2 / 3) * 2, (1 / 6 - 1 / 3) / sqrt(5 / 36), 0, 0, 0],
        ),
        # k = 2: right N k / N (1 - (c - 1) / 3) = 2, 4/3, 2/3, 0
        ("pkpo", {"k": 2}, [2, 4 / 3, 2 / 3, 0, 0], [0, 0, 0, 0, 0]),
        # sloo: k (1, or c / 3) less N k / (N - 1) (1 - C(3 - others, 2) / 3)
        (
            "pkpo",
            {"k": 2, "baseline": "sloo"},
            [2, 2 - 16 / 9, 2 - 8 / 3, 2 - 8 / 3, 0],
            [2 / 3 - 16 / 9, 4 / 3 - 8 / 3, 2 - 8 / 3, 0, 0],
        ),
    ],
)
def test_published_advantages_are_those_computed_by_hand(advantage, parameters, right, wrong):
    per_group = torch.tensor([right, wrong], dtype=torch.float64)
    wanted = torch.where(REWARDS == 1, per_group[0][:, None], per_group[1][:, None])
    found = group_advantages(REWARDS, 0.0, advantage, parameters)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    weight = 1 - REWARDS.mean(1, keepdim=True)
    torch.testing.assert_close(
        group_advantages(REWARDS, 1.0, advantage, parameters), wanted * weight
    )


@pytest.mark.parametrize("advantage", [name for name in SHIPPED if reads_rewards_only(name)])
def test_arrays_have_the_advantages_of_tensors(advantage):
    parameters = {"k": 2} if "k" in default_parameters(advantage) else {}
    ours = group_advantages(REWARDS.numpy(), 0.5, advantage, parameters)
    theirs = group_advantages(REWARDS, 0.5, advantage, parameters)
    torch.testing.assert_close(torch.from_numpy(ours), theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_pkpo_is_its_definition_over_subsets(k):
    for groups in (REWARDS, GRADED):
        torch.testing.assert_close(
            group_advantages(groups, 0.0, "pkpo", {"k": k}), by_subsets(groups, k)
        )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_max_at_k_is_its_definition_over_subsets(k):
    for groups in (REWARDS, GRADED):
        torch.testing.assert_close(
            group_advantages(groups, 0.0, "max_at_k", {"k": k}), with_and_without(groups, k)
        )
    rloo = group_advantages(GRADED, 0.0, "rloo")
    torch.testing.assert_close(group_advantages(GRADED, 0.0, "max_at_k", {"k": 1}), rloo)


def test_mmpo_is_the_sum_of_pkpos_with_rloo_at_1():
    for groups in (REWARDS, GRADED):
        expected = group_advantages(groups, 0.0, "rloo")
        for k in (2, 3):
            expected = expected + by_subsets(groups, k)
        torch.testing.assert_close(group_advantages(groups, 0.0, "mmpo", {"k": 3}), expected)


def test_tailrl_is_maxrl_as_coded_and_carries_it_to_graded_rewards():
    """The authors' own example: [0.2, 0.5, 0.8] -> [-0.6, -0.15, 0.75]."""
    coded = group_advantages(REWARDS, 0.0, "maxrl_coded")
    torch.testing.assert_close(group_advantages(REWARDS, 0.0, "tailrl"), coded)
    example = torch.tensor([[0.8, 0.2, 0.5]], dtype=torch.float64)
    expected = torch.tensor([[0.75, -0.6, -0.15]], dtype=torch.float64)
    torch.testing.assert_close(group_advantages(example, 0.0, "tailrl"), expected)
    torch.testing.assert_close(group_advantages(example - 3, 0.0, "tailrl"), expected)


def test_softmax_grpo_is_risk_seeking_times_one_over_tau():
    """SoftmaxGRPO (arXiv 2608.09271): N softmax(R / tau) - 1."""
    tau = 0.4
    softmax = GRADED.shape[1] * torch.softmax(GRADED / tau, 1) - 1
    ours = group_advantages(GRADED, 0.0, "rs_grpo", {"beta": 1 / tau}) / tau
    torch.testing.assert_close(softmax, ours)


def test_risk_seeking_is_near_the_mean_for_a_small_beta_and_near_maxrl_for_a_large_one():
    small = group_advantages(REWARDS, 0.0, "rs_grpo", {"beta": 1e-6})
    torch.testing.assert_close(small, group_advantages(REWARDS, 0.0, "dr_grpo"), atol=1e-5, rtol=0)
    large = 30 * group_advantages(REWARDS, 0.0, "rs_grpo", {"beta": 30.0})
    torch.testing.assert_close(
        large, group_advantages(REWARDS, 0.0, "maxrl_coded"), atol=1e-9, rtol=0
    )


def test_likely_answers_are_raised_less_and_unlikely_ones_more():
    rewards = torch.tensor([[1.0, 1.0, 0.0, 0.0]])
    read = {"log_probs": torch.tensor([[-2.0, -8.0, -4.0, -6.0]]), "n_tokens": torch.ones(1, 4)}
    plain = group_advantages(rewards, 0.0)
    smoothed = group_advantages(rewards, 0.0, "ds_grpo", {"beta": 0.1}, **read)
    torch.testing.assert_close(smoothed - plain, torch.tensor([[0.2, 0.8, -0.4, -0.6]]))
    ranked = group_advantages(rewards, 0.0, "unlikeliness", {"beta": 0.4}, **read)
    earned = torch.tensor([[1 - 0.4 * 3 / 4, 1.0, 0.0, 0.0]])  # the likeliest has rank 3 of 4
    torch.testing.assert_close(ranked, group_advantages(earned, 0.0))


@pytest.mark.parametrize("kind", ["all differ", "many alike", "all certain", "tiny"])
def test_equally_likely_answers_keep_their_order_in_the_ranks(kind):
    for group_size in (2, 3, 8, 33):
        drawn = torch.rand(50, group_size, generator=torch.Generator().manual_seed(1))
        log_probs = -{
            "all differ": drawn,
            "many alike": (4 * drawn).floor(),
            "all certain": torch.zeros_like(drawn),
            "tiny": 1e-38 * drawn,
        }[kind]
        rank = log_probs.argsort(dim=1, stable=True).argsort(1)
        rewards = (drawn > 0.5).float()
        expected = group_advantages(rewards * (1 - 0.25 * rank / group_size), 0.0)
        read = {"log_probs": 3 * log_probs, "n_tokens": torch.full_like(log_probs, 3)}
        ranked = group_advantages(rewards, 0.0, "unlikeliness", {}, **read)
        assert torch.equal(ranked, expected), group_size


ALIKE = {"maxrl", "psr", "nsr", "w_reinforce", "ds_grpo", "unlikeliness"}
"""Advantages under which a group that is all right or all wrong has a gradient."""


@pytest.mark.parametrize(("advantage", "parameters"), PARAMETERS.items())
def test_which_advantages_teach_from_groups_that_are_all_alike(advantage, parameters):
    read = {}
    if reads_log_probs(advantage):
        log_probs = torch.arange(-12.0, 0).view(3, 4).repeat(2, 1)[:5]
        read = {"log_probs": log_probs, "n_tokens": torch.ones(5, 4)}
    has_gradient = has_signal(group_advantages(REWARDS.float(), 0.0, advantage, parameters, **read))
    assert has_gradient[:2].all() and (has_gradient[2] or advantage == "passk")  # C(4 - 3, 2) = 0
    assert bool(has_gradient[3:].any()) == (advantage in ALIKE)
    assert has_signal_when_all_are_alike(advantage, 4, parameters) == (advantage in ALIKE)
    focal = has_signal(group_advantages(REWARDS.float(), 1.0, advantage, parameters, **read))
    assert not focal[3], "a focal weight is 0 where all are right"


def test_leave_one_out_of_pkpo_teaches_from_groups_that_are_all_right():
    assert has_signal_when_all_are_alike("pkpo", 4, {"k": 2, "baseline": "sloo"})


BINARY = {"maxrl", "passk", "psr", "nsr", "w_reinforce", "ds_grpo"}
"""Advantages whose formula is for rewards of 0 and 1."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "advantage", ["grpo", "dr_grpo", "rloo", "rs_grpo", "tailrl", "max_at_k", "pkpo", "mmpo"]
)
def test_equal_rewards_give_exactly_0_whatever_the_rounding(advantage):
    given = {"k": 2} if "k" in default_parameters(advantage) else {}
    of_every_kind = product(
        (torch.float32, torch.float64, torch.bfloat16), (0.95, 0.1, 1000000.1, -3.3), (7, 8, 9, 33)
    )
    for dtype, reward, group_size in of_every_kind:
        rewards = torch.full((1, group_size), reward, dtype=dtype)
        other = torch.cat([rewards[:, 1:], 2 * rewards[:, :1]], 1)
        failed = (dtype, reward, group_size)
        assert not group_advantages(rewards, 0.0, advantage, given).any(), failed
        assert group_advantages(other, 0.0, advantage, given).any(), failed


def test_rewards_that_differ_have_the_bits_of_the_formula():
    for group_size in (2, 5, 8, 16):
        rewards = (torch.arange(group_size) < torch.arange(1, group_size)[:, None]).float() * 0.3
        deviation = rewards - rewards.mean(1)[:, None]
        by_formula = deviation / (rewards.std(1, correction=1)[:, None] + 1e-6)
        assert torch.equal(group_advantages(rewards, 0.0), by_formula)


@pytest.mark.parametrize("rewards", [[1.0, -1, -1, -1], [1.0, -1, 1, -1]])
def test_dividing_by_a_mean_of_0_or_below_is_refused_by_name(rewards):
    both = torch.tensor([[0.0, 0, 0, 0], rewards])
    with pytest.raises(
        ValueError, match=r"maxrl_coded must have a mean above 0 .* group 1 .* 1, -1"
    ):
        group_advantages(both, 0.0, "maxrl_coded")
    assert not group_advantages(both[:1], 0.0, "maxrl_coded").any()
    assert group_advantages(-both[1:] + 1, 0.0, "maxrl_coded").tolist()[0][1] > 0


@pytest.mark.parametrize(("advantage", "parameters"), PARAMETERS.items())
def test_rewards_other_than_0_and_1_are_refused_where_the_formula_is_for_these(
    advantage, parameters
):
    read = {}
    if reads_log_probs(advantage):
        read = {"log_probs": -torch.ones(5, 4), "n_tokens": torch.ones(5, 4)}
    assert isinstance(restricted(advantage), OfBinary) == (advantage in BINARY)
    if advantage in BINARY:
        with pytest.raises(ValueError, match=f"rewards of {advantage} must be 0 and 1"):
            group_advantages(REWARDS * 0.9, 0.0, advantage, parameters, **read)
    else:
        assert has_signal(group_advantages(REWARDS * 0.9, 0.0, advantage, parameters, **read)).any()


@pytest.mark.parametrize(
    ("advantage", "parameters", "words"),
    [
        ("grpo", {"k": 2}, "k=2: the advantage grpo has no parameters"),
        ("pkpo", {"beta": 2}, "beta=2: the advantage pkpo takes k, baseline"),
        ("pkpo", {}, "the advantage pkpo needs its parameter k"),
        ("passk", {"k": 5}, "k=5 of passk: must be a whole number from 1 to 4"),
        ("passk", {"k": 4}, "k=4 of passk: with group_size=4 every advantage is 0 and nothing"),
        ("passk", {"k": 1.5}, "k=1.5 of passk: must be a whole number"),
        ("passk", {"k": 2.0}, r"k=2\.0 of passk: must be a whole number"),
        ("pkpo", {"k": 4, "baseline": "sloo"}, "k=4 of pkpo: must be a whole number from 1 to 3"),
        ("w_reinforce", {"weight": -1}, "weight=-1 of w_reinforce: must be a number of at least 0"),
        ("unlikeliness", {"beta": 0}, "beta=0 of unlikeliness: must be a number above 0"),
        ("rs_grpo", {"beta": "2"}, "beta='2' of rs_grpo: must be a finite number"),
        ("w_reinforce", {"weight": float("inf")}, "weight=inf of w_reinforce: must be a finite"),
    ],
)
def test_parameters_that_are_none_are_refused(advantage, parameters, words):
    with pytest.raises(ValueError, match=words):
        check_parameters(advantage, 4, parameters)
    check_parameters("passk", 4, {"k": 2})


def test_every_advantage_has_a_file_that_names_it():
    declared = loaded("smoke").algorithms
    assert {algorithm.advantage for algorithm in declared.values()} == {*ADVANTAGES}
    assert all(declared[name].advantage == name for name in ADVANTAGES)
