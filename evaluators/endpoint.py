"""Sampling from a server that speaks OpenAI's protocol (vLLM serve, SGLang): a request a draw.

In: an address, the name of a model there, problems. Out: draws as the server answers them, many
requests at a time, each tried again with growing waits where the server is busy, fails or is gone;
where it stays so the stage stops, and a rerun asks for what is missing. The key is read from
OPENAI_API_KEY at every request and stands nowhere else.

A chat is sent as messages, to which the server applies its template; without a template the prompt
is sent as one text. Tokens are the server's count. A seed is sent with every draw, but no server
promises to keep it: draws of a rerun may differ, those that are stored stay.

Three parts: the model that a server has (`served_model`), the draws (`endpoint`), the protocol.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from http.client import HTTPException
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.documents.terminal import plain
from fgrpo_bench.specs import BenchmarkPrompt
from fgrpo_bench.stages.stage import Stopped

from .records import (
    Draw,
    RequestQueue,
    SampleRequest,
    SamplingEngine,
    SamplingTarget,
    make_draw,
    plain_prompt,
    prompt_spec,
    say_discarded,
    turns,
)

KEY = "OPENAI_API_KEY"
AT_ONCE = 32
"""Requests in flight where no number is given."""
WAITS = (1, 2, 4, 8, 16, 30, 30, 30)
"""Seconds before each further try, and up to half as many again."""
LONGEST_WAIT = 120.0
"""Seconds that a server may ask for (Retry-After)."""
LIST_SECONDS, ANSWER_SECONDS = 30.0, 3600.0
"""Until a list of models, and a response, is given up."""
LOOK_SECONDS = 0.5
"""Between looks for a stop while no response arrives."""
MOST_BYTES = 2**26
"""Of an answer."""
SHOWN_MODELS, SHOWN_CHARACTERS = 20, 300
"""Of a refusal."""
USE_MODEL_DEFAULTS = ("vllm", "sglang")
"""Servers (owned_by) that sample by the defaults of the model's generation_config.json where a
request does not say otherwise."""
OFF = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
"""What such a server is told so that it samples as every other back end does."""


# The model that a server has.


@dataclass(frozen=True, kw_only=True)
class ServedModel:
    """A model under its name, as the list of a server (GET /models) tells."""

    url: str
    """Of the protocol's root; ends in /v1 with most servers."""
    model: str
    root: str | None
    """What the name stands for, e.g. a folder or an id of the Hub; None where it is not told."""
    software: str | None
    """owned_by, e.g. vllm."""
    context: int | None
    """Tokens of prompt and response (max_model_len); None where it is not told."""

    @property
    def identity(self) -> dict[str, Any]:
        """What draws follow from."""
        return {"url": self.url, "model": self.model, "root": self.root}


def served_model(url: str, model: str | None) -> ServedModel:
    """The model of a server; ValueError that lists those it has where the name is none of them or
    none is given, or for an address that is none; OSError where no server answers."""
    url = address(url)
    try:
        ask = partial(_ask, f"{url}/models", seconds=LIST_SECONDS)
        listed = _patiently(ask, Event(), absent=False)
    except _Unavailable as error:
        raise OSError(
            f"--endpoint {url}: no server answers there ({error}): start it, or check the address"
        ) from None
    entries = listed.get("data")
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("id"), str) for entry in entries
    ):
        raise ValueError(f"--endpoint {url}: {url}/models is no list of models as OpenAI's is")
    by_name = {entry["id"]: entry for entry in entries}
    names = [plain(name) for name in by_name]
    there = f"{url} has {', '.join(names[:SHOWN_MODELS]) or 'none'}"
    if names[SHOWN_MODELS:]:
        there += f" and {len(names) - SHOWN_MODELS} more"
    if model is None:
        raise ValueError(f"--endpoint {url}: name a model with --model; {there}")
    if model not in by_name:
        raise ValueError(f"--model {model}{suggestion(model, names)}: {there}")
    entry = by_name[model]
    # Servers may leave these out or put anything there: another type is not believed.
    root, software, context = (entry.get(key) for key in ("root", "owned_by", "max_model_len"))
    return ServedModel(
        url=url,
        model=model,
        root=root if isinstance(root, str) else None,
        software=software if isinstance(software, str) else None,
        context=context if type(context) is int else None,
    )


def address(url: str) -> str:
    """The root of the protocol: without the name of a request behind it, and /v1 where there is no
    path; ValueError for what is no address of a server, or has a password in it."""
    if "@" in url:  # which is not shown
        raise ValueError(
            f"--endpoint with a name or password in the address: set {KEY} to the server's key"
        )
    try:
        parts = urlsplit(url.strip())
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"--endpoint {url}: is no address ({error})") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(
            f"--endpoint {url}: give the address of the server's protocol, e.g. "
            "http://localhost:8000/v1"
        )
    path = parts.path.rstrip("/")
    for request in ("/chat/completions", "/completions"):
        path = path.removesuffix(request)
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


# Draws.


