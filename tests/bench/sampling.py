"""Draws a second of the embedded sampler against transformers.generate, same model and prompts, and
the share of its matrix products in its time."""

import json
import time

import numpy as np
import torch
import transformers

from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
from fgrpo_bench.engines.embedded.sampling import sample
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD
from fgrpo_bench.tasks import make_task
from tests.bench.model import warmed_up
from tests.bench.products import of_tokens, seconds

DRAWS_A_PROMPT, REPEATS = 512, 5


def alone(model, tokens: torch.Tensor, prompt: int) -> float:
    """CPU seconds that the products of sampling these [prompts, n, length] take by themselves: of
    each prompt, and of each distinct prefix of its draws that goes on."""
    took = seconds(of_tokens(model, len(tokens) * prompt))[0]
    for t in range(1, tokens.shape[2]):
        going = ((tokens[..., :t] != EOS) & (tokens[..., :t] != PAD)).all(-1)
        prefixes = sum(
            len(own[on].unique(dim=0)) for own, on in zip(tokens[..., :t], going, strict=True)
        )
        took += seconds(of_tokens(model, prefixes))[0]
    return took


def main() -> None:
    paths, point = warmed_up()
    folder, task = paths.warmup(1).checkpoint(0), make_task(point.train.task)  # type: ignore[attr-defined]
    policy, tokenizer = load_checkpoint(folder, "cpu", None)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    length = task.response_length + 1
    for group, name in (
        (8, "8 prompts x 512 draws, as an evaluation"),
        (32, "32 x 8, as training"),
    ):
        draws = DRAWS_A_PROMPT if group == 8 else 8
        problems = task.heldout_problems(group)
        prompts = torch.from_numpy(np.stack(tokenizer.encode([p.prompt for p in problems])))
        seeds = draw_seeds(0, [p.problem_id for p in problems], np.arange(draws))
        ours, other = [], []
        for _ in range(REPEATS):
            begun = time.process_time()
            sample(policy, prompts, seeds, length=length, temperature=1.0)
            ours.append(time.process_time() - begun)
            begun = time.process_time()
            for rows in prompts.repeat_interleave(draws, 0).split(512):
                theirs.generate(
                    rows,
                    attention_mask=torch.ones_like(rows),
                    do_sample=True,
                    temperature=1.0,
                    top_k=0,
                    top_p=1.0,
                    max_new_tokens=length,
                )
            other.append(time.process_time() - begun)
        made = group * draws
        drawn = sample(policy, prompts, seeds, length=length, temperature=1.0).tokens
        products = alone(policy.spec, drawn.view(group, draws, length), prompts.shape[1])
        print(
            json.dumps(
                {
                    "case": name,
                    "ours draws/CPU s": made / float(np.median(ours)),
                    "generate draws/CPU s": made / float(np.median(other)),
                    "ratio": float(np.median(other)) / float(np.median(ours)),
                    "products' share": products / float(np.median(ours)),
                }
            )
        )


if __name__ == "__main__":
    main()
