"""Advantages of the table on stock OpenRLHF, by its agent interface (`--train.agent_func_path`).

An executor around OpenRLHF's own waits for all rollouts of a prompt and hands back the finished
advantage as the reward, which `--algo.advantage.estimator dr_grpo` passes on: it subtracts the
group's mean, 0 here. The agent's file:

    class AgentExecutor(GroupExecutor):
        def __init__(self):
            super().__init__(SingleTurnAgentExecutor("reward.py"), focal_gamma=0.5)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

try:
    from openrlhf.utils.agent import AgentExecutorBase
except ImportError as error:
    raise ImportError(
        f"fgrpo_bench.integrations.openrlhf cannot import OpenRLHF ({error}): pip install "
        "openrlhf==0.11.2"
    ) from error

import torch

from fgrpo_bench.integrations.groups import check_settings, rollout_advantages
from fgrpo_bench.objectives.advantages import reads_log_probs

Outputs = list[asyncio.Task[dict[str, Any]]]


class GroupExecutor(AgentExecutorBase):  # type: ignore[misc]
    """Rollouts of `executor`, whose `reward` becomes their advantage; `scores`, which OpenRLHF
    filters by and logs, stays. ValueError for settings that the table does not allow, rollouts that
    got no reward, and advantages whose mean over a group is not 0; else as `rollout_advantages`."""

    def __init__(
        self,
        executor: AgentExecutorBase,
        *,
        advantage: str = "grpo",
        focal_gamma: float = 0.0,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        if reads_log_probs(advantage):
            raise ValueError(f"{advantage} reads log-probabilities, which an agent is not given")
        self._executor = executor
        self._of_table = advantage, focal_gamma, dict(parameters or {})
        self._groups: dict[int, tuple[Outputs, asyncio.Task[list[dict[str, Any]]]]] = {}

    async def execute(self, prompt: str, label: str, sampling_params: Any, **rest: Any) -> Any:
        key = id(sampling_params)  # one object for the rollouts of a call, alive until all are back
        if key not in self._groups:
            # runs once OpenRLHF has started all of them, which it does in one go
            self._groups[key] = [], asyncio.ensure_future(self._finish(prompt, key))
        rollouts, finished = self._groups[key]
        place = len(rollouts)
        rollout = self._executor.execute(prompt, label, sampling_params, **rest)
        rollouts.append(asyncio.ensure_future(rollout))
        return (await finished)[place]

    async def _finish(self, prompt: str, key: int) -> list[dict[str, Any]]:
        """The rollouts of a prompt with their advantages, once the last one is back."""
        rollouts, _ = self._groups.pop(key)
        outputs = await asyncio.gather(*rollouts)
        advantages = self._advantages(prompt, outputs)
        pairs = zip(outputs, advantages, strict=True)
        return [output | {"reward": advantage} for output, advantage in pairs]

    def _advantages(self, prompt: str, outputs: list[dict[str, Any]]) -> list[float]:
        name = prompt[:80]
        if any(output["reward"] is None for output in outputs):
            raise ValueError(f"a rollout of {name!r} got no reward: look at the executor's log")
        check_settings(self._of_table[0], len(outputs), *self._of_table[1:])
        rewards = torch.tensor([float(output["reward"]) for output in outputs])
        advantages = rollout_advantages(rewards, [name] * len(outputs), *self._of_table, {})
        if advantages.mean().abs() > 1e-5 * advantages.abs().max():
            raise ValueError(
                f"the advantages {self._of_table[0]} of {name!r} have a mean of "
                f"{advantages.mean():g}, which OpenRLHF's dr_grpo would subtract: choose another"
            )
        values: list[float] = advantages.tolist()
        return values
