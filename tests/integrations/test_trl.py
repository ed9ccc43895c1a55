"""TRL's GRPOTrainer trains on processors with every advantage, and its advantages are ours."""

import json
import os
import subprocess
import sys
from math import inf, nan

import pytest
import torch

from evaluators.groups import dump_files, read_groups, summary
from fgrpo_bench.objectives.advantages import (
    ADVANTAGES,
    carries_state,
    group_advantages,
    reads_log_probs,
)
from fgrpo_bench.stats.validation import validation_metrics
from tests.integrations.trl_runs import GROUP_SIZE, Ours, Theirs, by_prompt, trainer
from tests.support.servers import free_port

NEEDED = {"pkpo": {"k": 3}, "passk": {"k": 2}, "max_at_k": {"k": 2}}


def expected(step, rewards, advantage, focal_gamma, parameters):
    """By the table from what a step recorded, group after group as TRL draws them."""
    names = ("log_probs", "n_tokens") if reads_log_probs(advantage) else ()
    read = {name: step[name].view(-1, GROUP_SIZE) for name in names}
    grouped = rewards.view(-1, GROUP_SIZE)
    return group_advantages(grouped, focal_gamma, advantage, parameters, **read).flatten()


@pytest.mark.parametrize("advantage", [a for a in ADVANTAGES if not carries_state(a)])
def test_three_steps_have_our_advantages_and_change_the_weights(advantage, tmp_path):
    parameters = NEEDED.get(advantage, {})
    run = trainer(tmp_path, advantage=advantage, focal_gamma=0.5, parameters=parameters)
    before = [weight.detach().clone() for weight in run.model.parameters()]
    run.train()
    assert run.state.global_step == len(run.steps) == 3
    rates = {rate for step in run.steps for rate in step["rewards"].view(-1, 4).mean(1).tolist()}
    assert {0.0, 1.0} < rates  # all wrong, all right, and some between
    for step in run.steps:
        wanted = expected(step, step["rewards"][:, 0], advantage, 0.5, parameters)
        torch.testing.assert_close(step["advantages"], wanted, rtol=1e-5, atol=1e-6)
        assert step["logged"] == pytest.approx(wanted.tolist(), rel=1e-5, abs=1e-6)
    changed = [b - a.detach() for b, a in zip(before, run.model.parameters(), strict=True)]
    assert any(difference.abs().max() > 1e-4 for difference in changed)


@pytest.mark.parametrize(
    ("kind", "settings", "label"),
    [
        (Theirs, {}, "GRPO"),
        (Theirs, {"configuration": {"scale_rewards": "none"}}, "Dr. GRPO"),
        (Ours, {"advantage": "grpo", "focal_gamma": 0.5}, "F-GRPO gamma=0.5"),
    ],
)
def test_its_dump_has_the_groups_and_the_advantages_that_it_trained_on(
    kind, settings, label, tmp_path
):
    logs = {"log_completions": True, "logging_strategy": "steps", "logging_steps": 1}
    configuration = settings.get("configuration", {}) | logs
    run = trainer(tmp_path, kind=kind, **settings | {"configuration": configuration})
    run.train()
    of = summary(read_groups(dump_files(tmp_path / "completions")), "completions")
    assert of.group_sizes == {"4": 12} and [step.step for step in of.steps] == [1, 2, 3]
    assert of.total.n_correct == sum(step["rewards"].sum() for step in run.steps)
    # TRL has 1e-4 beside the standard deviation
    assert of.nearest.labels == (label,) and of.nearest.largest_difference < 1e-3


def test_log_probabilities_that_trl_has_computed_are_taken(tmp_path):
    """With two updates a generation TRL knows them itself; the second has none of its own."""
    halved = {"per_device_train_batch_size": 8, "steps_per_generation": 2, "max_steps": 2}
    run = trainer(tmp_path, advantage="ds_grpo", configuration=halved)
    run.train()
    (step,) = run.steps
    assert step["has_log_probs"]
    wanted = expected(step, step["rewards"][:, 0], "ds_grpo", 0.0, {})
    torch.testing.assert_close(step["advantages"], wanted, rtol=1e-5, atol=1e-6)


