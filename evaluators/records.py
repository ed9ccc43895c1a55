"""What every back end takes and gives: a checkpoint and how it is asked, draws that are wanted, and
draws as they are made.

In: a stage's spec and problems. Out: what `backends`, `transformers` and `vllm` have in common, so
that they differ in nothing but their engines: types, the queue of requests, prompts as token ids,
and log-probabilities in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.chat import chat_tokens
from fgrpo_bench.kinds.evaluate import DrawsSpec
from fgrpo_bench.specs import (
    BenchmarkPrompt,
    EvalSpec,
    Placement,
    PromptSpec,
    SolvedExample,
    TaskSpec,
    from_dict,
)
from fgrpo_bench.stages.digests import check_weights, weights_sha256
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.tasks import make_task

from .adapter import ADAPTER, adapter_sha256


@dataclass(frozen=True, kw_only=True)
class SamplingTarget:
    """A checkpoint, and how an evaluation asks it."""

    folder: Path
    """Not there of a model that a server has."""
    sha256: str | None
    """Of its weights, as they were recorded; None of a model that a server has."""
    evaluation: EvalSpec
    settings: dict[str, Any]
    """What changes a draw, as fgrpo_bench.kinds.evaluate.sampling_identity gives it."""
    device: str
    placement: Placement | None
    """How vLLM uses the machine; the other back ends need none."""
    batch_size: int | None = None
    """Draws at once; None: the back end's own number."""
    trust_remote_code: bool = False
    """Whether code that the checkpoint brings may run."""

    @cached_property
    def weights(self) -> Path:
        """The folder, once its weights have the digest: read by the first process that asks, not by
        those that are given this afterwards. ValueError where they have another."""
        assert self.sha256 is not None
        check_weights(self.folder, self.sha256)
        return self.folder

    @cached_property
    def adapter(self) -> Path | None:
        """The folder of the adapter that the weights are drawn with, None without one; ValueError
        where it is not the recorded one."""
        if (recorded := self.settings.get("peft")) is None:
            return None
        folder = self.folder.parents[1] / ADAPTER
        if adapter_sha256(folder) != recorded:
            raise ValueError(
                f"the adapter in {folder} was changed since this evaluation began: draws of "
                "different weights are never mixed; give the evaluation another --name"
            )
        return folder

    @classmethod
    def from_spec(
        cls,
        spec: DrawsSpec,
        *,
        device: str,
        placement: Placement | None,
        batch_size: int | None = None,
    ) -> SamplingTarget:
        """That of a stage's spec."""
        source, step = spec.looks_at
        folder, made_by = source.checkpoint(step), read_marker(source)
        recorded = made_by.weights_sha256 if made_by.step == step else None
        if recorded is None and "served" not in spec.sampling:
            recorded = weights_sha256(folder)  # of others it is taken at the first draw
        return cls(
            folder=folder,
            sha256=recorded,
            evaluation=spec.eval_spec,
            settings=spec.sampling,
            device=device,
            placement=placement,
            batch_size=batch_size,
            trust_remote_code=spec.trust_remote_code,
        )


