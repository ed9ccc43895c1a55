"""OpenRLHF's controller with our sampler, experience maker, metrics, checkpoints and stop.

FocalTrainer takes the place of OpenRLHF's PPOTrainer actor and runs in that actor's process. A step
ends in this order, so that a kill at any moment loses no row and repeats none: evaluation, metrics
row, Hugging Face checkpoint, training state, stop. A stop that comes while rollouts are drawn does
not wait for their updates: the state before them is saved, and they are drawn again.

Before it stands which samples an update has (`deal`): OpenRLHF sorts the whole batch by length
before it cuts it into updates, so that the first is always the longest and the shortest samples and
groups are torn apart. Here an update is a block of whole groups in the batch's own order, dealt
over the ranks so that they have about as many tokens. Next: openrlhf.epochs, the order of prompts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
import torch
from openrlhf.trainer import ppo_trainer
from openrlhf.trainer.ppo_utils.experience import (
    Experience,
    make_experience_batch,
    split_experience_batch,
)
from openrlhf.utils.seqlen_balancing import get_seqlen_balanced_partitions

from fgrpo_bench.engines.openrlhf import metrics, rehearsal
from fgrpo_bench.engines.openrlhf.epochs import PromptOrder
from fgrpo_bench.engines.openrlhf.experience import FocalExperienceMaker, OrderedSamples
from fgrpo_bench.engines.openrlhf.guards import actor_class, gpu_count, origin, rank_count
from fgrpo_bench.engines.openrlhf.states import mark_whole
from fgrpo_bench.files.journal import append_line


def deal(lengths: Sequence[int], *, updates: int, ranks: int) -> list[list[int]]:
    """For each rank the samples that it takes, update after update, as many in each.

    lengths: tokens of every sample of the batch, one group after the other. ValueError where the
    samples cannot be dealt out evenly.
    """
    size, remainder = divmod(len(lengths), updates)
    if remainder or size % ranks:
        raise ValueError(
            f"{len(lengths)} samples do not make {updates} updates of as many samples on each of "
            f"{ranks} ranks: change the prompts per step, updates_per_batch or actor_gpus_per_node"
        )
    dealt: list[list[int]] = [[] for _ in range(ranks)]
    for first in range(0, len(lengths), size):
        block = list(lengths[first : first + size])
        shares = get_seqlen_balanced_partitions(block, ranks, equal_size=True)
        for samples, share in zip(dealt, shares, strict=True):
            samples += [first + i for i in sorted(share)]
    return dealt


def deal_experiences(experiences: list[Experience], args: Any) -> list[Experience]:
    """In place of OpenRLHF's balance_experiences: an Experience for each rank, in the order in
    which its replay buffer cuts them into updates.

    experiences: micro-batches; the samples `index` of the batch stand in each, in any order.
    """
    order = [i for experience in experiences for i in experience.index]
    samples = [
        sample for experience in experiences for sample in split_experience_batch(experience)
    ]
    batch = [sample for _, sample in sorted(zip(order, samples, strict=True), key=_place)]
    dealt = deal(
        [int(sample.total_length) for sample in batch],
        updates=len(batch) // args.train.batch_size,
        ranks=rank_count(args),
    )
    return [make_experience_batch([batch[i] for i in samples]) for samples in dealt]


def _place(pair: tuple[int, Experience]) -> int:
    return pair[0]


NEVER = float("inf")
"""OpenRLHF's own value for an interval that never comes."""
openrlhfs_datasets = ppo_trainer.prepare_datasets
"""As it is before FocalTrainer puts prepare_prompts in its place."""