def test_rewards_are_weighed_and_a_completion_that_nobody_scored_is_in_no_group(tmp_path):
    def nobody(completions, **_):
        return [None, *[0.0] * (len(completions) - 1)]

    def length(completions, **_):
        return [None, *(len(text.split()) / 10 for text in completions[1:])]

    run = trainer(
        tmp_path,
        advantage="rloo",
        reward_funcs=[nobody, length],
        configuration={"reward_weights": [1.0, 2.0], "max_steps": 1},
    )
    run.train()
    (step,) = run.steps
    rewards = 2 * step["rewards"][:, 1]
    first = group_advantages(rewards[None, 1:GROUP_SIZE], 0.0, "rloo").flatten()
    rest = group_advantages(rewards[GROUP_SIZE:].view(-1, GROUP_SIZE), 0.0, "rloo").flatten()
    wanted = torch.cat([torch.zeros(1), first, rest])
    torch.testing.assert_close(step["advantages"], wanted)


def test_two_processes_get_their_parts_of_a_group_over_both(tmp_path):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.integrations.trl_runs", str(tmp_path)]
    processes = [
        subprocess.Popen(
            command,
            env=os.environ | address | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
        )
        for rank in range(2)
    ]
    try:
        assert [process.wait(timeout=600) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    parts = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for one, two in zip(*parts, strict=True):
        whole = {name: torch.tensor([*one[name], *two[name]]) for name in ("log_probs", "n_tokens")}
        assert one["rewards"] == two["rewards"]  # of both processes
        rewards = torch.tensor(one["rewards"]).view(1, -1)
        read = {name: values.view(1, -1) for name, values in whole.items()}
        wanted = group_advantages(rewards, 0.0, "unlikeliness", {"beta": 0.5}, **read).flatten()
        made = torch.tensor([*one["advantages"], *two["advantages"]])
        torch.testing.assert_close(made, wanted, rtol=1e-5, atol=1e-6)
        assert wanted.any()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"advantage": "grpoo"}, "unknown advantage 'grpoo'"),
        ({"advantage": "curverl"}, "advantage 'curverl' carries a state from step to step"),
        ({"advantage": "pkpo"}, "the advantage pkpo needs its parameter k"),
        ({"advantage": "pkpo", "parameters": {"k": 5}}, "k=5 of pkpo: .* from 1 to 4"),
        ({"advantage": "grpo", "parameters": {"k": 2}}, "k=2: the advantage grpo has no param"),
        (
            {"advantage": "rs_grpo", "parameters": {"beta": "2"}},
            "beta='2' of rs_grpo: must be a finite number",
        ),
        ({"advantage": "grpo", "focal_gamma": -0.5}, "focal_gamma=-0.5: must be a number from 0"),
        ({"advantage": "grpo", "focal_gamma": nan}, "focal_gamma=nan: must be a number from 0"),
        ({"configuration": {"scale_rewards": "none"}}, "scale_rewards='none' has no effect on"),
        ({"correct": "right"}, "correct='right' is no reward function: by_prompt"),
    ],
)
def test_settings_that_are_not_defined_are_refused_before_training(settings, said, tmp_path):
    with pytest.raises(ValueError, match=said):
        trainer(tmp_path, **settings)