def tokenizer_of(target: SamplingTarget) -> Any:
    """The checkpoint's tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        target.folder, local_files_only=True, trust_remote_code=target.trust_remote_code
    )


class SampleRequest(NamedTuple):
    """A draw that is still to be made."""

    problem: Problem
    draw: int
    """0-based within the problem."""
    seed: int
    """The draw follows from it, whatever is drawn beside it."""


class Draw(NamedTuple):
    """A draw; fields are the columns of fgrpo_bench.stages.tables.DRAWS, in their order."""

    problem_id: str
    draw: int
    seed: int
    response: str
    n_tokens: int
    """Sampled tokens, the end token included."""
    finish_reason: str
    """stop: the model ended by itself; length: it ran into the limit."""
    end_token: int | None
    """Id of the end token that was sampled, of which a model may have several; None without one."""


Seeds = Mapping[str, list[int]]
"""The own seed of every draw that is asked for, by problem_id."""
Sampler = Callable[[Iterable[SampleRequest | None]], Iterator[Sequence[Draw]]]
"""Requested draws -> draws as they are made, each once, in any order; an empty list says that it is
at work, and is where it can be stopped. None among the wanted ones
says that whether more are wanted is open until some of those in the making are given back."""
LogProbs = Callable[
    [Sequence[tuple[list[int], list[int]]]], Iterator[list[tuple[int, NDArray[np.float64]]]]
]
"""(token ids of what stands before a text, those of the text) -> (number of the text, nats:
log-probability of each of its tokens), in lists as they are made, each text once."""


class SamplingEngine(NamedTuple):
    """A back end over a checkpoint."""

    draw: Sampler
    facts: dict[str, Any]
    """Its fingerprint: what may change a draw in its last bits."""


def say_discarded(responses: int) -> None:
    """Say what is lost where a sampler is stopped; what ended is saved."""
    if responses:
        print(f"stopped: {responses} half-drawn responses are discarded", flush=True)


class RequestQueue:
    """What is wanted, for a sampler that takes as much as it has room for."""

    def __init__(self, requests: Iterable[SampleRequest | None]) -> None:
        self._requests = iter(requests)
        self.ended = False
        """Whether no more will come."""

    def take(self, most: int | None = None) -> list[SampleRequest]:
        """The next ones, as many as there are now; most: None is all of them. A sampler that makes
        nothing meanwhile is given some, or it has ended."""
        taken: list[SampleRequest] = []
        while most is None or len(taken) < most:
            try:
                request = next(self._requests)
            except StopIteration:
                self.ended = True
                break
            if request is None:
                break
            taken.append(request)
        return taken


def make_draw(
    request: SampleRequest,
    response: str,
    *,
    n_tokens: int,
    end_token: int | None,
    stopped: bool = False,
) -> Draw:
    """What became of a request: the draw ran into the limit where it has no end token and was not
    stopped, by a text that ends it or by a server that does not tell the token; what no file can
    hold of a response (half of a surrogate pair) becomes `?`."""
    return Draw(
        problem_id=request.problem.problem_id,
        draw=request.draw,
        seed=request.seed,
        response=response.encode("utf-8", "replace").decode(),
        n_tokens=n_tokens,
        finish_reason="stop" if stopped or end_token is not None else "length",
        end_token=end_token,
    )


# Prompts as token ids and log-probabilities in batches, alike in every back end.

SCORED_TOKENS = 16_384
"""Tokens whose log-probabilities transformers takes together, and vLLM between two reports."""
Encode = Callable[[Problem], list[int]]
"""From a problem to token ids."""


def limits(settings: dict[str, Any]) -> tuple[int, int]:
    """Most tokens of a prompt and of a response, the end token included.

    settings: as of fgrpo_bench.kinds.evaluate.sampling_identity.
    """
    if settings["response_tokens"] is not None:
        return settings["prompt_tokens"], settings["response_tokens"]
    task = make_task(from_dict(TaskSpec, settings["task"]))
    return task.prompt_length, task.response_length + 1


def encoder(tokenizer: Any, evaluation: EvalSpec, settings: dict[str, Any]) -> Encode:
    """From a problem to token ids, each problem once; ValueError, which shows no problem's text,
    for one that is too long."""
    limit, _ = limits(settings)
    ids_by_problem: dict[tuple[str, str], list[int]] = {}

    def encode(problem: Problem) -> list[int]:
        key = problem.benchmark, problem.problem_id
        # A problem is asked for once for each of its draws.
        if key not in ids_by_problem:
            ids_by_problem[key] = checked(problem)
        return ids_by_problem[key]

    def checked(problem: Problem) -> list[int]:
        ids = encoded(
            tokenizer,
            prompt_spec(evaluation, settings, problem),
            problem.prompt,
            few_shot=evaluation.few_shot or (),
            prefix=evaluation.prefix or "",
        )
        if len(ids) > limit:
            raise ValueError(
                f"the prompt of problem {problem.problem_id} has {len(ids)} tokens, more than "
                f"prompt_tokens={limit}: raise prompt_tokens (--max-prompt-tokens; under a sweep "
                "experiment.train.prompt_tokens), or leave that problem out"
            )
        return ids

    return encode


def prompt_spec(evaluation: EvalSpec, settings: dict[str, Any], problem: Problem) -> PromptSpec:
    """How a problem becomes a prompt: as its benchmark says, else as is said for all."""
    of_benchmark = evaluation.benchmark_prompt(problem.benchmark)
    return of_benchmark or from_dict(PromptSpec, settings["prompt"])


def encoded(
    tokenizer: Any,
    spec: PromptSpec,
    text: str,
    *,
    few_shot: Sequence[SolvedExample] = (),
    prefix: str = "",
) -> list[int]:
    """Token ids of a text as a prompt, with what the response begins with behind it."""
    if not spec.chat_template:
        return list(tokenizer(plain_prompt(spec, text, few_shot) + prefix)["input_ids"])
    thinking = spec.thinking if isinstance(spec, BenchmarkPrompt) else None
    further = {} if thinking is None else {"enable_thinking": thinking}
    return chat_tokens(tokenizer, turns(spec, text, few_shot), prefix=prefix, **further)


def turns(
    spec: PromptSpec, text: str, few_shot: Sequence[SolvedExample] = ()
) -> list[dict[str, str]]:
    """A chat that ends in a text: the system message and the solved examples before it."""
    chat = [] if spec.system is None else [{"role": "system", "content": spec.system}]
    for example in few_shot:
        chat.append({"role": "user", "content": spec.text(example.problem)})
        chat.append({"role": "assistant", "content": example.answer})
    return [*chat, {"role": "user", "content": spec.text(text)}]


def plain_prompt(spec: PromptSpec, text: str, few_shot: Sequence[SolvedExample] = ()) -> str:
    """A text as it stands; behind solved examples, each with its answer in the next line and a
    blank one after it, it ends in a new line, as they do before their answers."""
    if not few_shot:
        return spec.text(text)
    shown = [f"{spec.text(example.problem)}\n{example.answer}\n\n" for example in few_shot]
    return "".join([*shown, spec.text(text), "\n"])


def check_few_shot(few_shot: Sequence[SolvedExample], problems: Sequence[Problem]) -> None:
    """ValueError, which shows no text, where an example is one of the problems, whatever its
    spaces and capitals."""

    def normalized(text: str) -> str:
        return " ".join(text.split()).casefold()

    shown = {normalized(example.problem): place for place, example in enumerate(few_shot, 1)}
    for problem in problems:
        if (place := shown.get(normalized(problem.prompt))) is not None:
            raise ValueError(
                f"solved example {place} (--few-shot) is problem {problem.problem_id} of "
                f"{problem.benchmark}, whose answer the model would read: leave the example out, "
                "or the problem"
            )


def taken_log_probs(logits: Any, tokens: Any) -> NDArray[np.float64]:
    """Log-probabilities of tokens [rows, length] under logits [rows, length, vocabulary]."""
    import torch

    logp = torch.log_softmax(logits.float(), -1).gather(2, tokens[..., None])[..., 0]
    return np.asarray(logp.cpu().numpy(), dtype=np.float64)


def like_batches(
    encoded: Sequence[tuple[list[int], list[int]]],
) -> Iterator[list[tuple[int, list[int], list[int]]]]:
    """(number, prompt, answer) in batches of SCORED_TOKENS, padding included, alike in length."""
    order = sorted(range(len(encoded)), key=lambda i: -len(encoded[i][0]) - len(encoded[i][1]))
    start = 0
    while start < len(order):
        prompt, text = encoded[order[start]]
        size = max(1, SCORED_TOKENS // (len(prompt) + len(text)))
        yield [(i, *encoded[i]) for i in order[start : start + size]]
        start += size
