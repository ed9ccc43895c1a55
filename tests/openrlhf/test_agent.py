"""F-GRPO on stock OpenRLHF by its agent interface gives the advantages of our engine."""

import asyncio
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.vllm_engine import RolloutRayActor
from openrlhf.utils.agent import AgentExecutorBase
from safetensors.torch import load_file

from fgrpo_bench.engines.openrlhf.experience import FocalExperienceMaker
from fgrpo_bench.integrations.openrlhf import GroupExecutor
from fgrpo_bench.objectives.advantages import group_advantages
from tests.openrlhf.experiences import advantages, maker_arguments, micro_batches
from tests.support.openrlhf import Run, make_untrained, train_problems, write_prompts

pytestmark = pytest.mark.openrlhf

REWARDS = {"p": [1.0, 0, 0, 0], "q": [1.0, 1, 1, 0], "r": [1.0] * 4, "s": [0.0] * 4}


class Scripted(AgentExecutorBase):
    """Rollouts that end in the order of their waits, the later ones of a prompt first."""

    def __init__(self):
        self.started = dict.fromkeys(REWARDS, 0)

    async def execute(self, prompt, label, sampling_params, **_):
        place = self.started[prompt]
        self.started[prompt] += 1
        for _ in range(9 - place):
            await asyncio.sleep(0)
        reward = REWARDS[prompt][place]
        return {
            "prompt": prompt,
            "label": label,
            "reward": reward,
            "scores": reward,
            "observation_tokens": [5, 6, place],
            "action_ranges": [(1, 3)],
            "rollout_log_probs": None,
        }


def responses(executor):
    """By OpenRLHF's own actor, all prompts at once, group after group."""
    generate = RolloutRayActor.__ray_actor_class__.generate_responses
    actor = SimpleNamespace(executor=executor)

    async def all_prompts():
        calls = [
            generate(actor, prompt, "", SimpleNamespace(), 9, None, num_samples=4)
            for prompt in REWARDS
        ]
        return await asyncio.gather(*calls)

    return [response for group in asyncio.run(all_prompts()) for response in group]


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("advantage", ["grpo", "dr_grpo", "rloo", "maxrl_coded"])
def test_its_advantages_are_those_of_our_engine(advantage, gamma):
    given = responses(GroupExecutor(Scripted(), advantage=advantage, focal_gamma=gamma))
    scores = [score for group in REWARDS.values() for score in group]
    order = [7, 3, 12, 0, 15, 4, 9, 1, 13, 6, 2, 10, 5, 14, 8, 11]
    process = SamplesGenerator._process_response_into_experience
    experiences = [process(SimpleNamespace(), response) for response in given]
    assert [experience.scores.item() for experience in experiences] == scores
    rewards = [experience.rewards.item() for experience in experiences]
    stock = maker_arguments(0.0)
    stock.algo.advantage.estimator = "dr_grpo"
    got = advantages(RemoteExperienceMaker, stock, micro_batches(rewards, order))
    ours = maker_arguments(gamma, advantage=advantage)
    wanted = advantages(FocalExperienceMaker, ours, micro_batches(scores, order))
    assert wanted[:8].abs().min() > 0.01
    torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("advantage", "parameters", "said"),
    [
        ("psr", {}, "psr of 'p' have a mean of 0.25, which OpenRLHF's dr_grpo would subtract"),
        ("pkpo", {"k": 5}, "k=5 of pkpo"),
        ("ds_grpo", {}, "ds_grpo reads log-probabilities"),
    ],
)
def test_what_it_cannot_hand_back_is_refused(advantage, parameters, said):
    with pytest.raises(ValueError, match=said):
        responses(GroupExecutor(Scripted(), advantage=advantage, parameters=parameters))


AGENT = """
import json, os
from pathlib import Path
from openrlhf.utils.agent import SingleTurnAgentExecutor
from fgrpo_bench.integrations.openrlhf import GroupExecutor

FOLDER = Path(__file__).parent

class AgentExecutor(GroupExecutor):
    def __init__(self):
        super().__init__(SingleTurnAgentExecutor(str(FOLDER / "reward.py")), focal_gamma=0.5)

    def _advantages(self, prompt, outputs):
        values = super()._advantages(prompt, outputs)
        with (FOLDER / "groups.jsonl").open("a") as file:
            file.write(json.dumps([[float(o["scores"]) for o in outputs], values]) + "\\n")
        return values
"""
REWARD = """
def reward_func(queries, prompts, labels):
    return {"rewards": float(len(queries[0]) % 2), "scores": float(len(queries[0]) % 2)}
"""


@pytest.mark.slow
def test_stock_openrlhf_trains_end_to_end(tmp_path):
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "reward.py").write_text(REWARD, encoding="utf-8")
    prompts = write_prompts(tmp_path / "prompts.jsonl", train_problems(16))
    model = make_untrained(tmp_path / "model")
    run = Run(
        folder=tmp_path,
        model=model,
        prompts=prompts,
        options={
            "--train.agent_func_path": str(tmp_path / "agent.py"),
            "--algo.advantage.estimator": "dr_grpo",
            "--ckpt.output_dir": str(tmp_path / "trained"),
        },
    )
    words = run.arguments[run.arguments.index("--actor.model_name_or_path") :]
    with run.log.open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", "tests.openrlhf.stock_run", *words],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"FGRPO_OPENRLHF_DEVICE": "cpu", "HF_HUB_OFFLINE": "1"},
            check=False,
            timeout=1200,
        )
    lines = (tmp_path / "groups.jsonl").read_text(encoding="utf-8").splitlines()
    groups = [json.loads(line) for line in lines]
    assert len(groups) == 16, run.last_lines()
    for scores, values in groups:
        wanted = group_advantages(torch.tensor([scores]), 0.5, "grpo")[0]
        torch.testing.assert_close(torch.tensor(values), wanted)
    assert any(any(values) for _, values in groups)
    (trained,) = (tmp_path / "trained").rglob("model*.safetensors")
    before, after = load_file(model / "model.safetensors"), load_file(trained)
    same = [torch.equal(w.bfloat16(), after[name].bfloat16()) for name, w in before.items()]
    assert not all(same)
