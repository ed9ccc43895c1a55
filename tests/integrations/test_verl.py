"""verl's own registry, configuration and `compute_advantage` give the advantages of the table."""

import os
import random
import subprocess
import sys
from collections import defaultdict
from functools import cache
from importlib.metadata import Distribution
from math import nan
from pathlib import Path

import numpy as np
import pytest
import torch
import verl
from hydra import compose, initialize_config_dir
from omegaconf import open_dict
from packaging.requirements import Requirement
from verl import DataProto
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

import fgrpo_bench.integrations.verl  # noqa: F401  (registers)
from fgrpo_bench.objectives.advantages import (
    ADVANTAGES,
    group_advantages,
    reads_log_probs,
    reads_rewards_only,
    right_wrong,
)
from fgrpo_bench.objectives.focal import focal_weight

REWARDS_ALONE = [name for name in ADVANTAGES if reads_rewards_only(name)]
READ_LOG_PROBS = [name for name in ADVANTAGES if reads_log_probs(name)]
NEEDED = {"pkpo": {"k": 3}, "passk": {"k": 2}, "max_at_k": {"k": 2}}
GROUPS = {"p": [1, 0, 0, 0], "q": [1, 1, 0, 1, 0, 0], "r": [0] * 4, "s": [1] * 5, "t": [0, 1, 1, 1]}
"""Rewards by uid: mixed ones of different sizes, one all wrong, one all right."""
LENGTH = 6
NAMES = (
    "from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY; print(*ADV_ESTIMATOR_REGISTRY)"
)


@cache
def composed(*overrides):
    """Section `algorithm` of verl's own configuration with Hydra's overrides."""
    with initialize_config_dir(
        str(Path(verl.__file__).parent / "trainer/config"), version_base=None
    ):
        return compose("ppo_trainer", list(overrides)).algorithm


def configured(advantage, section=None, **settings):
    """The same without overrides, which take a while, for an estimator of ours."""
    config = composed().copy()
    with open_dict(config):
        config.update({"adv_estimator": f"fgrpo_{advantage}", **settings})
        if section is not None:
            config.fgrpo = section
    return config


def batch(groups=GROUPS):
    """Rollouts of all groups, shuffled, of different lengths, the reward at their last tokens."""
    rollouts = [(uid, reward) for uid, rewards in groups.items() for reward in rewards]
    random.Random(0).shuffle(rollouts)
    lengths = [1 + i % LENGTH for i in range(len(rollouts))]
    mask = torch.tensor([[int(t < length) for t in range(LENGTH)] for length in lengths])
    rewards = torch.zeros(len(rollouts), LENGTH)
    for row, ((_, reward), length) in enumerate(zip(rollouts, lengths, strict=True)):
        rewards[row, length - 1] = reward
    uids = np.array([uid for uid, _ in rollouts], dtype=object)
    tensors = {"token_level_rewards": rewards, "response_mask": mask}
    return DataProto.from_dict(tensors=tensors, non_tensors={"uid": uids})


def computed(data, config):
    """The advantage of each rollout, once it is seen that all its tokens have it, and no other."""
    done = compute_advantage(data, config.adv_estimator, config=config).batch
    assert torch.equal(done["advantages"], done["returns"])
    mask = done["response_mask"].bool()
    assert not done["advantages"][~mask].any()
    first = done["advantages"][:, :1].expand_as(mask)
    assert torch.equal(done["advantages"][mask], first[mask])
    return done["advantages"][:, 0].tolist()


@pytest.mark.parametrize("focal_gamma", [0, 0.5])
@pytest.mark.parametrize("advantage", REWARDS_ALONE)
def test_uneven_shuffled_groups_have_the_exact_advantages_of_the_table(advantage, focal_gamma):
    parameters = NEEDED.get(advantage, {})
    config = configured(advantage, {"focal_gamma": focal_gamma, **parameters})
    data = batch()
    made = computed(data, config)
    rewards = data.batch["token_level_rewards"].sum(1).tolist()
    for uid, reward, value in zip(data.non_tensor_batch["uid"], rewards, made, strict=True):
        n_correct, group_size = sum(GROUPS[uid]), len(GROUPS[uid])
        right, wrong = right_wrong(advantage, group_size, **parameters)[n_correct]
        wanted = float(right if reward else wrong) * focal_weight(
            n_correct / group_size, focal_gamma
        )
        # grpo's epsilon beside the smallest standard deviation of these groups
        assert value == pytest.approx(wanted, rel=1e-5, abs=1e-6), uid


