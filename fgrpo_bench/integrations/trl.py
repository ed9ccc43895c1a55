"""A GRPOTrainer of TRL whose advantages come from the table."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from typing import Any

try:
    from trl import GRPOConfig, GRPOTrainer
except ImportError as error:
    raise ImportError(
        f"fgrpo_bench.integrations.trl cannot import TRL ({error}): pip install trl==1.16.0"
    ) from error

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from fgrpo_bench.integrations import groups
from fgrpo_bench.integrations.groups import rollout_advantages, rollout_statistics
from fgrpo_bench.objectives.advantages import reads_log_probs
from fgrpo_bench.stats.validation import validation_metrics


class FocalGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer with `advantage` (a name of the table), its `parameters`, and `focal_gamma`.

    redraws: how often at most a batch is drawn again, with other prompts, to fill the places of
    groups whose rewards are alike (DAPO's dynamic sampling, arXiv 2503.14476); 0 leaves them in.
    correct: the name of a reward function of 0 and 1, of any weight, of which an evaluation logs
    `eval_mean@n` and `eval_pass@k`; "" logs none.
    Loss, aggregation and the advantages of an evaluation stay TRL's, and completions that no reward
    function scored are in no group. ValueError for settings that the table or TRL's configuration
    does not allow; at a step as `rollout_advantages`."""

    def __init__(
        self,
        *args: Any,
        advantage: str = "grpo",
        focal_gamma: float = 0.0,
        parameters: dict[str, Any] | None = None,
        redraws: int = 0,
        correct: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._of_table = advantage, focal_gamma, parameters or {}
        groups.check_settings(advantage, self.num_generations, focal_gamma, parameters or {})
        for name in ("scale_rewards", "multi_objective_aggregation"):
            default = GRPOConfig.__dataclass_fields__[name].default
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} has no effect on advantage={advantage!r}: "
                    f"leave it at {default!r}; advantage='dr_grpo' has no standard deviation"
                )
        if correct and correct not in self.reward_func_names:
            raise ValueError(
                f"correct={correct!r} is no reward function: {', '.join(self.reward_func_names)}"
            )
        if redraws and not hasattr(self.train_dataset, "__len__"):
            raise ValueError(f"redraws={redraws} needs a dataset of known length, not a stream")
        local = self.args.per_device_train_batch_size * self.args.steps_per_generation
        if redraws and local % self.num_generations:
            raise ValueError(
                f"redraws={redraws} needs whole groups in every process: {local} rollouts of one "
                f"are no multiple of num_generations={self.num_generations}"
            )
        self._redraws, self._correct = redraws, correct

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Any:
        self._rewards_per_func = super()._calculate_rewards(*args, **kwargs)
        return self._rewards_per_func

    def _generate_and_score_completions(self, inputs: list[Any]) -> dict[str, Any]:
        if not self.model.training:
            output: dict[str, Any] = super()._generate_and_score_completions(inputs)
            if self._correct:
                self._log_pass_at_k()
            return output
        output, alike = self._scored(inputs)
        for draw in range(self._redraws):
            if not alike.any():  # of all processes, so that all of them stop at once
                break
            logs = {id(kept): [*kept] for kept in self._kept_logs()}
            again, is_alike = self._scored(self._other_prompts(draw, len(inputs)))
            rows = self._places(alike, is_alike)
            self._replace(output, again, rows)
            for kept in self._kept_logs():  # what was trained on, as in a batch without redraws
                last = [*kept]
                kept.clear()
                kept.extend(last[rows[i]] if i in rows else v for i, v in enumerate(logs[id(kept)]))
            alike[[row // self.num_generations for row in rows]] = False
        return output

    def _scored(self, inputs: list[Any]) -> tuple[dict[str, Any], Tensor]:
        """A batch with our advantages, and which groups of all processes have equal rewards."""
        output = super()._generate_and_score_completions(inputs)
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
        grouped = rewards.view(-1, n)
        return output, grouped.amax(1) == grouped.amin(1)

    def _other_prompts(self, draw: int, n_rollouts: int) -> list[Any]:
        """This process's share of prompts for whole groups, at random from the dataset."""
        n, accelerator = self.num_generations, self.accelerator
        random = np.random.default_rng([self.args.seed, self._step, draw])
        size = accelerator.num_processes, n_rollouts // n
        chosen = random.integers(len(self.train_dataset), size=size)[accelerator.process_index]
        return [dict(self.train_dataset[row]) for row in chosen.tolist() for _ in range(n)]

    def _places(self, alike: Tensor, is_alike: Tensor) -> dict[int, int]:
        """By row of a batch over all processes, that of another batch which takes its place: groups
        of a process that differ, in the places of its groups that are alike."""
        n, rows = self.num_generations, {}
        shares = torch.arange(len(alike)).chunk(self.accelerator.num_processes)
        for share in map(Tensor.tolist, shares):
            places = [group for group in share if alike[group]]
            for place, group in zip(places, [g for g in share if not is_alike[g]], strict=False):
                rows.update({place * n + i: group * n + i for i in range(n)})
        self._metrics["train"]["redrawn_groups"].append(len(rows) // n)
        return rows

    def _replace(
        self, output: dict[str, Any], again: dict[str, Any], rows: Mapping[int, int]
    ) -> None:
        """Rows of this process in `output` by those of `again`, both padded to one width: prompts
        on the left, what is a completion's on the right."""
        if "pixel_values" in output:
            raise ValueError("redraws: images are not supported, set it to 0")
        first = self.accelerator.process_index * len(output["prompt_ids"])
        mine = range(first, first + len(output["prompt_ids"]))
        places = [row - first for row in rows if row in mine]
        taken = [rows[row + first] - first for row in places]
        for name, values in output.items():
            if isinstance(values, Tensor) and values.ndim:
                both: list[Tensor] = [values, again[name]]
                if values.ndim > 1:
                    width = max(part.shape[1] for part in both)
                    fill = self._tokenizer.pad_token_id if name.endswith("_ids") else 0
                    side = (1, 0) if name.startswith("prompt") else (0, 1)
                    both = [
                        pad(part, [k * (width - part.shape[1]) for k in side], value=fill)
                        for part in both
                    ]
                output[name] = both[0].clone()
                output[name][places] = both[1][taken]
        mask = output["completion_mask"] * output.get("tool_mask", 1)
        output["num_items_in_batch"] = self.accelerator.gather(mask.sum()).sum()

    def _kept_logs(self) -> list[Any]:
        """TRL's tables of the rollouts of a batch."""
        names = ("prompt", "completion", "advantages")
        return [*(self._logs[name] for name in names), *self._logs["rewards"].values()]

    def _log_pass_at_k(self) -> None:
        """By problem, so that TRL's mean is over problems; those with a completion that `correct`
        did not score are left out and counted."""
        column = self.reward_func_names.index(self._correct)
        grouped = self._rewards_per_func[:, column].view(-1, self.num_generations_eval)
        for values in grouped.cpu():
            is_scored = not values.isnan().any()
            self._metrics["eval"]["pass@k/left_out"].append(float(not is_scored))
            for name, value in validation_metrics(values[None]).items() if is_scored else ():
                self._metrics["eval"][name].append(value)

    def _log_probs(self, output: dict[str, Any]) -> dict[str, Tensor]:
        """`rollout_statistics` of all processes, computed where TRL has no log-probabilities."""
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
        read = rollout_statistics(log_probs, output["completion_mask"] * output.get("tool_mask", 1))
        return {name: self.accelerator.gather(values) for name, values in read.items()}
