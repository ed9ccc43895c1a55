"""The supervised warm-up: a base model that can already do some of the task.

Every step's demonstrations follow from (seed, step) alone, so a resumed warm-up sees what an
undisturbed one would have seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import stream
from fgrpo_bench.engines.embedded.checkpoint import save_checkpoint
from fgrpo_bench.engines.embedded.model import Policy, positions, precision
from fgrpo_bench.engines.embedded.sampling import by_length, encode_prompts
from fgrpo_bench.engines.embedded.session import Session, engine_facts
from fgrpo_bench.engines.embedded.tokenizer import PAD, Tokenizer
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.specs import WarmupSpec
from fgrpo_bench.specs.stored import WarmupStageSpec
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.tasks import Task, make_task

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
    spec = stored.as_kind(WarmupStageSpec).computed
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
        problems, shown = task.problems(chosen), task.demonstrations(chosen, rng)
        noted: list[float] = []
        losses = demonstrated(policy, tokenizer, task, problems, shown, noted)
        session.update(losses, learning_rate(step, warmup))
        run.progress(step=step, of=warmup.steps, loss=sum(noted))
    digest = save_checkpoint(run.paths.checkpoint(0), policy, tokenizer)
    session.discard_state()
    run.register_outputs(run.paths.checkpoint(0))
    return WarmupFacts(
        step=0,
        weights_sha256=digest,
        resumed_at=session.resumed_at,
        engine=engine_facts(device),
    )


def demonstrated(
    policy: Policy,
    tokenizer: Tokenizer,
    task: Task,
    problems: Sequence[Problem],
    shown: Sequence[str],
    noted: list[float],
) -> Iterator[Tensor]:
    """The mean cross-entropy of a token of demonstrations, in parts that add up to it, one for each
    length of prompts; noted: gets their values. ValueError for one that is too long."""
    longest = max(shown, key=len)
    if len(longest) > task.response_length:
        raise ValueError(
            f"a demonstration has {len(longest)} characters ({longest[:40]!r}), more than "
            f"response_length={task.response_length} of its task: give the task the length of its "
            "longest correct response"
        )
    device = policy.rotary.device
    prompts, lengths = (
        part.to(device) for part in encode_prompts(tokenizer, problems, task.prompt_length)
    )
    answers = torch.from_numpy(tokenizer.encode_responses(shown)).to(device)
    n_tokens = int((answers != PAD).sum())
    for length, alike in by_length(lengths):
        targets = answers[alike]
        counted = targets != PAD
        with precision(policy.spec, str(device)):
            logits = policy.completion_logits(prompts[alike, :length], targets, mask=counted)
        mean = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
        loss = mean * (int(counted.sum()) / n_tokens)
        noted.append(loss.item())
        yield loss


def learning_rate(step: int, warmup: WarmupSpec) -> float:
    """Learning rate of a warm-up step, counted from 1."""
    if warmup.schedule == "constant":
        return warmup.learning_rate
    remaining = (warmup.steps - step) / ((1 - FALL_FROM) * warmup.steps)
    return warmup.learning_rate * min(
        1.0, step / (RISE_UNTIL * warmup.steps), max(FLOOR, remaining)
    )
