"""The differences of the stacks on docs/reference/integrations.md, on what is installed."""

from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
import verl
from hydra import compose, initialize_config_dir
from trl import GRPOConfig
from verl import DataProto
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.ray_trainer import compute_advantage

from fgrpo_bench.conformance.trainers import TRAINERS
from fgrpo_bench.integrations.groups import rollout_advantages
from fgrpo_bench.objectives.advantages import group_advantages
from fgrpo_bench.objectives.losses import aggregate
from fgrpo_bench.specs import config
from tests.integrations.trl_runs import GROUP_SIZE, Theirs, trainer

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "integrations.md"
SCALES = 1.0, 1e-3
"""The one reward of a group that is not 0: what divides it grows with it, but for the epsilon."""
AGGREGATIONS = "token_mean", "sequence_mean", "constant_length"


def spread(advantages):
    """Epsilon and ddof of (R - m) / (std + epsilon), from the advantages of the one reward that is
    not 0 in a group of each scale."""
    share = 1 - 1 / GROUP_SIZE
    by = [share * scale / value for scale, value in zip(SCALES, advantages, strict=True)]
    slope = (by[0] - by[1]) / (SCALES[0] - SCALES[1])
    epsilon = by[1] - slope * SCALES[1]
    ddof = GROUP_SIZE - share / slope**2  # N var = share of the one that is not 0
    return [f"{epsilon:.0e}", f"{ddof:.2f}".removesuffix(".00")]


def which(loss, losses, mask):
    """The aggregation of ours that makes this loss of these token losses."""
    counts = {"batch_tokens": int(mask.sum()), "batch_sequences": len(mask)}
    by_name = {a: aggregate(losses, mask, aggregation=a, **counts) for a in AGGREGATIONS}
    (name,) = (a for a, value in by_name.items() if torch.isclose(value, loss, rtol=1e-4))
    return name


def alone():
    """What becomes of a rollout that is alone in its group."""
    try:
        return f"{rollout_advantages(torch.ones(1), ['a'], 'grpo', 0.0, {}, {}).item():.2g}"
    except ValueError:
        return "refused"


def ours():
    rewards = torch.zeros(2, GROUP_SIZE, dtype=torch.float64)
    rewards[:, 0] = torch.tensor(SCALES)
    grpo = config.load("smoke").algorithms["grpo"]
    return [
        *spread(group_advantages(rewards, 0.0)[:, 0].tolist()),
        alone(),
        grpo.loss_aggregation,
        "",
        f"{grpo.clip_low}, {grpo.clip_high}",
        f"{grpo.kl_coef:g}",
    ]


def of_verl():
    with initialize_config_dir(
        str(Path(verl.__file__).parent / "trainer/config"), version_base=None
    ):
        actor = compose("ppo_trainer").actor_rollout_ref.actor
    uids = np.array(["a"] * GROUP_SIZE + ["b"] * GROUP_SIZE + ["alone"], dtype=object)
    rewards = torch.zeros(len(uids), 1, dtype=torch.float64)
    rewards[[0, GROUP_SIZE, -1], 0] = torch.tensor([*SCALES, 1.0], dtype=torch.float64)
    tensors = {"token_level_rewards": rewards, "response_mask": torch.ones(len(uids), 1)}
    data = DataProto.from_dict(tensors=tensors, non_tensors={"uid": uids})
    made = compute_advantage(data, "grpo").batch["advantages"][:, 0].tolist()
    mask = torch.tensor([[1.0, 0, 0], [1, 1, 1]])
    losses = torch.tensor([[1.0, 0, 0], [2, 3, 5]])
    return [
        *spread([made[0], made[GROUP_SIZE]]),
        f"{made[-1]:.2g}",
        which(agg_loss(losses, mask, actor.loss_agg_mode), losses, mask),
        f"`{actor.loss_agg_mode}`, `{actor.policy_loss.loss_mode}`",
        f"{actor.clip_ratio_low}, {actor.clip_ratio_high}",
        f"{actor.kl_loss_coef * actor.use_kl_loss:g}",
    ]


def of_trl(folder):
    def rewards(completions, **_):
        """Two groups with a reward of each scale, one with a single score, one all wrong."""
        values = [0.0] * len(completions)
        values[0], values[GROUP_SIZE] = SCALES
        values[2 * GROUP_SIZE : 3 * GROUP_SIZE] = [1.0, *[None] * (GROUP_SIZE - 1)]
        return values

    run = trainer(folder, kind=Theirs, reward_funcs=rewards, configuration={"max_steps": 1})
    run.train()
    (step,) = run.steps
    made, mask = step["advantages"], step["mask"]
    defaults = GRPOConfig(str(folder), bf16=False, use_cpu=True)
    high = defaults.epsilon if defaults.epsilon_high is None else defaults.epsilon_high
    return [
        *spread([made[0].item(), made[GROUP_SIZE].item()]),
        f"{made[2 * GROUP_SIZE].item():.2g}",
        which(run.loss.detach(), -made[:, None] * mask, mask),
        f"`{defaults.loss_type}`, `{defaults.importance_sampling_level}`",
        f"{defaults.epsilon}, {high}",
        f"{defaults.beta:g}",
    ]


def test_the_table_of_differences_is_what_the_installed_packages_do(tmp_path):
    (lines,) = [part.splitlines() for part in PAGE.read_text().split("\n\n") if part[:3] == "| |"]
    head, _, *rows = ([cell.strip() for cell in line.split("|")[2:-1]] for line in lines)
    assert head == ["fgrpo-bench", f"verl {version('verl')}", f"TRL {version('trl')}"]
    assert rows == [list(row) for row in zip(ours(), of_verl(), of_trl(tmp_path), strict=True)]


@pytest.mark.parametrize("name", ["verl", "trl", "openrlhf", "skyrl"])
def test_the_page_has_the_lines_of_every_integration_and_the_version_that_it_asks_for(name):
    folder, page = PAGE.parents[2] / "fgrpo_bench" / "integrations", PAGE.read_text()
    n_lines = {path.stem: len(path.read_text().splitlines()) for path in folder.glob("*.py")}
    (row,) = (line for line in page.splitlines() if line.lower().startswith(f"| {name} |"))
    pinned = TRAINERS[name].partition("==")[2]
    assert [cell.strip() for cell in row.split("|")[2:4]] == [pinned, str(n_lines[name])]
    assert f"{n_lines['groups']} more are shared" in page


@pytest.mark.parametrize("package", ["verl", "trl"])
def test_the_pins_are_the_versions_that_the_page_names(package):
    pins = (PAGE.parents[2] / "requirements" / "integrations.txt").read_text().splitlines()
    assert f"{package}=={version(package)}" in pins
    assert f"pip install . {package}=={version(package)}" in PAGE.read_text()
