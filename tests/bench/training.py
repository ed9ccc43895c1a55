"""Training steps a second of the embedded engine against TRL's GRPOTrainer, and the share of its
matrix products in its time.

The same checkpoint, 256 rollouts a step in groups of 8, one update a step, the same learning rate
and the same grader as reward; TRL in its default GRPO form without KL term, on the CPU.
"""

import json
import tempfile
import time
from dataclasses import replace
from itertools import chain
from statistics import mean

import datasets
import numpy as np
import torch
import transformers
from trl import GRPOConfig, GRPOTrainer

from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
from fgrpo_bench.engines.embedded.learner import Learner
from fgrpo_bench.engines.embedded.rollouts import distinct_responses
from fgrpo_bench.engines.embedded.session import Session
from fgrpo_bench.graders import get_grader
from fgrpo_bench.objectives.advantages import is_active
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.tasks import make_task
from tests.bench.model import warmed_up
from tests.bench.products import of_attention, of_tokens, seconds

WARM, STEPS = 3, 20


def ours(paths, point) -> tuple[list[float], float]:
    """CPU seconds of each step, and the share of the matrix products of all updates in their
    time."""
    policy, tokenizer = load_checkpoint(paths.warmup(1).checkpoint(0), "cpu", None)
    session = Session(
        policy,
        run=StageRun(StagePaths(paths.root / "none")),
        fingerprint="bench",
        betas=(0.9, 0.999),
        weight_decay=0.0,
        grad_clip=1.0,
        has_metrics=True,
    )
    learner, steps = Learner(point, session, tokenizer), []
    updates = products = 0.0
    for step in range(1, WARM + STEPS + 1):
        begun = time.process_time()
        batch = learner.rollouts(step)[0]
        drawn = time.process_time()
        learner.learn(batch)
        ended = time.process_time()
        if step > WARM:
            steps.append(ended - begun)
            updates += ended - drawn
            products += alone(point, batch)
    return steps, products / updates


def alone(point, batch) -> float:
    """CPU seconds that the matrix products of a batch's updates take by themselves, forward and
    twice as many backward: of groups that teach, equal responses once."""
    took = 0.0
    for groups in np.array_split(np.arange(len(batch.rewards)), point.train.updates_per_batch):
        part = batch.take(torch.from_numpy(groups))
        part = part.take(is_active(part.rewards))
        rows, prompts = len(distinct_responses(part.tokens)[0]), len(part.prompts)
        read, prompt = part.tokens.shape[2] - 1, part.prompts.shape[1]
        attention = of_attention(
            point.train.model, prompts=prompts, prompt=prompt, rows=rows, read=read, shared=False
        )
        tokens = of_tokens(point.train.model, prompts * prompt + rows * read)
        took += 3 * seconds(chain(tokens, attention))[0]
    return took


class Clock(transformers.TrainerCallback):
    """CPU seconds of each step of a transformers trainer."""

    def __init__(self) -> None:
        self.ends = [time.process_time()]

    def on_step_end(self, args, state, control, **_):
        self.ends.append(time.process_time())


def theirs(paths, point) -> list[float]:
    """CPU seconds of each step of TRL's trainer."""
    task, grade = make_task(point.train.task), get_grader("countdown")
    problems = {p.prompt: p for p in (task.train_problem(i) for i in range(2048))}

    def reward(prompts, completions, **_):
        return [
            float(grade(problems[prompt], text).outcome == "correct")
            for prompt, text in zip(prompts, completions, strict=True)
        ]

    folder, clock = paths.warmup(1).checkpoint(0), Clock()
    trainer = GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_pretrained(folder),
        processing_class=transformers.AutoTokenizer.from_pretrained(folder, padding_side="left"),
        reward_funcs=reward,
        train_dataset=datasets.Dataset.from_dict({"prompt": list(problems)}),
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=256,
            num_generations=8,
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
    paths, point = warmed_up()
    one_update = replace(point, train=replace(point.train, updates_per_batch=1))
    (shipped, share), (own, own_share) = ours(paths, point), ours(paths, one_update)
    trl = theirs(paths, point)
    print(
        json.dumps(
            {
                "ours steps/CPU s": 1 / mean(own),
                "TRL steps/CPU s": 1 / mean(trl),
                "ratio": mean(trl) / mean(own),
                "products' share of updates": own_share,
                "ours with 2 updates a step, steps/CPU s": 1 / mean(shipped),
                "products' share of 2 updates": share,
            }
        )
    )


if __name__ == "__main__":
    main()
