"""Sampling by transformers: any causal language model, each draw from its own seed.

`generate` draws all rows of a batch from one stream of random numbers, so that a draw depends on
its neighbours. Here a token is chosen from (the draw's seed, its position) and the model's
probabilities alone (fgrpo_bench.core.seeds.uniforms, by inversion): the same seed, prompt and
weights give the same draw in any batch, up to the last bits of the kernels' sums. Slower than vLLM,
but it runs wherever torch does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.core.seeds import uniforms
from fgrpo_bench.engines.engine import installed

from .adapter import adapted
from .records import (
    Draw,
    Encode,
    LogProbs,
    RequestQueue,
    SampleRequest,
    SamplingEngine,
    SamplingTarget,
    encoder,
    like_batches,
    limits,
    make_draw,
    say_discarded,
    taken_log_probs,
    tokenizer_of,
)

if TYPE_CHECKING:
    from torch import Tensor

ROWS = {"cpu": 64, "cuda": 256}
"""Draws made together."""
KEEP = 0.5
"""Share of the rows of a batch at work below which the others leave it: leaving copies the cache,
so it must pay for itself."""


def transformers(target: SamplingTarget) -> SamplingEngine:
    """transformers over a checkpoint.

    Raises ValueError where the checkpoint's weights do not have the digest or are not those of its
    config's architecture, or a prompt is longer than it may be.
    """
    device = target.device
    evaluation, at_once = target.evaluation, target.batch_size or ROWS[device]
    model = load_model(target)
    tokenizer = tokenizer_of(target)
    encode = encoder(tokenizer, evaluation, target.settings)
    ends = end_tokens(model, tokenizer)
    stop = StopTexts(tokenizer, evaluation.stop) if evaluation.stop else None
    _, length = limits(target.settings)

    def draw(requests: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        for rows in _batches(RequestQueue(requests), encode, at_once):
            prompts = [encode(request.problem) for request in rows]
            seeds = np.array([request.seed for request in rows])
            unfinished = len(rows)
            try:
                for finished in generate(
                    model,
                    prompts,
                    uniforms(seeds, length),
                    temperature=evaluation.temperature,
                    top_p=evaluation.top_p,
                    top_k=evaluation.top_k,
                    ends=ends,
                    stop=stop,
                ):
                    # Handed on as they end: a run that is stopped loses only those at work.
                    unfinished -= len(finished)
                    draws = []
                    for row, ids in finished:
                        # Some tokenizers drop the space of a first token.
                        before = prompts[row][-1:] if evaluation.prefix else []
                        draws.append(
                            _finished_draw(rows[row], ids, tokenizer, ends, stop, before=before)
                        )
                    yield draws
            finally:
                say_discarded(unfinished)

    more = {} if target.adapter is None else installed("peft")
    return SamplingEngine(draw=draw, facts=facts(device, at_once) | more)


def _batches(waiting: RequestQueue, encode: Encode, rows: int) -> Iterator[list[SampleRequest]]:
    """All that is wanted, by prompts of like length, then what is wanted after that."""
    while ready := waiting.take():
        alike = sorted(ready, key=lambda request: len(encode(request.problem)))
        for start in range(0, len(alike), rows):
            yield alike[start : start + rows]


class StopTexts:
    """Texts that end a response."""

    def __init__(self, tokenizer: Any, texts: Sequence[str]) -> None:
        self._tokenizer, self._texts = tokenizer, texts
        # a text of so many bytes began no more tokens ago, as every token but special ones has one
        self.looked_at = max(len(text.encode()) for text in texts) + 8
        """So many of the last tokens show whether one of the texts is there."""

    def end(self, tokens: Sequence[int]) -> bool:
        """Whether the last tokens of a response hold one of the texts."""
        return self.cut(self._tokenizer.decode(tokens, skip_special_tokens=True)) is not None

    def cut(self, text: str) -> str | None:
        """What stands before the first of the texts; None where none is there."""
        places = [place for stop in self._texts if (place := text.find(stop)) >= 0]
        return text[: min(places)] if places else None


def _finished_draw(
    request: SampleRequest,
    tokens: list[int],
    tokenizer: Any,
    ends: frozenset[int],
    stop: StopTexts | None,
    *,
    before: list[int],
) -> Draw:
    """The draw of sampled tokens, whose text is without the end token, or what ends it. before:
    the last token of a text that the response goes on with, without which some tokenizers would
    leave out a space."""
    end = tokens[-1] if tokens[-1] in ends else None
    kept = tokens if end is None else tokens[:-1]
    text = tokenizer.decode([*before, *kept], skip_special_tokens=True)
    text = text[len(tokenizer.decode(before, skip_special_tokens=True)) :]
    cut = None if stop is None else stop.cut(text)
    return make_draw(
        request,
        text if cut is None else cut,
        n_tokens=len(tokens),
        end_token=end if cut is None else None,
        stopped=cut is not None,
    )


def load_model(target: SamplingTarget) -> Any:
    """The model of a checkpoint where it is to compute, with its adapter; raises as `load_whole`,
    and ValueError where its weights are not those that were recorded."""
    trusted, dtype = target.trust_remote_code, target.evaluation.dtype
    assert dtype is not None
    model = load_whole(target.weights, dtype, trust_remote_code=trusted)
    if target.adapter is not None:
        adapted(model, target.adapter)
    return model.to(target.device).eval()


def load_whole(checkpoint: Path, dtype: str, *, trust_remote_code: bool = False) -> Any:
    """The model, every weight of it from the checkpoint.

    transformers draws at random what a checkpoint lacks and passes over what it does not know; here
    both are a ValueError, and so is an architecture that it does not have.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            checkpoint,
            dtype=getattr(torch, dtype),
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that loading_info names them
        )
    except (ValueError, KeyError, SafetensorError) as error:
        raise ValueError(
            f"transformers {version('transformers')} cannot load {checkpoint} "
            f"({str(error).splitlines()[0]}): copy the checkpoint again where a file is damaged, "
            "set sampler=vllm where vLLM has its architecture, or name another checkpoint"
        ) from error
    model, loading_info = loaded
    kinds = {"missing_keys": "lacks", "unexpected_keys": "has besides", "mismatched_keys": "shapes"}
    for kind, word in kinds.items():
        if names := sorted(str(name) for name in loading_info[kind]):
            raise ValueError(
                f"the weights in {checkpoint} are not those of the {type(model).__name__} in its "
                f"config.json; {word}: {len(names)}, e.g. {names[0]}: copy the config.json that "
                "was saved with these weights, or name another checkpoint"
            )
    return model


