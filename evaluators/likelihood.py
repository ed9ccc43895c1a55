"""Likelihood of given answers under a checkpoint: mean negative log-probability a token.

A back end is a function that returns a Scorer, and a line in `make_scorer`. Answers are stored as
text and encoded again: where a tokenizer would split an answer otherwise than it was sampled, the
likelihood is that of the usual split, under every checkpoint alike. The end token is the one that
was sampled, of which a model may have several. Where that is not known, as in imported draws, it is
the engine's first: the tokenizer's (vLLM) or the smallest (transformers), which such sets were
scored with under the base model too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evaluators.prompts import encoder, limits
from evaluators.records import LogProbs, SamplingTarget
from fgrpo_bench.records import Problem

if TYPE_CHECKING:
    from vllm import LLM

    from fgrpo_bench.engines.embedded.model import Policy

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


def make_scorer(asked: SamplingTarget) -> Scorer:
    """The scorer of the back end that the evaluation samples with.

    Errors as those of evaluators.backends.make_engine.
    """
    if asked.evaluation.sampler == "embedded":
        return _embedded(asked)
    return _vllm(asked) if asked.evaluation.sampler == "vllm" else _transformers(asked)


def _embedded(asked: SamplingTarget) -> Scorer:
    from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
    from fgrpo_bench.engines.embedded.tokenizer import EOS

    policy, tokenizer = load_checkpoint(asked.folder, asked.device, asked.sha256)

    def encode(answer: Answer) -> tuple[list[int], list[int]]:
        prompt, own = (
            tokenizer.encode([text])[0] for text in (answer.problem.prompt, answer.response)
        )
        return prompt.tolist(), [*own.tolist(), *_end(answer, EOS)]

    return _scorer(encode, embedded_log_probs(policy, asked.device))


def _transformers(asked: SamplingTarget) -> Scorer:
    from transformers import AutoTokenizer

    from evaluators.transformers import end_tokens, load_whole

    model = load_whole(asked.weights, asked.evaluation.dtype).to(asked.device).eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(asked.folder, local_files_only=True)
    first = min(end_tokens(model, tokenizer), default=None)
    return _scorer(answer_encoder(tokenizer, asked, first), transformers_log_probs(model))


def _vllm(asked: SamplingTarget) -> Scorer:
    from evaluators.vllm import start

    engine = start(asked, max_model_len=sum(limits(asked.settings)) + 2)
    tokenizer: Any = engine.get_tokenizer()
    encode = answer_encoder(tokenizer, asked, tokenizer.eos_token_id)
    return _scorer(encode, vllm_log_probs(engine))


def _scorer(encode: Callable[[Answer], tuple[list[int], list[int]]], log_probs: LogProbs) -> Scorer:
    def score(answers: Sequence[Answer]) -> Iterator[list[tuple[int, float]]]:
        for batch in log_probs([encode(answer) for answer in answers]):
            yield [(number, -float(taken.mean())) for number, taken in batch]

    return score


def embedded_log_probs(policy: Policy, device: str) -> LogProbs:
    """Of the embedded engine; what stands before the texts is equally long."""
    import torch

    from fgrpo_bench.engines.embedded.tokenizer import PAD

    def log_probs(
        texts: Sequence[tuple[list[int], list[int]]],
    ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
        for start in range(0, len(texts), ROWS):
            rows = texts[start : start + ROWS]
            before, longest = len(rows[0][0]), max(len(own) for _, own in rows)
            ids = [[*prompt, *own] + [PAD] * (longest - len(own)) for prompt, own in rows]
            tokens = torch.tensor(ids, device=device)
            with torch.inference_mode():
                logits = policy(tokens[:, :-1])[:, before - 1 :]
                taken = _taken(logits, tokens[:, before:])
            yield [(start + i, taken[i, : len(own)]) for i, (_, own) in enumerate(rows)]

    return log_probs


def transformers_log_probs(model: Any) -> LogProbs:
    """Of a model of transformers."""
    import torch

    def log_probs(
        texts: Sequence[tuple[list[int], list[int]]],
    ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
        for batch in _batches(texts):
            longest = max(len(prompt) + len(own) for _, prompt, own in batch)
            ids = [[*p, *own] + [0] * (longest - len(p) - len(own)) for _, p, own in batch]
            mask = [[1] * (len(p) + len(own)) + [0] * (longest - len(p) - len(own))
                    for _, p, own in batch]  # fmt: skip
            tokens = torch.tensor(ids, device=model.device)
            with torch.inference_mode():
                logits = model(
                    input_ids=tokens, attention_mask=torch.tensor(mask, device=model.device)
                ).logits
            nats = []
            for row, (number, prompt, own) in enumerate(batch):
                at = slice(len(prompt) - 1, len(prompt) + len(own) - 1)
                target = tokens[row : row + 1, len(prompt) : len(prompt) + len(own)]
                nats.append((number, _taken(logits[row : row + 1, at], target)[0]))
            yield nats

    return log_probs


def vllm_log_probs(engine: LLM) -> LogProbs:
    """Of vLLM, which must not be drawing."""

    def log_probs(
        texts: Sequence[tuple[list[int], list[int]]],
    ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        parameters = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        for batch in _batches(texts):
            prompts = [TokensPrompt(prompt_token_ids=[*p, *own]) for _, p, own in batch]
            outputs = engine.generate(prompts, parameters, use_tqdm=False)
            nats = []
            for (number, prompt, own), output in zip(batch, outputs, strict=True):
                prompt_log_probs = output.prompt_logprobs
                assert prompt_log_probs is not None
                taken = [
                    each[token].logprob
                    for each, token in zip(prompt_log_probs[len(prompt) :], own, strict=True)
                    if each is not None
                ]
                nats.append((number, np.array(taken)))
            yield nats

    return log_probs


def _taken(logits: Any, tokens: Any) -> NDArray[np.float64]:
    """Log-probabilities of tokens [rows, length] under logits [rows, length, vocabulary]."""
    import torch

    logp = torch.log_softmax(logits.float(), -1).gather(2, tokens[..., None])[..., 0]
    return np.asarray(logp.cpu().numpy(), dtype=np.float64)


def answer_encoder(
    tokenizer: Any, asked: SamplingTarget, first_end: int | None
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
