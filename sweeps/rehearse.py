"""`fgrpo-bench sweep rehearse mine`: an experiment on processors, before it gets GPUs.

In: a declaration. Out: the same one with a tiny model in its model's place, of the same
architecture and with the same tokenizer, and with few and short draws. Problems, prompt, reward,
objective, evaluation and every flag stay: what fails here fails there. Next: sweeps.local.drive or
sweeps.slurm.drive, which run it as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fgrpo_bench import engines
from fgrpo_bench.specs import Declaration, EvalSpec, to_dict
from sweeps.text import counted

SWEEP = "rehearsal"
PROBLEMS, DRAWS = 8, 8
"""Of an evaluation, at most."""


def rehearsed(declared: Declaration, root: Path) -> Declaration:
    """The declaration of its rehearsal; ValueError for an engine that needs none, OSError where the
    model's config and tokenizer cannot be had.

    root: the folder of all runs, where the tiny model is put.
    """
    experiment = declared.experiment
    engine = engines.engine_for(experiment.train)
    if engine.rehearsed is None:
        raise ValueError(
            f"experiment {experiment.name} has engine={engine.name}, which runs on this machine as "
            f"it is: fgrpo-bench sweep run smoke experiment={experiment.name}"
        )
    checkpoints = experiment.checkpoints
    rare = experiment.rare and replace(experiment.rare, n_prompts=PROBLEMS, n_samples=DRAWS)
    return replace(
        declared,
        experiment=replace(
            experiment,
            train=engine.rehearsed(experiment.train, root / "_tiny"),
            checkpoints="last" if isinstance(checkpoints, tuple) else checkpoints,
            evaluation=_few_draws(experiment.evaluation),
            rare=rare,
        ),
    )


def _few_draws(evaluation: EvalSpec) -> EvalSpec:
    draws = min(evaluation.n_samples, DRAWS)
    return replace(
        evaluation,
        benchmarks={
            name: replace(benchmark, n_problems=min(benchmark.n_problems or PROBLEMS, PROBLEMS))
            for name, benchmark in evaluation.benchmarks.items()
        },
        n_samples=draws,
        design=None,
        ks=tuple(k for k in evaluation.ks if k <= draws) or (1,),
        batch_invariant=False,  # which is of GPUs
    )


def lowered(
    overrides: Sequence[str], declared: Declaration, original: Declaration
) -> Iterator[str]:
    """A line for each override whose value is that of the run alone."""
    for override in overrides:
        key = override.partition("=")[0].lstrip("+")
        value: Any = to_dict(declared)
        original_value: Any = to_dict(original)
        for name in key.split("."):
            if not (isinstance(value, dict) and isinstance(original_value, dict)):
                break
            value, original_value = value.get(name), original_value.get(name)
        if value != original_value and not key.startswith("experiment.train.pretrained"):
            yield f"{override} is for the run: its rehearsal has {value}"


def summary(declared: Declaration, original: Declaration) -> str:
    """What a rehearsal is beside what was asked for, for a person."""
    train = declared.experiment.train
    small, whole = (
        engines.engine_for(declaration.experiment.train).inputs(declaration.experiment.train)
        for declaration in (declared, original)
    )
    model = "its model, which is tiny"
    if small.pretrained is not None and whole.pretrained is not None:
        model = (
            f"a model of {small.pretrained.parameters:,} parameters with the architecture and the "
            f"tokenizer of {whole.pretrained.path}"
        )
    return (
        f"rehearsal of {original.experiment.name}, with its problems, prompt, reward and "
        f"evaluation, but {model}; {counted(train.steps, 'step')} of "
        f"{train.prompts_per_step or train.rollouts_per_step} "
        f"{'prompts' if train.prompts_per_step else 'rollouts'}, responses of up to "
        f"{small.response_tokens} tokens, {PROBLEMS} problems a benchmark with "
        f"{declared.experiment.evaluation.n_samples} draws each"
    )
