"""Sampling behind one signature: a checkpoint becomes a function from prompts and seeds to draws.

In: a checkpoint and how it is asked. Out: an engine, here the embedded one; `transformers`, `vllm`
and `endpoint` have the others, `engines` runs several of vLLM at once. Each back end but a server
also takes log-probabilities, for `rare`. To add one: a function that returns a SamplingEngine, and
a line in `make_engine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .records import (
    Draw,
    LogProbs,
    RequestQueue,
    SampleRequest,
    SamplingEngine,
    SamplingTarget,
    encoder,
    limits,
    make_draw,
    taken_log_probs,
    tokenizer_of,
)

if TYPE_CHECKING:
    from fgrpo_bench.engines.embedded.model import Policy

DRAWS_AT_ONCE = 512
"""Draws of a problem that the embedded engine makes together."""
ROWS_AT_ONCE = 4096
"""Draws that it makes together over all problems: what a kill can cost."""

SCORED_AT_ONCE = 1024
"""Texts whose log-probabilities it takes together."""


def make_engine(target: SamplingTarget) -> SamplingEngine:
    """The engine of the sampler that the evaluation names, over a checkpoint. Its responses begin
    with the evaluation's prefix, which is part of what is graded.

    Raises ValueError where the checkpoint's weights do not have the digest, and its sampler where a
    prompt is longer than it may be, before the first draw.
    """
    engine = _start(target)
    prefix = target.evaluation.prefix
    if prefix is None:
        return engine

    def draw(requests: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        # closed with it, so that a back end gives up what is in flight
        with closing(engine.draw(requests)) as parts:  # type: ignore[type-var]
            for draws in parts:
                yield [draw._replace(response=prefix + draw.response) for draw in draws]

    return engine._replace(draw=draw)


def _start(target: SamplingTarget) -> SamplingEngine:
    if target.evaluation.sampler == "endpoint":
        from .endpoint import endpoint

        return endpoint(target)
    if target.evaluation.sampler == "vllm":
        from .engines import start_engines
        from .vllm import in_flight, vllm

        placement = target.placement
        if placement is None:
            raise ValueError("sampler=vllm needs --placement, as `fgrpo-bench sweep run` gives it")
        if target.batch_size is not None:
            placement = replace(placement, vllm_max_num_seqs=target.batch_size)
            target = replace(target, placement=placement)
        gpus = placement.evaluation_tensor_parallel if target.device == "cuda" else 0
        _ = target.weights  # for their digest they are read here, not by every engine again
        return start_engines(
            partial(vllm, target),
            engines=placement.evaluation_engines,
            gpus_per_engine=gpus,
            at_once=in_flight(placement, target.device, sum(limits(target.settings))),
            check=encoder(tokenizer_of(target), target.evaluation, target.settings),
        )
    if target.evaluation.sampler == "transformers":
        from .transformers import transformers

        return transformers(target)
    return embedded(target)


def embedded(target: SamplingTarget) -> SamplingEngine:
    """The embedded engine over a checkpoint; ValueError where its weights do not have the
    digest."""
    from fgrpo_bench.engines.embedded import keep_freed_memory
    from fgrpo_bench.engines.embedded.checkpoint import load_checkpoint
    from fgrpo_bench.engines.embedded.sampling import encode_prompts, sample
    from fgrpo_bench.engines.embedded.session import engine_facts
    from fgrpo_bench.objectives.advantages import action_mask

    keep_freed_memory()
    device = target.device
    assert target.sha256 is not None
    policy, tokenizer = load_checkpoint(target.folder, device, target.sha256)
    longest, length = limits(target.settings)
    at_once = target.batch_size or ROWS_AT_ONCE

    def draw(requests: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        for rows in every_block(RequestQueue(requests), at_once):
            flat = [request for row in rows for request in row]
            prompts, lengths = encode_prompts(tokenizer, [row[0].problem for row in rows], longest)
            sampled = sample(
                policy,
                prompts.to(device),
                np.array([[request.seed for request in row] for row in rows]),
                length=length,
                temperature=target.evaluation.temperature,
                lengths=lengths.to(device),
            )
            # Behind the end of a response the sampler goes on, with padding.
            mask = action_mask(sampled.tokens, eos=policy.eos, pad=policy.pad)
            responses = tokenizer.decode(sampled.tokens.cpu().numpy())
            n_tokens = mask.sum(1).tolist()
            finished = ((sampled.tokens == policy.eos) & mask).any(1).tolist()
            draws = []
            for request, response, tokens, ended in zip(
                flat, responses, n_tokens, finished, strict=True
            ):
                end_token = policy.eos if ended else None
                draws.append(make_draw(request, response, n_tokens=tokens, end_token=end_token))
            yield draws

    return SamplingEngine(draw=draw, facts=engine_facts(device))


def every_block(
    waiting: RequestQueue, most: int = ROWS_AT_ONCE
) -> Iterator[list[list[SampleRequest]]]:
    """The blocks of all that is wanted, then of what is wanted after these."""
    while ready := waiting.take():
        yield from blocks(ready, most)


def blocks(
    requests: Sequence[SampleRequest], most: int = ROWS_AT_ONCE
) -> Iterator[list[list[SampleRequest]]]:
    """Every requested draw once, in blocks of rows: a row is draws of one problem, and the rows of
    a block are equally long. most: draws of a block."""
    # Draws of one problem share its prompt, which is read once a row.
    longest = min(DRAWS_AT_ONCE, most)
    rows: list[list[SampleRequest]] = []
    for _, group in groupby(requests, key=lambda request: request.problem.problem_id):
        of_problem = list(group)
        for start in range(0, len(of_problem), longest):
            rows.append(of_problem[start : start + longest])
    for length, equal in groupby(sorted(rows, key=len, reverse=True), key=len):
        together, alike = max(1, most // length), list(equal)
        for start in range(0, len(alike), together):
            yield alike[start : start + together]


def embedded_log_probs(policy: Policy, device: str) -> LogProbs:
    """Of the embedded engine, by the length of what stands before the texts."""
    import torch

    def log_probs(
        texts: Sequence[tuple[list[int], list[int]]],
    ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
        for before, rows in alike(texts):
            longest = max(len(text) for _, _, text in rows)
            ids = [
                [*prompt, *text] + [policy.pad] * (longest - len(text)) for _, prompt, text in rows
            ]
            tokens = torch.tensor(ids, device=device)
            with torch.inference_mode():
                # The token at a place is predicted by the logits of the one before it.
                logits = policy(tokens[:, :-1])[:, before - 1 :]
                taken = taken_log_probs(logits, tokens[:, before:])
            yield [(number, taken[i, : len(text)]) for i, (number, _, text) in enumerate(rows)]

    def alike(
        texts: Sequence[tuple[list[int], list[int]]],
    ) -> Iterator[tuple[int, list[tuple[int, list[int], list[int]]]]]:
        # Behind prompts of one length texts begin at one column, so that one slice has them.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number][0]))
        for before, numbers in groupby(order, key=lambda number: len(texts[number][0])):
            rows = [(number, *texts[number]) for number in numbers]
            for start in range(0, len(rows), SCORED_AT_ONCE):
                yield before, rows[start : start + SCORED_AT_ONCE]

    return log_probs
