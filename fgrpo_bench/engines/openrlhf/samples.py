"""Rollouts in a fixed order with fixed seeds, counted as they are sampled.

OpenRLHF takes groups in the order in which they happen to finish and gives vLLM no seeds, so that
no two of its runs are alike. Here a batch depends on the seed, the step and the weights alone, and
what dynamic filtering drops is counted before it goes.
"""

from __future__ import annotations

from typing import Any

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from fgrpo_bench.engines.openrlhf.labels import dispatch, read_dispatched
from fgrpo_bench.engines.openrlhf.metrics import Sampled
from fgrpo_bench.seeds import stream


class OrderedSamples(SamplesGenerator):  # type: ignore[misc]
    """OpenRLHF's sampler, made reproducible."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step = 0
        """Steps done; the trainer keeps it."""
        self.sampled: list[Sampled] = []
        """Every rollout since the last call, filtered ones included, group by group."""
        self._purpose, self._dispatched = "", 0

    def generate_samples(self, **kwargs: Any) -> tuple[list[Experience], float | None, int, bool]:
        """One batch for training; an epoch's last prompts are left out where they fill none.

        OpenRLHF trains on such a rest too, with other mini-batch sizes, and leaves gradients
        behind where it does not fill one. After the last step of the run there is nothing more.
        """
        if self.step >= self.args.fgrpo.steps:
            return [], None, 0, True
        self._begin("rollout")
        samples, rate, consumed, exhausted = super().generate_samples(**kwargs)
        wanted = self.args.rollout.batch_size * self.args.rollout.n_samples_per_prompt
        if samples and len(samples) < wanted:
            print(
                f"the epoch ends: {len(samples)} rollouts fill no batch of {wanted}, left out",
                flush=True,
            )
            samples = []
        return samples, rate, consumed, exhausted

    def generate_eval_samples(self, **kwargs: Any) -> list[Experience]:
        """All rollouts of the evaluation prompts, group by group in the file's order."""
        self._begin("evaluate")
        samples: list[Experience] = super().generate_eval_samples(**kwargs)
        return samples

    def _begin(self, purpose: str) -> None:
        self._purpose, self._dispatched, self.sampled = purpose, 0, []

    def _generate_vllm(
        self, dataloader_iter: Any, num_prompts: int, dynamic_filtering: bool, **kwargs: Any
    ) -> tuple[list[Experience], int, bool]:
        samples, consumed, exhausted = super()._generate_vllm(
            dataloader_iter, num_prompts, dynamic_filtering, **kwargs
        )
        return sorted(samples, key=_position), consumed, exhausted

    def _dispatch_prompts_to_vllm(
        self, prompts: list[str], labels: list[str], *, images: Any = None, **kwargs: Any
    ) -> list[Any]:
        step = self.step + (self._purpose == "rollout")
        purpose = stream(self.args.train.seed, self._purpose, step)
        first = self._dispatched
        self._dispatched += len(labels)
        sent = [
            dispatch(label, stream=purpose, position=first + i) for i, label in enumerate(labels)
        ]
        refs: list[Any] = super()._dispatch_prompts_to_vllm(prompts, sent, images=images, **kwargs)
        return refs

    def _process_response_into_experience(self, response: dict[str, Any], **kwargs: Any) -> Any:
        self.sampled.append(
            Sampled(
                correct=response["scores"] == 1.0,
                unscored=response["extra_logs"]["unscored"] == 1.0,
                tokens=sum(end - start for start, end in response["action_ranges"]),
                truncated=bool(response["truncated"]),
            )
        )
        return super()._process_response_into_experience(response, **kwargs)


def _position(sample: Experience) -> int:
    return read_dispatched(sample.labels[0], sample.prompts[0]).position
