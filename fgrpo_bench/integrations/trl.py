"""A GRPOTrainer of TRL whose advantages come from the table."""

from __future__ import annotations

from inspect import signature
from typing import Any

try:
    from trl import GRPOConfig, GRPOTrainer
except ImportError as error:
    raise ImportError(
        f"fgrpo_bench.integrations.trl cannot import TRL ({error}): pip install trl==1.16.0"
    ) from error

import torch
from torch import Tensor

from fgrpo_bench.integrations import groups
from fgrpo_bench.integrations.groups import of_rollouts, rollout_advantages
from fgrpo_bench.objectives.advantages import reads_log_probs


class FocalGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with `advantage` (a name of the table), its `parameters`, and `focal_gamma`.
    Loss, aggregation and the advantages of an evaluation stay TRL's, and completions that no reward
    function scored are in no group. ValueError for settings that the table or TRL's configuration
    does not allow; at a step as `rollout_advantages`."""

    def __init__(
        self,
        *args: Any,
        advantage: str = "grpo",
        focal_gamma: float = 0.0,
        parameters: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._of_table = advantage, focal_gamma, parameters or {}
        groups.check(advantage, self.num_generations, focal_gamma, parameters or {})
        for name in ("scale_rewards", "multi_objective_aggregation"):
            default = GRPOConfig.__dataclass_fields__[name].default
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has no effect on advantage={advantage!r}: "
                    f"leave it at {default!r}; advantage='dr_grpo' has no standard deviation"
                )

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        self._rewards_per_func = super()._calculate_rewards(*args, **kwargs)
        return self._rewards_per_func

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        if self.model.training:
            per_func, n = self._rewards_per_func, self.num_generations
            rewards = (per_func * self.reward_weights.to(per_func.device)).nansum(1)
            names = [f"{row // n} ({str(p)[:80]})" for row, p in enumerate(self._logs["prompt"])]
            scored = (~per_func.isnan()).any(1).tolist()
            labels = [name if is_in else None for name, is_in in zip(names, scored, strict=True)]
            read = self._log_probs(output) if reads_log_probs(self._of_table[0]) else {}
            advantages = rollout_advantages(rewards, labels, *self._of_table, read)
            # A whole batch: TRL's own fall out.
            self._logs["advantages"].extend(advantages.tolist())
            output["advantages"] = advantages.view(-1, len(inputs))[self.accelerator.process_index]
        return output

    def _log_probs(self, output: dict[str, Any]) -> dict[str, Tensor]:
        """`of_rollouts` of all processes, computed where TRL has no log-probabilities."""
        log_probs = output.get("old_per_token_logps")
        if log_probs is None:
            taken = signature(self._get_per_token_logps_and_entropies).parameters
            with torch.no_grad():
                log_probs, _, _ = self._get_per_token_logps_and_entropies(
                    self.model,
                    torch.cat([output["prompt_ids"], output["completion_ids"]], 1),
                    torch.cat([output["prompt_mask"], output["completion_mask"]], 1),
                    output["completion_ids"].shape[1],
                    batch_size=self.args.per_device_train_batch_size,
                    **{name: value for name, value in output.items() if name in taken},
                )
        read = of_rollouts(log_probs, output["completion_mask"] * output.get("tool_mask", 1))
        return {name: self.accelerator.gather(values) for name, values in read.items()}
