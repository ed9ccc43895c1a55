"""The supervised warm-up: a base model that can already do some of the task.

Every step's demonstrations follow from (seed, step) alone, so a resumed warm-up sees what an
undisturbed one would have seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from fgrpo_bench.core.seeds import stream
from fgrpo_bench.engines.embedded.checkpoint import save_checkpoint
from fgrpo_bench.engines.embedded.model import Policy, positions, precision
from fgrpo_bench.engines.embedded.session import Session, engine_facts
from fgrpo_bench.engines.embedded.tokenizer import PAD, Tokenizer
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.specs import WarmupSpec
from fgrpo_bench.specs.stored import WarmupStageSpec
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.tasks import make_task

RISE_UNTIL = 0.2
"""Share of the steps over which the learning rate rises linearly."""
FALL_FROM, FLOOR = 0.7, 0.05
"""From the share FALL_FROM of the steps on, the learning rate falls linearly, to FLOOR at least."""


@dataclass(frozen=True, kw_only=True)
class WarmupFacts(Record):
    """What a warm-up says in its marker beside what all stages say."""

    step: int
    weights_sha256: str
    resumed_at: int
    """Step of the state that it went on from, 0 for none."""
    engine: dict[str, Any]
    """Versions and hardware behind the weights."""


def warm_up(stored: StageSpec, run: StageRun, device: str) -> WarmupFacts:
    """Run a warm-up stage; returns facts for its completion marker."""
    spec = stored.of(WarmupStageSpec).computed
    seed, task, warmup = spec.seed, make_task(spec.task), spec.warmup
    tokenizer = Tokenizer(task.vocabulary, spec.model.vocabulary_size)
    policy = Policy(spec.model, tokenizer.size, positions(spec.model, task))
    policy.initialise(torch.Generator().manual_seed(stream(seed, "weights") % 2**63))
    session = Session(
        policy.to(device),
        run=run,
        fingerprint=stored.fingerprint,
        betas=(spec.beta1, spec.beta2 if warmup.beta2 is None else warmup.beta2),
        weight_decay=warmup.weight_decay,
        grad_clip=spec.grad_clip,
        has_metrics=False,
    )
    for step in session.steps(warmup.steps):
        rng = np.random.default_rng([seed, 1, step])
        chosen = rng.integers(task.n_train, size=warmup.batch_size).tolist()
        prompts = tokenizer.encode([problem.prompt for problem in task.train_problems(chosen)])
        answers = tokenizer.encode_responses(task.demonstrations(chosen, rng))
        targets = torch.from_numpy(answers).to(device)
        with precision(spec.model, device):
            on_device = torch.from_numpy(prompts).to(device)
            logits = policy.completion_logits(on_device, targets, mask=targets != PAD)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
        session.update([loss], learning_rate(step, warmup))
        run.progress(step=step, of=warmup.steps, loss=loss.item())
    digest = save_checkpoint(run.paths.checkpoint(0), policy, tokenizer)
    session.discard_state()
    run.leave(run.paths.checkpoint(0))
    return WarmupFacts(
        step=0,
        weights_sha256=digest,
        resumed_at=session.resumed_at,
        engine=engine_facts(device),
    )


def learning_rate(step: int, warmup: WarmupSpec) -> float:
    """Learning rate of a warm-up step, counted from 1."""
    if warmup.schedule == "constant":
        return warmup.learning_rate
    left = (warmup.steps - step) / ((1 - FALL_FROM) * warmup.steps)
    return warmup.learning_rate * min(1.0, step / (RISE_UNTIL * warmup.steps), max(FLOOR, left))
