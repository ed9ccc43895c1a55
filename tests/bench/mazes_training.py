"""Training steps of the embedded engine on mazes at N = 64 against TRL's GRPOTrainer, and the share
of its operations in what plain matrix products of the same shapes reach.

The shipped experiment `maze-small` after a short warm-up: 4 prompts of 136 tokens and 256 rollouts
a step, one update a step; TRL in its default GRPO form without KL term, on the CPU.
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean

import datasets
import torch
import transformers
from trl import GRPOConfig, GRPOTrainer

from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
from fgrpo_bench.engines.embedded.reinforce import Learner
from fgrpo_bench.engines.embedded.session import Session
from fgrpo_bench.engines.embedded.warmup import warm_up
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.graders import get_grader
from fgrpo_bench.kinds import warmup as warmup_stage
from fgrpo_bench.specs import config
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.tasks import make_task
from sweeps.plan import make_plan
from tests.bench.products import of_update, recorded
from tests.bench.training import Clock

GROUP, PROMPTS = 64, 4
WARM, STEPS = 1, 3
WARMUP_STEPS = 60


def warmed_up():
    """A checkpoint, and the point at N = 64 that starts from it."""
    overrides = [f"sweep.grid.group_size=[{GROUP}]", "sweep.cells=[]", "sweep.family=null"]
    point = make_plan(config.load("maze", overrides)).points[0]
    warmup = replace(point.train.warmup, steps=WARMUP_STEPS)
    point = replace(
        point, train=replace(point.train, warmup=warmup, prompts_per_step=PROMPTS, steps=STEPS)
    )
    stage = StagePaths(Path(tempfile.mkdtemp()))
    warm_up(warmup_stage.stage(point).spec, StageRun(stage), "cpu")
    return stage.checkpoint(0), point


def ours(folder, point) -> dict[str, float]:
    """Steps a CPU second; the rate of operations in updates on batches whose groups all have a
    gradient, and in the same matrix products by themselves."""
    policy, tokenizer = load_checkpoint(folder, "cpu", None)
    session = Session(
        policy,
        run=StageRun(StagePaths(folder / "none")),
        fingerprint="bench",
        betas=(0.9, 0.999),
        weight_decay=0.0,
        grad_clip=1.0,
        has_metrics=True,
    )
    learner, steps, updates = Learner(point, session, tokenizer), [], []
    made = operations = plain = 0.0
    for step in range(1, WARM + STEPS + 1):
        begun = time.process_time()
        batch = learner.rollouts(step)[0]
        rewards = torch.zeros_like(batch.rewards)
        rewards[:, ::2] = 1.0  # a short warm-up solves little, and TRL skips no group
        drawn = time.process_time()
        with recorded() as batches:
            learner.learn(replace(batch, rewards=rewards))
        ended = time.process_time()
        if step <= WARM:
            continue
        steps.append(ended - begun)
        updates.append(ended - drawn)
        for each in batches:
            seconds, flops, seconds_of_plain = of_update(point.train.model, each)
            made, operations, plain = made + seconds, operations + flops, plain + seconds_of_plain
    return {
        "steps/CPU s": 1 / mean(steps),
        "update, GFLOP/CPU s": operations / sum(updates) / 1e9,
        "products alone, GFLOP/CPU s": operations / made / 1e9,
        "products' share of updates": made / sum(updates),
        "of a plain pass's products": plain / sum(updates),
    }


def theirs(folder, point) -> list[float]:
    """CPU seconds of each step of TRL's trainer."""
    task, grade = make_task(point.train.task), get_grader("maze")
    problems = {problem.prompt: problem for problem in task.train_problems(range(256))}

    def reward(prompts, completions, **_):
        return [
            float(grade(problems[prompt], text).outcome == "correct") + (i % 2)
            for i, (prompt, text) in enumerate(zip(prompts, completions, strict=True))
        ]

    clock = Clock()
    trainer = GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(folder),
        processing_class=transformers.AutoTokenizer.from_pretrained(folder, padding_side="left"),
        reward_funcs=reward,
        train_dataset=datasets.Dataset.from_dict({"prompt": list(problems)}),
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=GROUP * PROMPTS,
            num_generations=GROUP,
            max_completion_length=task.response_length + 1,
            max_steps=WARM + STEPS,
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
    return seconds[WARM:]


def main() -> None:
    torch.set_num_threads(1)
    folder, point = warmed_up()
    own = ours(folder, point)
    trl = 1 / mean(theirs(folder, point))
    print(json.dumps({**own, "TRL steps/CPU s": trl, "ratio": own["steps/CPU s"] / trl}))


if __name__ == "__main__":
    main()
