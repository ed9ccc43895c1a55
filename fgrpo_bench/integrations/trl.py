"""A GRPOTrainer of TRL whose advantages come from the table."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

try:
    from trl import GRPOTrainer
except ImportError as error:
    raise ImportError(
        f"fgrpo_bench.integrations.trl cannot import TRL ({error}): pip install trl==1.16.0"
    ) from error

import torch
from torch import Tensor

from fgrpo_bench.integrations.groups import check, of_rollouts, rollout_advantages
from fgrpo_bench.objectives.advantages import reads_log_probs


class FocalGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with `advantage` (a name of the table), its `parameters`, and `focal_gamma`.

    Everything else is TRL's, the loss and its aggregation too. Completions that no reward function
    scored are left out of their group, as in TRL; evaluation keeps TRL's advantages. ValueError for
    settings that the table or TRL's configuration does not allow; at a step as
    `integrations.groups.rollout_advantages`.
    """

    def __init__(
        self,
        *args: Any,
        advantage: str = "grpo",
        focal_gamma: float = 0.0,
        parameters: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._of_table = advantage, focal_gamma, dict(parameters or {})
        check(advantage, self.num_generations, focal_gamma, self._of_table[2])
        neutral = {"scale_rewards": "group", "multi_objective_aggregation": "sum_then_normalize"}
        for name, value in neutral.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has no effect beside advantage={advantage!r}: "
                    f"leave it at {value!r}; without a standard deviation take advantage='dr_grpo'"
                )

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        self._rewards_per_func: Tensor = super()._calculate_rewards(*args, **kwargs)
        return self._rewards_per_func

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        per_func = self._rewards_per_func
        groups = [
            None if unscored else (row // self.num_generations, str(prompt)[:80])
            for row, (prompt, unscored) in enumerate(
                zip(self._logs["prompt"], per_func.isnan().all(1).tolist(), strict=True)
            )
        ]
        rewards = (per_func * self.reward_weights.to(per_func.device)).nansum(1)
        read = self._log_probs(output) if reads_log_probs(self._of_table[0]) else {}
        made = rollout_advantages(rewards, groups, *self._of_table, **read)
        self._logs["advantages"].extend(made.tolist())  # as long as a batch: TRL's own fall out
        first = self.accelerator.process_index * len(inputs)
        output["advantages"] = made[first : first + len(inputs)]
        return output

    def _log_probs(self, output: Mapping[str, Any]) -> dict[str, Tensor]:
        """`of_rollouts` of all processes, computed where TRL has no log-probabilities."""
        log_probs = output.get("old_per_token_logps")
        if log_probs is None:
            pairs = ("prompt_ids", "completion_ids"), ("prompt_mask", "completion_mask")
            taken = signature(self._get_per_token_logps_and_entropies).parameters
            with torch.no_grad():
                log_probs, _, _ = self._get_per_token_logps_and_entropies(
                    self.model,
                    *(torch.cat([output[name] for name in pair], 1) for pair in pairs),
                    output["completion_ids"].shape[1],
                    batch_size=self.args.per_device_train_batch_size,
                    **{name: value for name, value in output.items() if name in taken},
                )
        read = of_rollouts(log_probs, output["completion_mask"] * output.get("tool_mask", 1))
        return {name: self.accelerator.gather(values) for name, values in read.items()}