@pytest.mark.parametrize("advantage", ["pkpo", "tailrl", "max_at_k", "mmpo"])
def test_partial_credit_has_the_advantages_by_order_of_reward(advantage):
    graded = {"p": [0.1, 1, 0, 0.5], "q": [0.5, 0.25, 0.25, 0, 1, 0.1], "r": [0.3, 0.3, 0.3]}
    parameters, data = {"k": 2} if advantage != "tailrl" else {}, batch(graded)
    rewards = data.batch["token_level_rewards"].sum(1).tolist()
    made = computed(data, configured(advantage, parameters))
    for uid, group in graded.items():
        values = group_advantages(np.array([group]), 0.0, advantage, parameters)[0]
        wanted = {round(r, 6): a for r, a in zip(group, values, strict=True)}
        for row in np.flatnonzero(data.non_tensor_batch["uid"] == uid):
            assert made[row] == pytest.approx(wanted[round(rewards[row], 6)], abs=1e-5), uid


def test_a_command_line_of_verl_sets_estimator_weight_and_parameters():
    section = "+algorithm.fgrpo={focal_gamma: 0.5, k: 3}"
    given = composed("algorithm.adv_estimator=fgrpo_pkpo", section)
    made = computed(batch(), given)
    assert made == computed(batch(), configured("pkpo", {"focal_gamma": 0.5, "k": 3}))
    assert made != computed(batch(), configured("pkpo", {"k": 3}))


def test_verls_default_trainer_takes_the_same_way():
    """It hands over its rows with keys of prompt, session and output."""
    data = batch()
    keys = [f"{uid}_{row}_0" for row, uid in enumerate(data.non_tensor_batch["uid"])]
    config = configured("maxrl", {"focal_gamma": 0.5})
    made = compute_advantage_for_multi_trajectories(
        data, keys, adv_estimator=config.adv_estimator, config=config
    )
    assert made.batch["advantages"][:, 0].tolist() == computed(batch(), config)


