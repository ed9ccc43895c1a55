"""Rollouts in a fixed order with fixed seeds, counted as they are sampled.

OpenRLHF takes groups in the order in which they happen to finish and gives vLLM no seeds. Here
prompts, seeds and order follow from the training seed and the step. Draws follow from these and
the weights as far as vLLM's sums do: on GPUs their last bits depend on what is drawn beside a draw,
unless batch_invariant is set. What dynamic filtering drops is counted before it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from openrlhf.trainer.ppo_utils.experience import Experience
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.utils import get_tokenizer

from fgrpo_bench.core.seeds import stream
from fgrpo_bench.engines.openrlhf.labels import dispatch, read_dispatched
from fgrpo_bench.engines.openrlhf.metrics import Sampled


@lru_cache(maxsize=1)
def read_tokenizer(folder: str, use_fast: bool) -> Any:
    """The tokenizer that OpenRLHF's own processes read, once a process."""
    return get_tokenizer(folder, None, "left", None, use_fast=use_fast)


class TokenizerOfFolder:
    """Stands for a tokenizer on the way to the engines, where it arrives as the tokenizer itself.

    OpenRLHF sends its tokenizer with every prompt. One of 150,000 tokens has 8 MB, which an engine
    takes 0.3 s of a processor to read.
    """

    def __init__(self, folder: str, *, use_fast: bool) -> None:
        self._arguments = folder, use_fast

    def __reduce__(self) -> tuple[Callable[[str, bool], Any], tuple[str, bool]]:
        return read_tokenizer, self._arguments


class OrderedSamples(SamplesGenerator):  # type: ignore[misc]
    """OpenRLHF's sampler, with prompts, seeds and order that can be made again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tokenizer = TokenizerOfFolder(
            self.args.actor.model_name_or_path,
            use_fast=not self.args.data.disable_fast_tokenizer,
        )
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
        # an end token may come first, as in evaluation; OpenRLHF's 1 draws from what is left
        own = {"min_new_tokens": 0} | kwargs
        refs: list[Any] = super()._dispatch_prompts_to_vllm(prompts, sent, images=images, **own)
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
