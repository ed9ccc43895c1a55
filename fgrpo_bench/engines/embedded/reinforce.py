"""Reinforcement learning with verifiable rewards, on-policy, in one process.

Prompts, rollouts and updates all follow from the seed and the counters, never from a random
generator's hidden state: a killed run that goes on ends with bit-identical weights (same machine,
same thread count).
"""

from __future__ import annotations

import time

from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint, save_checkpoint
from fgrpo_bench.engines.embedded.engine import embedded_train
from fgrpo_bench.engines.embedded.learner import Learner
from fgrpo_bench.engines.embedded.rollouts import measure
from fgrpo_bench.engines.embedded.session import Session, engine_facts
from fgrpo_bench.engines.engine import TrainingFacts
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.specs.stored import TrainStageSpec
from fgrpo_bench.stages.markers import base_weights
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.stages.watch import step_numbers


def reinforce(stored: StageSpec, run: StageRun, device: str) -> TrainingFacts:
    """Run a training stage; returns facts for its completion marker."""
    spec = stored.of(TrainStageSpec)
    point = spec.sweep_point
    train = embedded_train(point)
    base = spec.at(spec.base)
    digest = base_weights(base)
    policy, tokenizer = load_checkpoint(base.checkpoint(0), device, digest)
    session = Session(
        policy,
        run=run,
        fingerprint=spec.fingerprint,
        betas=(train.beta1, train.beta2),
        weight_decay=train.weight_decay,
        grad_clip=train.grad_clip,
        has_metrics=True,
    )
    learner = Learner(point, session, tokenizer)
    for step in session.steps(train.steps):
        begun = time.perf_counter()
        batch, sampled = learner.rollouts(step)
        drawn = time.perf_counter()
        learned = learner.learn(batch)
        ended = time.perf_counter()
        row = {
            "step": step,
            "seconds": ended - begun,
            "seconds_generation": drawn - begun,
            "seconds_training": ended - drawn,
            "gpus": int(device != "cpu"),
            **measure(sampled, learner.advantages(sampled), point.focal_gamma),
            **learned,
            "reward": float(batch.rewards.mean()),
            "rollouts": session.counters.rollouts,
            "tokens": session.counters.tokens,
            "optimizer_steps": session.counters.optimizer_steps,
        }
        if train.eval_every and step % train.eval_every == 0:
            row["eval_pass_at_1"], row["eval_pass_at_n"] = learner.evaluate(step)
            row["seconds_evaluation"] = time.perf_counter() - ended
        session.metrics.append(row | {"time_ms": int(time.time() * 1000)})
        if step % train.save_every == 0 and step < train.steps:
            save_checkpoint(run.paths.checkpoint(step), policy, tokenizer)
        run.progress(step=step, of=train.steps, **step_numbers(session.metrics))
    learner.check(train.steps)
    weights = save_checkpoint(run.paths.checkpoint(train.steps), policy, tokenizer)
    session.write_metrics()
    session.discard_state()
    run.leave(run.paths.metrics, run.paths.checkpoints)
    return TrainingFacts(
        step=train.steps,
        weights_sha256=weights,
        resumed_at=session.resumed_at,
        rollouts=session.counters.rollouts,
        optimizer_steps=session.counters.optimizer_steps,
        engine=engine_facts(device),
    )