def test_without_a_section_the_defaults_hold_and_verls_own_estimators_stay():
    data = batch()
    ours, theirs = (
        compute_advantage(data, name, config=configured("grpo")).batch["advantages"].clone()
        for name in ("fgrpo_grpo", "grpo")
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
    assert get_adv_estimator_fn("rloo").__module__ == "verl.trainer.ppo.core_algos"


@pytest.mark.parametrize("advantage", READ_LOG_PROBS)
def test_what_reads_log_probabilities_is_refused_by_name(advantage):
    with pytest.raises(ValueError, match=f"fgrpo_{advantage} reads .* verl {verl.__version__} pas"):
        computed(batch(), configured(advantage))


@pytest.mark.parametrize("advantage", READ_LOG_PROBS)
def test_what_reads_log_probabilities_takes_those_that_a_verl_passes(advantage):
    data = batch()
    tensors, uids = data.batch, data.non_tensor_batch["uid"]
    old = -torch.rand(tensors["response_mask"].shape, generator=torch.Generator().manual_seed(0))
    made, _ = get_adv_estimator_fn(f"fgrpo_{advantage}")(
        token_level_rewards=tensors["token_level_rewards"],
        response_mask=tensors["response_mask"],
        index=uids,
        old_log_probs=old,
    )
    sums = (old * tensors["response_mask"]).sum(1)
    members = defaultdict(list)
    for row, uid in enumerate(uids):
        members[uid].append(row)
    for rows in members.values():
        wanted = ADVANTAGES[advantage](
            tensors["token_level_rewards"][rows].sum(1)[None],
            log_probs=sums[rows][None],
            n_tokens=tensors["response_mask"][rows].sum(1)[None],
        )
        torch.testing.assert_close(made[rows, 0], wanted[0])


def test_rows_that_verl_adds_to_fill_a_batch_get_none_and_are_no_group():
    """They share a uid, have no response token, and may be a single one."""
    data = batch({"p": [1, 0, 0], "pad": [0]})
    padding = data.non_tensor_batch["uid"] == "pad"
    data.batch["response_mask"][torch.from_numpy(padding)] = 0
    data.batch["token_level_rewards"][torch.from_numpy(padding)] = 0
    made = compute_advantage(data, "fgrpo_nsr", config=configured("nsr")).batch["advantages"]
    assert not made[torch.from_numpy(padding)].any()
    assert made[torch.from_numpy(~padding)].sum(1).lt(0).sum() == 2


@pytest.mark.parametrize(
    ("advantage", "section", "groups", "said"),
    [
        ("pkpo", {}, GROUPS, "the groups of .*: the advantage pkpo needs its parameter k"),
        ("pkpo", {"k": 5}, {"p": [1, 0, 0]}, "the group of p: k=5 of pkpo: .* 1 to 3"),
        ("passk", {"k": 2, "m": 1}, GROUPS, "m=1: the advantage passk takes k"),
        ("w_reinforce", {"weight": -1}, GROUPS, "weight=-1 of w_reinforce: .* at least 0"),
        ("w_reinforce", {"weight": "x"}, GROUPS, "weight='x' of w_reinforce: must be a finite"),
        ("rs_grpo", {"beta": 0}, GROUPS, "beta=0 of rs_grpo: must be a number above 0"),
        ("grpo", {"focal_gamma": "x"}, GROUPS, "focal_gamma='x': must be a number"),
        ("grpo", {}, {"p": [1]}, "the group of p: group size 1: must be at least 2"),
        ("maxrl", {}, {"p": [1, 0.25]}, "rewards 1, 0.25 in the group of p: rewards of maxrl"),
        ("grpo", {"focal_gamma": 1}, {"p": [2, 0]}, "rewards 2, 0 in the group of p: focal"),
        ("curverl", {}, GROUPS, "the groups of .*: advantage 'curverl' carries a state from step"),
        ("maxrl_coded", {}, {"p": [1, -1]}, "rewards 1, -1 in the group of p: .* a mean above 0"),
    ],
)
def test_what_is_not_defined_is_refused_with_value_rule_and_group(advantage, section, groups, said):
    with pytest.raises(ValueError, match=said):
        computed(batch(groups), configured(advantage, section))


def test_advantages_that_are_not_finite_stop_the_step_with_their_group():
    with pytest.raises(FloatingPointError, match="rloo of the group of z are not finite"):
        computed(batch(GROUPS | {"z": [nan, 0]}), configured("rloo"))


def test_a_setting_of_verl_without_effect_is_refused():
    config = configured("grpo", norm_adv_by_std_in_grpo=False)
    with pytest.raises(ValueError, match=r"norm_adv_by_std_in_grpo=False .* fgrpo_dr_grpo"):
        computed(batch(), config)


def test_the_installed_wheel_registers_by_its_entry_point_and_by_name(wheel):
    """In interpreters that see installed packages alone; the second has entry points off."""
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); import verl; {NAMES}"
    by_name = {
        "VERL_USE_EXTERNAL_PLUGINS": "none",
        "VERL_USE_EXTERNAL_MODULES": "fgrpo_bench.integrations.verl",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-I", "-W", "ignore", "-c", code],
            env=os.environ | variables,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
        )
        for variables in ({}, by_name)
    ]
    for process in processes:
        names = process.communicate(timeout=600)[0].split()
        assert [name for name in names if name.startswith("fgrpo_")] == [
            f"fgrpo_{name}" for name in ADVANTAGES
        ]


def test_the_wheel_asks_for_no_trainer(wheel):
    (metadata,) = (Distribution.at(path) for path in wheel.glob("*.dist-info"))
    asked = {Requirement(each).name for each in metadata.requires if "extra ==" not in each}
    assert asked == {"numpy", "scipy", "typer"}
