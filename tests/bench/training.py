"""Training steps a second of the embedded engine against TRL's GRPOTrainer, and the share of its
matrix products in its time.

The same checkpoint, 256 rollouts per step in groups of 8, one update a step, the same learning rate
and the same grader as reward; TRL in its default GRPO form without KL term, on the CPU.
"""

import json
import tempfile
import time
from dataclasses import replace
from statistics import mean

import datasets
import transformers
from trl import GRPOConfig, GRPOTrainer

from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
from fgrpo_bench.engines.embedded.reinforce import Learner
from fgrpo_bench.engines.embedded.session import Session
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.graders import get_grader
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.tasks import make_task
from tests.bench.model import warmed_up
from tests.bench.products import of_update, recorded

WARM, STEPS = 3, 20


def ours(paths, point) -> dict[str, float]:
    """Steps a CPU second, and what share of the time of all updates matrix products take by
    themselves: those that the engine makes, and those of a pass that takes each completion by
    itself."""
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
    learner, steps, updates = Learner(point, session, tokenizer), [], []
    made = plain = 0.0
    for step in range(1, WARM + STEPS + 1):
        begun = time.process_time()
        batch = learner.rollouts(step)[0]
        drawn = time.process_time()
        with recorded() as batches:
            learner.learn(batch)
        ended = time.process_time()
        if step <= WARM:
            continue
        steps.append(ended - begun)
        updates.append(ended - drawn)
        for each in batches:
            seconds, _, seconds_of_plain = of_update(point.train.model, each)
            made, plain = made + seconds, plain + seconds_of_plain
    return {
        "steps/CPU s": 1 / mean(steps),
        "products' share of updates": made / sum(updates),
        "of a plain pass's products": plain / sum(updates),
    }


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
    shipped, own = ours(paths, point), ours(paths, one_update)
    trl = 1 / mean(theirs(paths, point))
    print(json.dumps({"case": "one update a step", **own, "TRL steps/CPU s": trl}))
    print(json.dumps({"ratio": own["steps/CPU s"] / trl}))
    print(json.dumps({"case": "two updates per step, as shipped", **shipped}))


if __name__ == "__main__":
    main()
