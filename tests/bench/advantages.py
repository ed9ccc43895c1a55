"""Every advantage on 4,096 groups of 32 rollouts, as a ratio to plain GRPO's in the same run.

Half of the groups' log-probabilities are of few values, as where a model repeats its answers. The
advantages take turns, so that other work on the machine falls on all of them.
"""

import json
import time
from statistics import median
from typing import Any

import torch

from fgrpo_bench.objectives.advantages import (
    ADVANTAGES,
    group_advantages,
    parameters_of,
    reads_log_probs,
)

GROUPS, GROUP_SIZE, REPEATS = 4_096, 32, 100
GOAL = 2.0


def batch() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Rewards of groups of every success rate, and what some advantages read beside them."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(3, GROUPS, GROUP_SIZE, generator=generator)
    rewards = (drawn[0] < torch.linspace(0, 1, GROUPS)[:, None]).float()
    log_probs = -100 * drawn[1]
    log_probs[::2] = (log_probs[::2] / 10).round()
    return rewards, {"log_probs": log_probs, "n_tokens": (100 * drawn[2]).ceil()}


def main() -> None:
    torch.set_num_threads(1)
    rewards, of_rollouts = batch()
    seconds: dict[str, list[float]] = {name: [] for name in ADVANTAGES}
    for _ in range(REPEATS):
        for name, own in seconds.items():
            parameters = {"k": 4} if "k" in parameters_of(name) else {}
            read: dict[str, Any] = of_rollouts if reads_log_probs(name) else {}
            begun = time.process_time()
            group_advantages(rewards, 0.0, name, parameters, **read)
            own.append(time.process_time() - begun)
    plain = median(seconds["grpo"])
    for name, own in seconds.items():
        ratio = median(own) / plain
        facts = {"advantage": name, "CPU ms": 1e3 * median(own), "of GRPO's": ratio}
        print(json.dumps(facts | {"goal": GOAL, "met": ratio <= GOAL}))


if __name__ == "__main__":
    main()
