"""Training steps a second of the embedded engine against TRL's GRPOTrainer, and the share of its
matrix products in its time.

The same checkpoint, 256 rollouts a step, the same learning rate and the same grader as reward; TRL
in its default GRPO form without KL term, on the CPU. `countdown` in groups of 8, with one update a
step and as shipped; with the argument `mazes` the experiment `maze-small`, 4 prompts of 136 tokens
at N = 64 and one update a step.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

import datasets
import torch
import transformers
from trl import GRPOConfig, GRPOTrainer

from fgrpo_bench.graders import get_grader
from fgrpo_bench.specs import SweepPoint
from fgrpo_bench.tasks import make_task
from tests.bench.model import learning, point_of, warmed_up
from tests.bench.products import of_update, recorded

ROLLOUTS = 256


@dataclass(frozen=True, kw_only=True)
class Case:
    """What both train."""

    folder: Path
    """The checkpoint that they start from."""
    grader: str
    n_problems: int
    group: int
    warm: int
    steps: int
    """Steps that are left out, and steps that are timed after them."""
    has_every_gradient: bool = False
    """Whether every other rollout is rewarded: a short warm-up solves little of a maze, and TRL
    skips no group."""


def ours(case: Case, point: SweepPoint) -> dict[str, float]:
    """Steps a CPU second; the rate of operations in updates and in the same matrix products by
    themselves; and what share of the time of all updates products take by themselves: those that
    the engine makes, and those of a pass that takes each completion by itself."""
    learner, _ = learning(point, case.folder)
    steps, updates = [], []
    made = operations = plain = 0.0
    for step in range(1, case.warm + case.steps + 1):
        begun = time.process_time()
        batch = learner.rollouts(step)[0]
        if case.has_every_gradient:
            rewards = torch.zeros_like(batch.rewards)
            rewards[:, ::2] = 1.0
            batch = replace(batch, rewards=rewards, correct=rewards)
        drawn = time.process_time()
        with recorded() as batches:
            learner.learn(batch)
        ended = time.process_time()
        if step <= case.warm:
            continue
        steps.append(ended - begun)
        updates.append(ended - drawn)
        for each in batches:
            seconds, flops, seconds_of_plain = of_update(point.train.model, each)  # type: ignore[attr-defined]
            made, operations, plain = made + seconds, operations + flops, plain + seconds_of_plain
    return {
        "steps/CPU s": 1 / mean(steps),
        "update, GFLOP/CPU s": operations / sum(updates) / 1e9,
        "products alone, GFLOP/CPU s": operations / made / 1e9,
        "products' share of updates": made / sum(updates),
        "of a plain pass's products": plain / sum(updates),
    }


class Clock(transformers.TrainerCallback):
    """CPU seconds of each step of a transformers trainer."""

    def __init__(self) -> None:
        self.ends = [time.process_time()]

    def on_step_end(self, args, state, control, **_):
        self.ends.append(time.process_time())


def theirs(case: Case, point: SweepPoint) -> float:
    """Steps a CPU second of TRL's trainer."""
    task, grade = make_task(point.train.task), get_grader(case.grader)  # type: ignore[attr-defined]
    problems = {problem.prompt: problem for problem in task.problems(range(case.n_problems))}

    def reward(prompts, completions, **_):
        return [
            float(grade(problems[prompt], text).outcome == "correct")
            + (case.has_every_gradient and i % 2)
            for i, (prompt, text) in enumerate(zip(prompts, completions, strict=True))
        ]

    clock = Clock()
    trainer = GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(case.folder),
        processing_class=transformers.AutoTokenizer.from_pretrained(
            case.folder, padding_side="left"
        ),
        reward_funcs=reward,
        train_dataset=datasets.Dataset.from_dict({"prompt": list(problems)}),
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=ROLLOUTS,
            num_generations=case.group,
            max_completion_length=task.response_length + 1,
            max_steps=case.warm + case.steps,
            learning_rate=point.train.learning_rate,
            beta=0.0,
            temperature=1.0,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        ),
        callbacks=[clock],
    )
    trainer.train()
    seconds = [b - a for a, b in zip(clock.ends, clock.ends[1:], strict=False)]
    return 1 / mean(seconds[case.warm :])


def countdown() -> None:
    """Print the facts at N = 8."""
    paths, point = warmed_up()
    folder = paths.warmup(1).checkpoint(0)
    case = Case(folder=folder, grader="countdown", n_problems=2048, group=8, warm=3, steps=20)
    one_update = replace(point, train=replace(point.train, updates_per_batch=1))
    shipped, alone = ours(case, point), ours(case, one_update)
    trl = theirs(case, point)
    print(json.dumps({"case": "one update a step", **alone, "TRL steps/CPU s": trl}))
    print(json.dumps({"ratio": alone["steps/CPU s"] / trl}))
    print(json.dumps({"case": "two updates per step, as shipped", **shipped}))


def mazes() -> None:
    """Print the facts of mazes at N = 64."""
    point = point_of("maze", 64, steps=60)
    paths, point = warmed_up(replace(point, train=replace(point.train, prompts_per_step=4)))
    folder = paths.warmup(1).checkpoint(0)
    case = Case(
        folder=folder,
        grader="maze",
        n_problems=256,
        group=64,
        warm=1,
        steps=3,
        has_every_gradient=True,
    )
    alone, trl = ours(case, point), theirs(case, point)
    print(json.dumps({**alone, "TRL steps/CPU s": trl, "ratio": alone["steps/CPU s"] / trl}))


if __name__ == "__main__":
    measure: Callable[[], None] = mazes if sys.argv[1:] == ["mazes"] else countdown
    measure()