def prepare_prompts(strategy: Any, tokenizer: Any) -> tuple[Any, Any, int]:
    """In place of OpenRLHF's prepare_datasets: (loader of the training prompts, that of the
    evaluation's or None, optimizer steps of the schedule), with epochs of PromptOrder."""
    shuffled, evaluation, _ = openrlhfs_datasets(strategy, tokenizer)
    args, prompts = strategy.args, shuffled.dataset
    order = PromptOrder(
        seed=args.train.seed,
        problems=len(prompts),
        size=args.fgrpo.prompts_per_epoch or len(prompts),
    )
    loader = strategy.setup_dataloader(
        prompts, 1, pin_memory=True, collate_fn=prompts.collate_fn, sampler=order
    )
    updates = len(order) * args.rollout.n_samples_per_prompt // args.train.batch_size
    return loader, evaluation, updates * args.train.num_episodes * args.train.max_epochs


class StoppedRun(RuntimeError):
    """The stop flag was seen; everything up to the last step is saved."""


class FocalTrainer(actor_class(ppo_trainer.PPOTrainer)):  # type: ignore[misc]
    """OpenRLHF's trainer; see the module."""

    def __init__(self, pretrain: str, strategy: Any, *args: Any, **kwargs: Any) -> None:
        # the parent makes its parts by these names of its module, in the call below
        ppo_trainer.prepare_datasets = prepare_prompts
        ppo_trainer.SamplesGenerator = OrderedSamples
        ppo_trainer.RemoteExperienceMaker = FocalExperienceMaker
        ppo_trainer.balance_experiences = deal_experiences
        super().__init__(pretrain, strategy, *args, **kwargs)
        self.options = self.args.fgrpo
        self.group_size = self.args.rollout.n_samples_per_prompt
        self.eval_every, self.args.eval.steps = self.args.eval.steps, NEVER
        self.step = self.saved_step = 0
        self.step_begun = time.monotonic()
        self.client_states: dict[str, Any] = {}
        self.totals = metrics.Totals(rollouts=0, tokens=0)

    def init_checkpoint_states(self) -> dict[str, Any]:
        """Where to resume; rows of steps that will be made again are dropped."""
        states: dict[str, Any] = super().init_checkpoint_states()
        self.step = self.saved_step = self.samples_generator.step = states["global_step"]
        self.totals = metrics.rewind(self.options.metrics, self.step)
        print(f"step {self.step} is done" if self.step else "starting at step 1", flush=True)
        return states

    def fit(self, global_step: int = 0) -> None:
        """All steps; the last one has a Hugging Face checkpoint whatever save_every says."""
        if self.options.stop_flag.exists():
            raise StoppedRun("stopped before the first step; nothing was changed")
        self.step_begun = time.monotonic()
        super().fit(global_step)
        if self.step < self.options.steps:
            raise ValueError(self._used_up())
        if not _checkpoint_folder(self.options.checkpoints, self.step).exists():
            self.export(self.step)

    def _used_up(self) -> str:
        filtered = ""
        if self.args.algo.dynamic_filtering_enable:
            filtered = (
                " Dynamic filtering drops groups that are all right or all wrong: train on prompts "
                "that the model solves sometimes, or leave it out."
            )
        return (
            f"the prompts were used up after step {self.step} of {self.options.steps}: "
            f"{len(self.prompts_dataloader)} prompts, passed over {self.args.train.num_episodes} "
            f"times, in batches of {self.args.rollout.batch_size}; give more prompts or passes, or "
            f"lower the batch.{filtered}"
        )

    def ppo_train(self, global_steps: int) -> dict[str, Any]:
        """The updates of a step; the actors' shuffling is seeded by the step, so a resume repeats
        it. Nobody waits for the seeding: an actor does one caller's calls in their order."""
        seeded = self.actor_model_group.async_run_method(method_name="seed_step", step=global_steps)
        status: dict[str, Any] = super().ppo_train(global_steps)
        ray.get(seeded)  # raises what it raised
        return status

    def train_step(
        self, rollout_samples: list[Any], global_step: int
    ) -> tuple[dict[str, Any], int]:
        """One step on a batch of rollouts; what was sampled for it is kept for the row.

        Raises StoppedRun where the stop flag was raised while they were drawn.
        """
        if self.options.stop_flag.exists():
            if self.saved_step < self.step:
                self.save_state({}, due=True)
            minutes = (time.monotonic() - self.step_begun) / 60
            raise StoppedRun(
                f"stopped before the updates of step {self.step + 1}: its rollouts will be drawn "
                f"again ({minutes:.1f} minutes), everything before it is saved"
            )
        self.sampled = self.samples_generator.sampled
        self.experience_maker.step = self.step + 1
        status, step = super().train_step(rollout_samples, global_step)
        self.step = self.samples_generator.step = step
        return status, step

    def save_logs_and_checkpoints(
        self,
        global_step: int,
        logs_dict: dict[str, Any] | None = None,
        client_states: dict[str, Any] | None = None,
    ) -> None:
        """The end of a step; raises StoppedRun where it is the last for now."""
        row = metrics.step_row(
            step=global_step,
            status=logs_dict or {},
            sampled=self.sampled,
            taught_rates=self.experience_maker.taught_rates,
            group_size=self.group_size,
            focal_gamma=self.options.focal_gamma,
            gpus=0 if rehearsal.is_on() else gpu_count(self.args),
            before=self.totals,
        )
        if not self.args.algo.kl.use_loss:
            row["reference_kl"] = None  # without a reference OpenRLHF logs 0
        if global_step % self.eval_every == 0 and self.eval_dataloader:
            row |= self.evaluate(global_step)
        append_line(self.options.metrics, row)
        self.totals = metrics.Totals(rollouts=row["rollouts"], tokens=row["tokens"])
        if global_step % self.options.save_every == 0:
            self.export(global_step)
        self.client_states = client_states or {}
        stop = self.options.stop_flag.exists()
        self.save_state(logs_dict or {}, due=stop or global_step % self.args.ckpt.save_steps == 0)
        self.step_begun = time.monotonic()
        if stop:
            raise StoppedRun(f"stopped after step {global_step}, which is saved")

    def save_state(self, logs: dict[str, Any], *, due: bool) -> None:
        """Log the last finished step, and where it is due save the training state after it."""
        begun = time.monotonic()
        every, self.args.ckpt.save_steps = self.args.ckpt.save_steps, 1 if due else NEVER
        try:
            super().save_logs_and_checkpoints(self.step, logs, self.client_states)
        finally:
            self.args.ckpt.save_steps = every
        if due:
            gb = mark_whole(Path(self.args.ckpt.path), self.step, origin(self.args)) / 1e9
            seconds = max(time.monotonic() - begun, 1e-9)
            print(
                f"saved the state of step {self.step}: {gb:.1f} GB in {seconds:.1f} s, "
                f"{gb / seconds:.2f} GB a second",
                flush=True,
            )
            self.saved_step = self.step

    @torch.no_grad()
    def evaluate(self, global_step: int, **_: Any) -> dict[str, float]:
        """Draws on the evaluation prompts; the evaluation fields of a row."""
        begun, n_samples = time.time(), self.args.eval.n_samples_per_prompt
        prompts = len(self.eval_dataloader)
        print(f"evaluating step {global_step}: {prompts} prompts x {n_samples}", flush=True)
        self.samples_generator.generate_eval_samples(
            **self.generate_kwargs
            | {"temperature": self.args.eval.temperature, "n_samples_per_prompt": n_samples}
        )
        correct = [rollout.correct for rollout in self.samples_generator.sampled]
        return metrics.evaluation_metrics(correct, n_samples=n_samples, seconds=time.time() - begun)

    def export(self, step: int) -> None:
        """A Hugging Face checkpoint of the weights as they are."""
        folder = _checkpoint_folder(self.options.checkpoints, step)
        ray.get(self.actor_model_group.async_run_method(method_name="export", folder=folder))


def _checkpoint_folder(checkpoints: Path, step: int) -> Path:
    """The Hugging Face checkpoint of a step, named as StagePaths.checkpoint names it."""
    return checkpoints / f"step-{step:05d}"


FocalTrainerActor = ray.remote(FocalTrainer)
