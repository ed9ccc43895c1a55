"""`python -m tests.openrlhf.log_probs vllm|transformers <checkpoint> <out.json>`: log-probabilities
of prompts under a checkpoint in bf16, by either library, in a process of its own."""

import json
import sys
from pathlib import Path

from tests.support.openrlhf import train_problems

PROMPTS = 6


def by_vllm(checkpoint: str, prompts: list[list[int]]) -> list[float]:
    from vllm import LLM, SamplingParams, TokensPrompt

    llm = LLM(
        checkpoint,
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=32,
        gpu_memory_utilization=0.1,
    )
    params = SamplingParams(max_tokens=1, prompt_logprobs=0)
    outs = llm.generate([TokensPrompt(prompt_token_ids=p) for p in prompts], params, use_tqdm=False)
    told = [(out.prompt_token_ids, out.prompt_logprobs) for out in outs]
    return [at[i][tokens[i]].logprob for tokens, at in told for i in range(1, len(tokens))]


def by_transformers(checkpoint: str, prompts: list[list[int]]) -> list[float]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.bfloat16)
    tokens = torch.tensor(prompts)
    with torch.no_grad():
        told = model(tokens).logits.float().log_softmax(-1)[:, :-1]
    return told.gather(2, tokens[:, 1:, None]).flatten().tolist()


def main() -> None:
    from transformers import AutoTokenizer

    kind, checkpoint, out = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    prompts = [tokenizer(problem.prompt).input_ids for problem in train_problems(PROMPTS)]
    by = {"vllm": by_vllm, "transformers": by_transformers}[kind]
    Path(out).write_text(json.dumps(by(checkpoint, prompts)))


if __name__ == "__main__":
    main()