def endpoint(target: SamplingTarget) -> SamplingEngine:
    """The model of a server, as the evaluation asks it.

    Raises as `served_model`, and ValueError where its name stands for another model now. Its
    sampler raises ValueError in the server's words where that refuses a request, and Stopped where
    it cannot be reached after all tries, both after the responses in flight.
    """
    recorded = target.settings["served"]
    served = served_model(recorded["url"], recorded["model"])
    if served.identity != recorded:
        before, present = (plain(str(root)) for root in (recorded["root"], served.root))
        raise ValueError(
            f"--model {served.model} of {served.url} was {before} and is now {present}: draws of "
            "different models are never mixed; give the evaluation another --name"
        )
    at_once = target.batch_size or AT_ONCE

    def draw(requests: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        waiting, ready = RequestQueue(requests), deque[SampleRequest]()
        flight = _InFlight(target, served)
        try:
            while True:
                if flight.failure is None:
                    ready += waiting.take()
                    while ready and flight.in_flight < at_once:
                        flight.send(ready.popleft())
                if not flight.in_flight:
                    break
                yield flight.arrived()
        finally:
            flight.close()
        if flight.failure is not None:
            raise flight.failure

    facts = {"engine": "endpoint", "seed": "sent, not promised"} | asdict(served)
    return SamplingEngine(draw=draw, facts=facts)


class _InFlight:
    """Requests in flight, each in a thread of its own, which a stop of this process leaves behind:
    a server may take an hour to answer."""

    def __init__(self, target: SamplingTarget, served: ServedModel) -> None:
        self._target, self._served = target, served
        self._requests, self._outcomes = SimpleQueue[Any](), SimpleQueue[Any]()
        self._giving_up = Event()
        self._tokens: Counter[str] = Counter()
        self._other_ends: Counter[str] = Counter()
        self.in_flight = 0
        self.failure: Exception | None = None
        """The first one; nothing is sent after it."""
        self._threads = 0

    def send(self, request: SampleRequest) -> None:
        self._requests.put(request)
        self.in_flight += 1
        if self.in_flight > self._threads:
            Thread(target=self._work, daemon=True).start()
            self._threads += 1

    def arrived(self) -> list[Draw]:
        """Draws that were answered meanwhile; none where LOOK_SECONDS pass without any."""
        outcomes, draws = [], []
        try:
            outcomes.append(self._outcomes.get(timeout=LOOK_SECONDS))
            while True:
                outcomes.append(self._outcomes.get_nowait())
        except Empty:
            self.in_flight -= len(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                self.failure = self.failure or outcome
                self._giving_up.set()
                continue
            draw, usage, end = outcome
            draws.append(draw)
            self._tokens.update(usage)
            if end not in ("stop", "length"):
                self._other_ends[end] += 1
        return draws

    def close(self) -> None:
        """Let the threads end, and say what was used and what is lost."""
        self._giving_up.set()
        for _ in range(self._threads):
            self._requests.put(None)
        say_discarded(self.in_flight)
        if self._tokens:
            prompts, responses = self._tokens["prompt_tokens"], self._tokens["completion_tokens"]
            print(
                f"{self._served.url} counts {prompts:,} tokens of prompts and {responses:,} of "
                "responses",
                flush=True,
            )
        for end, responses in self._other_ends.items():
            print(f"{responses} responses ended by {plain(end)}, counted as ended", flush=True)

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            try:
                self._outcomes.put(self._draw_once(request))
            except Exception as error:  # whatever it is, the process that waits for it must know
                self._outcomes.put(error)

    def _draw_once(self, request: SampleRequest) -> tuple[Draw, dict[str, int], str]:
        where, body = request_body(self._target, self._served, request)
        ask = partial(_ask, f"{self._served.url}/{where}", body, seconds=ANSWER_SECONDS)
        try:
            return read_answer(request, _patiently(ask, self._giving_up))
        except _Unavailable as error:
            raise Stopped(
                f"{self._served.url} does not answer ({error}; {len(WAITS) + 1} tries); what was "
                "drawn before is saved"
            ) from None
        except ValueError as error:
            raise ValueError(f"problem {request.problem.problem_id}: {error}") from None


def request_body(
    target: SamplingTarget, served: ServedModel, request: SampleRequest
) -> tuple[str, dict[str, Any]]:
    """The name of a request to the server, and what it holds, as JSON types."""
    evaluation = target.evaluation
    body: dict[str, Any] = {
        "model": served.model,
        "max_tokens": target.settings["response_tokens"],
        "temperature": evaluation.temperature,
        "top_p": evaluation.top_p,
        "seed": request.seed,
        "n": 1,
    }
    if served.software in USE_MODEL_DEFAULTS:
        body |= OFF
    if evaluation.top_k is not None:
        body["top_k"] = evaluation.top_k
    if evaluation.stop is not None:
        body["stop"] = list(evaluation.stop)
    spec = prompt_spec(evaluation, target.settings, request.problem)
    few_shot, prefix = evaluation.few_shot or (), evaluation.prefix
    if not spec.chat_template:
        text = plain_prompt(spec, request.problem.prompt, few_shot)
        return "completions", body | {"prompt": text + (prefix or "")}
    body["messages"] = turns(spec, request.problem.prompt, few_shot)
    if prefix is not None:  # as vLLM and SGLang go on with a turn that has begun
        body["messages"].append({"role": "assistant", "content": prefix})
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    if isinstance(spec, BenchmarkPrompt) and spec.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": spec.thinking}
    return "chat/completions", body


def read_answer(request: SampleRequest, answer: Any) -> tuple[Draw, dict[str, int], str]:
    """The draw of a server's answer, the tokens of its prompt and response, and how it ended; Value
    Error where it is no answer of the protocol. Thoughts that a server gives apart stand before the
    response as <think>...</think>."""
    try:
        (choice,) = answer["choices"]
        message = choice.get("message")
        text = choice["text"] if message is None else message.get("content") or ""
        thoughts = None
        if message is not None:
            thoughts = message.get("reasoning_content") or message.get("reasoning")
        end, usage = choice["finish_reason"], answer["usage"]
        counts = {key: usage.get(key) for key in ("prompt_tokens", "completion_tokens")}
    except (LookupError, TypeError, ValueError, AttributeError):
        raise ValueError(NO_ANSWER) from None
    if thoughts:
        text = f"<think>{thoughts}</think>{text}" if text else f"<think>{thoughts}"
    has_counts = all(type(count) is int and 0 <= count < 2**31 for count in counts.values())
    if not (isinstance(text, str) and isinstance(end, str) and has_counts):
        raise ValueError(NO_ANSWER)
    draw = make_draw(
        request,
        text,
        n_tokens=counts["completion_tokens"],
        end_token=None,  # no server tells it
        stopped=end != "length",
    )
    return draw, counts, end


NO_ANSWER = (
    "the server's answer is none of OpenAI's protocol (one choice with its text and finish_reason, "
    "and a usage with prompt_tokens and completion_tokens): check --endpoint"
)


# The protocol.


class _Unavailable(Exception):
    """What another try may mend. wait: seconds that the server asks for."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class _Absent(_Unavailable):
    """No connection came about, or it broke."""


class _NoRedirect(HTTPRedirectHandler):
    """A redirect is refused: the key would go to another address."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER = build_opener(_NoRedirect)
REMEDIES = {
    401: f"set {KEY} to a key of that server",
    403: f"set {KEY} to a key of that server that may use this model",
    404: "check --endpoint, which ends in /v1 with most servers, and --model",
}
"""By the code of a refusal."""


def _patiently(ask: Callable[[], Any], giving_up: Event, *, absent: bool = True) -> Any:
    """What a request gives, tried again after each of WAITS, unless `giving_up` is set. absent:
    whether also where no connection comes about."""
    for wait in WAITS:
        try:
            return ask()
        except _Unavailable as error:
            if isinstance(error, _Absent) and not absent:
                raise
            seconds = max(random.uniform(wait, 1.5 * wait), min(error.wait, LONGEST_WAIT))
            if giving_up.wait(seconds):
                raise
    return ask()


def _ask(url: str, body: dict[str, Any] | None = None, *, seconds: float) -> dict[str, Any]:
    """What a server answers, once; ValueError in one sentence where it refuses."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY, "").strip():
        if not (key.isascii() and key.isprintable()):
            raise ValueError(f"{KEY} holds characters that no key has: set it anew")
        headers["Authorization"] = f"Bearer {key}"
    data = None if body is None else json.dumps(body).encode()
    try:
        with _OPENER.open(Request(url, data, headers), timeout=seconds) as answer:
            content = answer.read(MOST_BYTES + 1)
    except HTTPError as error:
        detail = _error_text(error)
        if key:
            detail = detail.replace(key, "***")
        refusal = f"HTTP {error.code}{f': {detail}' if detail else ''}"
        if error.code in (408, 409, 425, 429) or error.code >= 500:
            after = str(error.headers.get("Retry-After", ""))
            raise _Unavailable(refusal, float(after) if after.isdecimal() else 0.0) from None
        remedy = REMEDIES.get(error.code, "change what it names, or leave it out")
        raise ValueError(f"{url} refused the request ({refusal}): {remedy}") from None
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise _Absent(f"{type(reason).__name__}: {reason}".removesuffix(": ")) from None
    if len(content) > MOST_BYTES:
        raise ValueError(f"{url} answered with more than {MOST_BYTES:,} bytes: check --endpoint")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{url} did not answer with JSON: check --endpoint") from None
    if not isinstance(value, dict):
        raise ValueError(f"{url} answered with another JSON than an object: check --endpoint")
    return value


def _error_text(error: HTTPError) -> str:
    """What a server says with a refusal, in one line."""
    try:
        text = error.read(MOST_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException):
        return ""
    try:
        value = json.loads(text)
        inner = value.get("error", value)
        message = inner if isinstance(inner, str) else inner.get("message") or inner.get("detail")
        text = message if isinstance(message, str) else text
    except (ValueError, AttributeError, RecursionError):
        pass
    return plain(" ".join(text.split()))[:SHOWN_CHARACTERS]