def generate(
    model: Any,
    prompts: Sequence[list[int]],
    numbers: np.ndarray,
    *,
    temperature: float,
    top_p: float = 1.0,
    top_k: int | None = None,
    ends: frozenset[int],
    stop: StopTexts | None = None,
) -> Iterator[list[tuple[int, list[int]]]]:
    """(row, sampled tokens with the end token) of every prompt, in lists, as they are finished: one
    for each token, empty where none is. stop: what ends a response beside the end tokens.

    numbers: uniform in [0, 1), float64 [prompts, most tokens].
    """
    import torch

    device, length = model.device, numbers.shape[1]
    ids, mask = _padded(prompts, device)
    ending = torch.tensor(sorted(ends), device=device)
    draws = torch.from_numpy(numbers).to(device)
    alive = torch.arange(len(prompts), device=device)  # rows of the batch -> rows of prompts
    going = torch.ones(len(prompts), dtype=torch.bool, device=device)
    sampled = torch.zeros((len(prompts), length), dtype=torch.int64, device=device)
    cache, inputs, at = None, ids, (mask.cumsum(1) - 1).clamp(min=0)
    for position in range(length):
        with torch.inference_mode():
            out = model(
                input_ids=inputs,
                attention_mask=mask,
                position_ids=at,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        tokens = chosen(
            out.logits[:, -1],
            draws[alive, position],
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
        )
        sampled[alive, position] = tokens
        ended = torch.isin(tokens, ending) | (position + 1 == length)
        if stop is not None:
            last = sampled[alive, max(0, position + 1 - stop.looked_at) : position + 1].tolist()
            ended |= torch.tensor([stop.end(row) for row in last], device=device)
        fresh, cut = alive[ended & going].tolist(), sampled[:, : position + 1]
        yield [(row, cut[row].tolist()) for row in fresh]
        going &= ~ended
        if not going.any():
            return
        cache, inputs, at = out.past_key_values, tokens[:, None], at[:, -1:] + 1
        mask = torch.cat([mask, mask.new_ones((len(mask), 1))], dim=1)
        if going.float().mean() < KEEP:
            kept = going.nonzero()[:, 0]
            cache.batch_select_indices(kept)
            inputs, at, mask, alive, going = (x[kept] for x in (inputs, at, mask, alive, going))


def chosen(
    logits: Tensor,
    numbers: Tensor,
    *,
    temperature: float,
    top_p: float = 1.0,
    top_k: int | None = None,
) -> Tensor:
    """The token at which the summed probabilities pass a row's number; int64 [rows].

    logits: [rows, vocabulary]. numbers: uniform in [0, 1), float64 [rows]. temperature: 0 takes the
    most likely token, the first of several. top_k, then top_p: tokens below the least likely one
    that is kept are left out.
    """
    import torch

    if temperature == 0:
        return logits.argmax(-1)
    # in float64: sums over a whole vocabulary in float32 would depend on their order
    probabilities = torch.softmax(logits.double() / temperature, dim=-1)
    if top_k is not None and top_k < logits.shape[-1]:
        least = probabilities.topk(top_k, dim=-1).values[:, -1:]
        probabilities = probabilities.where(probabilities >= least, 0.0)
    if top_p < 1:
        falling = probabilities.sort(dim=-1, descending=True).values
        before = falling.cumsum(-1) - falling
        kept = before < top_p * falling.sum(-1, keepdim=True)
        least = falling.gather(-1, kept.sum(-1, keepdim=True) - 1)
        probabilities = probabilities.where(probabilities >= least, 0.0)
    summed = probabilities.cumsum(-1)
    whole = summed[:, -1]
    # a number of almost 1 is rounded up to the sum, at which no token stands
    level = (numbers * whole).minimum(whole.nextafter(torch.zeros_like(whole)))
    return torch.searchsorted(summed, level.unsqueeze(1), right=True)[:, 0]


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a response: those of the generation config, else the tokenizer's."""
    named = model.generation_config.eos_token_id
    if named is None:
        named = tokenizer.eos_token_id
    return frozenset([named] if isinstance(named, int) else named or ())


def facts(device: str, rows: int) -> dict[str, Any]:
    """The engine fingerprint: what may change a draw in its last bits."""
    import torch

    packages = {name: version(name) for name in ("torch", "transformers")}
    gpu = torch.cuda.get_device_name() if device == "cuda" else device
    return {"engine": "transformers", "device": gpu, "rows": rows, **packages}


def _padded(prompts: Sequence[list[int]], device: Any) -> tuple[Tensor, Tensor]:
    """Prompts of different lengths as [rows, longest], filled up on the left, and their mask."""
    import torch

    longest = max(map(len, prompts))
    ids = [[0] * (longest - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def transformers_log_probs(model: Any) -> LogProbs:
    """Of a model of transformers."""
    import torch

    def log_probs(
        texts: Sequence[tuple[list[int], list[int]]],
    ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
        for batch in like_batches(texts):
            longest = max(len(prompt) + len(text) for _, prompt, text in batch)
            ids = [[*p, *text] + [0] * (longest - len(p) - len(text)) for _, p, text in batch]
            mask = [[1] * (len(p) + len(text)) + [0] * (longest - len(p) - len(text))
                    for _, p, text in batch]  # fmt: skip
            tokens = torch.tensor(ids, device=model.device)
            with torch.inference_mode():
                logits = model(
                    input_ids=tokens, attention_mask=torch.tensor(mask, device=model.device)
                ).logits
            nats = []
            for row, (number, prompt, text) in enumerate(batch):
                at = slice(len(prompt) - 1, len(prompt) + len(text) - 1)
                target = tokens[row : row + 1, len(prompt) : len(prompt) + len(text)]
                nats.append((number, taken_log_probs(logits[row : row + 1, at], target)[0]))
            yield nats

    return log_probs
