"""The shipped experiments against the settings of the paper, with the table of
docs/reference/paper-settings.md as the list of exceptions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.engines.openrlhf.arguments import OpenRLHFTrain, batches
from fgrpo_bench.objectives.focal import low_lr_multiplier
from fgrpo_bench.specs import SweepPoint
from fgrpo_bench.stats.selection import saved_steps
from tests.support.plans import loaded
from tests.support.points import EXPERIMENTS, by_option, declared, openrlhfs_words, point

NOT_SAID = "not said"
BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
HELPFUL = "You are a helpful assistant."
MATHEMATICS = ("math500", "aime24", "aime25", "amc23", "minerva", "olympiadbench")
BENCHMARKS = ", ".join(sorted([*MATHEMATICS, "gpqa", "ifeval", "synlogic"]))

OF_MODEL: dict[str, dict[str, Any]] = {
    "qwen2.5-7b": {
        "model": "Qwen/Qwen2.5-7B",
        "response tokens": 8192,
        "prompt of IFEval": (HELPFUL, None),  # system message, thinking
        "prompt of SynLogic": (HELPFUL, None),
    },
    "qwen3-4b-base": {
        "model": "Qwen/Qwen3-4B-Base",
        "response tokens": 4096,
        "prompt of IFEval": (None, False),
        "prompt of SynLogic": (None, True),
    },
    "llama3.2-3b": {
        "model": "meta-llama/Llama-3.2-3B-Instruct",
        "response tokens": 8192,
        "prompt of IFEval": (None, None),  # the dates come from the chat template
        "prompt of SynLogic": (None, None),
    },
}
OF_THE_ENGINE = {
    "learning rate within a warm-up step",  # tests/openrlhf/test_arguments.py
    "weight decay of biases and norms",  # tests/openrlhf/test_arguments.py
    "standard deviation of a group",  # tests/openrlhf/test_experience.py
    "today's date in the prompts of Llama",  # the publisher's chat template
}
"""Exceptions that no field of ours holds, and where they are checked."""


def exceptions() -> dict[str, tuple[str, str]]:
    """Setting: (paper's, ours), from the table of the documentation."""
    page = Path(__file__).parents[2] / "docs/reference/paper-settings.md"
    text = page.read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert all(len(row) == 4 for row in rows) and rows[0][0] == "setting"
    return {name: (paper, here) for name, paper, here, _ in rows[2:]}


def flags(of: SweepPoint) -> dict[str, str]:
    lines = [line.partition(" ") for line in by_option(openrlhfs_words(of))]
    return {name.removeprefix("--"): value for name, _, value in lines}


def bounds(of: SweepPoint) -> tuple[float, float]:
    return of.algorithm.clip_low, of.algorithm.clip_high


def settings(experiment: str) -> dict[str, tuple[Any, Any]]:
    """Settings of sections 5 and app. of arXiv 2602.06717v2, the paper's and ours."""
    of_model = OF_MODEL[experiment]
    grpo, dapo, cispo, kl = (
        point(name, experiment=experiment) for name in ("grpo", "dapo", "cispo", "grpo-kl")
    )
    train, passed = grpo.train, flags(grpo)
    assert isinstance(train, OpenRLHFTrain)
    assert train.dataset is not None and train.pretrained is not None
    assert train.eval_dataset is not None and train.prompts_per_step is not None
    algorithms = declared(experiment=experiment).algorithms
    low = algorithms["grpo-lowlr"].low_lr_gamma
    assert low is not None
    evaluation, sweep = grpo.evaluation, declared(experiment=experiment).sweep
    of_all = ["evaluation@experiment.evaluation=paper"]
    every = declared(*of_all, experiment=experiment).experiment.evaluation
    prompts = {name: every.benchmark_prompt(name) for name in every.benchmarks}
    saved = saved_steps(steps=train.steps, save_every=train.save_every)
    of_kl = flags(kl)
    of_grpo = {name for name in algorithms if name.startswith("grpo-")}
    controls = sorted(of_grpo - {"grpo-random"} | {"ds_grpo"})
    at_8 = sorted(cell.focal_gamma for cell in sweep.cells if cell.focal_gamma)
    return {
        "model": (of_model["model"], train.pretrained.path),
        "training data": (
            "DeepScaleR",
            re.sub(r".*/|-Preview-Dataset", "", train.dataset.repository or ""),
        ),
        "longest sample, tokens": (1024, train.dataset.max_tokens),
        "what counts the tokens of a sample": (
            NOT_SAID,
            "tokenizer of the model"
            if train.dataset.tokenizer == train.pretrained.path
            else train.dataset.tokenizer,
        ),
        "which tokens of a sample count": (NOT_SAID, train.dataset.token_field),
        "samples with conflicting answers": (
            "removed",
            "removed" if train.dataset.deduplicate else "kept",
        ),
        "samples": (39202, train.dataset.expected_rows),
        "samples of an epoch": (39202, batches(grpo).prompts_per_epoch),
        "longest prompt in training": (NOT_SAID, train.prompt_tokens),
        "system prompt": (BOXED, train.prompt.system),
        "prompts per step": (256, grpo.n_prompts),
        "prompts an update": (64, batches(grpo).mini_batch // grpo.group_size),
        "epochs": (10, train.epochs),
        "PPO epochs": (1, int(passed["train.max_epochs"])),
        "learning rate": (1e-6, grpo.learning_rate),
        "schedule after the warm-up": (
            "constant",
            passed["actor.lr_scheduler"].removesuffix("_with_warmup"),
        ),
        "warm-up steps": (15, train.warmup_updates / train.updates_per_batch),
        "betas": ((0.9, 0.999), (train.beta1, train.beta2)),
        "AdamW epsilon": (NOT_SAID, train.adam_eps),
        "weight decay": (0.01, train.weight_decay),
        "gradient clip": (1.0, train.grad_clip),
        "temperature": (1.0, train.temperature),
        "top-p": (1.0, float(passed["rollout.top_p"])),
        "top-k": ("off", passed.get("rollout.top_k", "off")),
        "judge": ("math", train.dataset.grader),
        "response tokens": (of_model["response tokens"], train.response_tokens),
        "checkpoints an epoch": (1, len(saved) / train.epochs),
        "evaluation while training, data": ("aime25", train.eval_dataset.name),
        "evaluation while training, samples a problem": (64, train.eval_n_samples),
        "evaluation while training, steps between": (25, train.eval_every),
        "checkpoints evaluated": ("every", declared(experiment=experiment).experiment.checkpoints),
        "benchmarks": (BENCHMARKS, ", ".join(sorted(evaluation.benchmarks))),
        "draws per problem": (1024, evaluation.n_samples),
        "temperature of evaluation": (1.0, evaluation.temperature),
        "top-p of evaluation": (1.0, evaluation.top_p),
        "prompt of mathematics and GPQA": (
            "of training",
            "of training" if not any(prompts[b] for b in (*MATHEMATICS, "gpqa")) else "their own",
        ),
        "loss aggregation": (
            "token_mean",
            "/".join({base.algorithm.loss_aggregation for base in (grpo, dapo, cispo)}),
        ),
        "KL penalty": (0.0, max(base.algorithm.kl_coef for base in (grpo, dapo, cispo))),
        "DAPO's dynamic sampling": (NOT_SAID, "on" if dapo.algorithm.dynamic_sampling else "off"),
        "form of the KL penalty": (
            NOT_SAID,
            f"{of_kl['algo.kl.estimator']} in the "
            + ("loss" if "algo.kl.use_loss" in of_kl else "reward"),
        ),
        "controls": ("ds_grpo, grpo-entropy, grpo-kl, grpo-lowlr", ", ".join(controls)),
        "entropy bonus of the control": (1e-3, algorithms["grpo-entropy"].entropy_coef),
        "KL penalty of the control": (1e-3, algorithms["grpo-kl"].kl_coef),
        "learning rate of the control": (
            6.8e-7,
            round(grpo.learning_rate * low_lr_multiplier(low), 8),
        ),
        "group sizes": ((2, 4, 8, 16, 32), sweep.grid.group_size),
        "focal exponents at N = 8 of the group-size sweep": ("0.5", ", ".join(map(str, at_8))),
        "training seeds": (NOT_SAID, ", ".join(map(str, sweep.grid.seed))),
        "clip bounds of GRPO": ((0.2, 0.2), bounds(grpo)),
        "clip bounds of DAPO": ((0.2, 0.28), bounds(dapo)),
        "clip bounds of CISPO": ((1.0, 5.0), bounds(cispo)),
        "prompt of IFEval": (
            of_model["prompt of IFEval"],
            (prompts["ifeval"].system, prompts["ifeval"].thinking),
        ),
        "prompt of SynLogic": (
            of_model["prompt of SynLogic"],
            (prompts["synlogic"].system, prompts["synlogic"].thinking),
        ),
    }


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_what_is_shipped_has_the_papers_settings_but_for_the_listed_exceptions(
    experiment: str,
) -> None:
    differing = {
        name: (str(paper), str(here))
        for name, (paper, here) in settings(experiment).items()
        if paper != here
    }
    listed = exceptions()
    assert listed.keys() >= OF_THE_ENGINE
    assert differing == {k: v for k, v in listed.items() if k not in OF_THE_ENGINE}


@pytest.mark.slow
def test_the_other_sweeps_over_these_experiments_have_one_seed_as_the_table_says() -> None:
    for sweep in ("transfer", "transfer-llama3.2-3b", "transfer-qwen3-4b-base"):
        assert loaded(sweep).sweep.grid.seed == (11,)
    assert loaded("controls", "experiment=qwen2.5-7b").sweep.grid.seed == (11,)
    assert len(loaded("controls").sweep.grid.seed) == 5


@pytest.mark.slow
def test_a_profile_has_the_papers_16_gpus() -> None:
    profile = loaded("groupsize", "experiment=qwen2.5-7b", "profile=slurm-multinode").profile
    assert (profile.nodes, profile.gpus_per_node) == (2, 8)  # type: ignore[union-attr]
