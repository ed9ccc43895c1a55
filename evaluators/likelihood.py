"""Likelihood of given answers under a checkpoint: mean negative log-probability a token.

A back end is a function that returns a Scorer, and a line in `make_scorer`. Answers are stored as
text and encoded again: where a tokenizer would split an answer otherwise than it was sampled, the
likelihood is that of the usual split, under every checkpoint alike. The end token is the one that
was sampled, of which a model may have several. Where that is not known, as in draws that were
stored without it, it is the engine's first: the tokenizer's (vLLM) or the smallest (transformers),
which such sets were scored with under the base model too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evaluators.prompts import encoder, limits
from evaluators.records import AskedCheckpoint
from fgrpo_bench.records import Problem
from fgrpo_bench.stages.checkpoints import check_weights

ROWS = 1024
"""Answers that the embedded engine scores together."""
TOKENS = 16_384
"""Tokens of prompts and answers that transformers scores together, and vLLM between two reports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A stored draw."""

    problem: Problem
    response: str
    ended: bool
    """By the model itself, so that the end token counts."""
    end_token: int | None
    """The one that was sampled; None where it is not known, or there is none."""


Scorer = Callable[[Sequence[Answer]], Iterator[list[tuple[int, float]]]]
"""Answers -> (number of the answer, nats a token), in lists as they are made, each once."""


def make_scorer(asked: AskedCheckpoint) -> Scorer:
    """The scorer of the back end that the evaluation samples with.

    Errors as those of evaluators.backends.make_sampler.
    """
    if asked.evaluation.sampler == "embedded":
        return _embedded(asked)
    check_weights(asked.folder, asked.sha256)
    return _vllm(asked) if asked.evaluation.sampler == "vllm" else _transformers(asked)


def _embedded(asked: AskedCheckpoint) -> Scorer:
    import torch

    from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
    from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD

    policy, tokenizer = load_checkpoint(asked.folder, asked.device, asked.sha256)

    def score(answers: Sequence[Answer]) -> Iterator[list[tuple[int, float]]]:
        for start in range(0, len(answers), ROWS):
            rows = answers[start : start + ROWS]
            prompts = tokenizer.encode([row.problem.prompt for row in rows])
            own = [[*tokenizer.encode([row.response])[0].tolist(), *_end(row, EOS)] for row in rows]
            longest = max(map(len, own))
            ids = np.array([row + [PAD] * (longest - len(row)) for row in own])
            tokens = torch.from_numpy(np.concatenate([prompts, ids], axis=1)).to(asked.device)
            with torch.inference_mode():
                logits = policy(tokens[:, :-1])[:, prompts.shape[1] - 1 :]
                taken = _taken(logits, tokens[:, prompts.shape[1] :])
            yield [
                (start + i, -float(taken[i, : len(row)].mean(dtype=np.float64)))
                for i, row in enumerate(own)
            ]

    return score


def _taken(logits: Any, tokens: Any) -> np.ndarray:
    """Log-probabilities of tokens [rows, length] under logits [rows, length, vocabulary]."""
    import torch

    logp = torch.log_softmax(logits.float(), -1).gather(2, tokens[..., None])[..., 0]
    return np.asarray(logp.cpu().numpy())


def _transformers(asked: AskedCheckpoint) -> Scorer:
    import torch
    from transformers import AutoTokenizer

    from evaluators.transformers import end_tokens, load_whole

    device = asked.device
    model = load_whole(asked.folder, asked.evaluation.dtype).to(device).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(asked.folder, local_files_only=True)
    first = min(end_tokens(model, tokenizer), default=None)
    encode = answer_encoder(tokenizer, asked, first)

    def score(answers: Sequence[Answer]) -> Iterator[list[tuple[int, float]]]:
        for batch in _batches([encode(answer) for answer in answers]):
            longest = max(len(prompt) + len(own) for _, prompt, own in batch)
            ids = [[*p, *own] + [0] * (longest - len(p) - len(own)) for _, p, own in batch]
            mask = [[1] * (len(p) + len(own)) + [0] * (longest - len(p) - len(own))
                    for _, p, own in batch]  # fmt: skip
            tokens = torch.tensor(ids, device=device)
            with torch.inference_mode():
                logits = model(
                    input_ids=tokens, attention_mask=torch.tensor(mask, device=device)
                ).logits
            nats = []
            for row, (number, prompt, own) in enumerate(batch):
                at = slice(len(prompt) - 1, len(prompt) + len(own) - 1)
                target = tokens[row : row + 1, len(prompt) : len(prompt) + len(own)]
                taken = _taken(logits[row : row + 1, at], target)
                nats.append((number, -float(taken.mean(dtype=np.float64))))
            yield nats

    return score


def _vllm(asked: AskedCheckpoint) -> Scorer:
    from evaluators.vllm import start

    if (
        asked.device == "cpu"
    ):  # vLLM compiles the ranks of prompt tokens, which its CPU builds cannot
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    engine = start(asked, max_model_len=sum(limits(asked.settings)) + 2)
    tokenizer: Any = engine.get_tokenizer()
    encode = answer_encoder(tokenizer, asked, tokenizer.eos_token_id)

    def score(answers: Sequence[Answer]) -> Iterator[list[tuple[int, float]]]:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        parameters = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        for batch in _batches([encode(answer) for answer in answers]):
            prompts = [TokensPrompt(prompt_token_ids=[*p, *own]) for _, p, own in batch]
            outputs = engine.generate(prompts, parameters, use_tqdm=False)
            nats = []
            for (number, prompt, own), output in zip(batch, outputs, strict=True):
                told = output.prompt_logprobs
                assert told is not None
                taken = [
                    each[token].logprob
                    for each, token in zip(told[len(prompt) :], own, strict=True)
                    if each is not None
                ]
                nats.append((number, -float(np.mean(taken))))
            yield nats

    return score


def answer_encoder(
    tokenizer: Any, asked: AskedCheckpoint, first_end: int | None
) -> Callable[[Answer], tuple[list[int], list[int]]]:
    """From an answer to the token ids of its prompt and of itself.

    first_end: the end token of answers of which it is not known; None where the model has none.
    """
    of_prompt = encoder(tokenizer, asked.evaluation, asked.settings)

    def encode(answer: Answer) -> tuple[list[int], list[int]]:
        own = list(tokenizer(answer.response, add_special_tokens=False)["input_ids"])
        return of_prompt(answer.problem), [*own, *_end(answer, first_end)]

    return encode


def _end(answer: Answer, first_end: int | None) -> list[int]:
    """The end token of an answer, as a list of one; empty where it was cut off."""
    token = first_end if answer.end_token is None else answer.end_token
    return [token] if answer.ended and token is not None else []


def _batches(
    encoded: Sequence[tuple[list[int], list[int]]],
) -> Iterator[list[tuple[int, list[int], list[int]]]]:
    """(number, prompt, answer) in batches of TOKENS, padding included, alike in length."""
    order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i][0]) - len(encoded[i][1]))
    start = 0
    while start < len(order):
        prompt, own = encoded[order[start]]
        size = max(1, TOKENS // (len(prompt) + len(own)))
        yield [(i, *encoded[i]) for i in order[start : start + size]]
        start += size