@pytest.mark.parametrize(
    ("settings", "reward", "error", "said"),
    [
        ({"advantage": "rloo"}, inf, FloatingPointError, r"rloo of the group of 0 \(.*not finite"),
        ({"advantage": "maxrl"}, 0.5, ValueError, r"rewards 0.5, .* in the group of 0 \(.*0 and 1"),
        ({"advantage": "maxrl_coded"}, -1.0, ValueError, r"-1, .*group of 0 \(.*a mean above 0"),
        ({"focal_gamma": 0.5}, 3.0, ValueError, r"rewards 3, .* in the group of 0 \(.*from 0 to 1"),
    ],
)
def test_rewards_that_an_advantage_is_not_defined_for_stop_the_step(
    settings, reward, error, said, tmp_path
):
    def rewards(completions, **_):
        return [reward, *[0.0] * (len(completions) - 1)]

    run = trainer(tmp_path, reward_funcs=rewards, **settings)
    with pytest.raises(error, match=said):
        run.train()
    assert run.state.global_step == 0


def test_groups_whose_rewards_are_alike_give_their_places_to_others(tmp_path):
    drawn = []

    class Counted(Ours):
        def _scored(self, inputs):
            output, alike = super()._scored(inputs)
            rewards = torch.tensor([*self._logs["rewards"].values()]).T
            copied = {k: v.clone() for k, v in output.items() if isinstance(v, torch.Tensor)}
            drawn.append((copied, rewards[:, 0].view(-1, GROUP_SIZE), alike.clone()))
            return output, alike

    run = trainer(
        tmp_path,
        kind=Counted,
        advantage="grpo",
        focal_gamma=0.5,
        redraws=3,
        configuration={"max_steps": 1},
    )
    run.train()
    (step,) = run.steps
    kept, n_redrawn = drawn[0][1].clone(), 0
    sources = [(0, group) for group in range(len(kept))]
    is_empty = drawn[0][2].clone()
    for draw, (_, rewards, alike) in enumerate(drawn[1:], 1):
        places, good = is_empty.nonzero().flatten(), (~alike).nonzero().flatten()
        for place, group in zip(places.tolist(), good.tolist(), strict=False):
            kept[place], sources[place], is_empty[place] = rewards[group], (draw, group), False
            n_redrawn += 1
    assert 2 <= len(drawn) <= 4 and n_redrawn  # two of the four prompts are always alike
    assert not is_empty.any() or len(drawn) == 4
    assert torch.equal(step["rewards"][:, 0].view(-1, GROUP_SIZE), kept)
    wanted = group_advantages(kept, 0.5, "grpo").flatten()
    torch.testing.assert_close(step["advantages"], wanted)
    assert step["logged"] == pytest.approx(wanted.tolist())
    for place, (draw, group) in enumerate(sources):
        rows = slice(group * GROUP_SIZE, (group + 1) * GROUP_SIZE)
        there = slice(place * GROUP_SIZE, (place + 1) * GROUP_SIZE)
        lengths = drawn[draw][0]["completion_mask"][rows].sum(1)
        assert torch.equal(step["mask"][there].sum(1), lengths)


def test_an_evaluation_logs_pass_at_k_of_the_reward_function_that_says_correct(tmp_path):
    def length(completions, **_):
        return [len(text.split()) / 10 for text in completions]

    run = trainer(
        tmp_path,
        reward_funcs=[length, by_prompt],
        correct="by_prompt",
        configuration={
            "reward_weights": [1.0, 0.0],
            "per_device_eval_batch_size": 8,
            "num_generations_eval": 8,
        },
    )
    run.eval_dataset = run.train_dataset
    logged = run.evaluate()
    verdicts = torch.tensor([step["rewards"][-8:, 1].tolist() for step in run.steps])
    assert verdicts.shape == (4, 8) and 0 < verdicts.mean() < 1
    wanted = {f"eval_{name}": v for name, v in validation_metrics(verdicts).items()}
    assert set(wanted) == {"eval_mean@8", "eval_pass@2", "eval_pass@4", "eval_pass@8"}
    assert {name: logged[name] for name in wanted} == pytest.approx(wanted)
    assert logged["eval_pass@k/left_out"] == 0
    assert logged["eval_reward"] != pytest.approx(wanted["eval_mean@8"])
