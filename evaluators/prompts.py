"""From a problem to the token ids that a model reads, alike in every back end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrpo_bench.records import Problem
from fgrpo_bench.specs import BenchmarkPrompt, EvalSpec, PromptSpec, TaskSpec, from_dict
from fgrpo_bench.tasks import make_task

Encode = Callable[[Problem], list[int]]
"""From a problem to token ids."""


def limits(settings: dict[str, Any]) -> tuple[int, int]:
    """Most tokens of a prompt and of a response, the end token included.

    settings: fgrpo_bench.specs.fingerprint.evaluation_identity.
    """
    if settings["response_tokens"] is not None:
        return settings["prompt_tokens"], settings["response_tokens"]
    task = make_task(from_dict(TaskSpec, settings["task"]))
    return task.prompt_length, task.response_length + 1


def encoder(tokenizer: Any, evaluation: EvalSpec, settings: dict[str, Any]) -> Encode:
    """From a problem to token ids, each problem once; ValueError, which shows no problem's text,
    for one that is too long."""
    limit, _ = limits(settings)
    known: dict[tuple[str, str], list[int]] = {}

    def encode(problem: Problem) -> list[int]:
        key = problem.benchmark, problem.problem_id
        if key not in known:
            known[key] = checked(problem)
        return known[key]

    def checked(problem: Problem) -> list[int]:
        own = evaluation.prompt_of(problem.benchmark)  # else it has the one of all
        spec = own or from_dict(PromptSpec, settings["prompt"])
        ids = encoded(tokenizer, spec, problem.prompt)
        if len(ids) > limit:
            raise ValueError(
                f"the prompt of problem {problem.problem_id} has {len(ids)} tokens, more than "
                f"prompt_tokens={limit}: raise prompt_tokens (under a sweep "
                "experiment.train.prompt_tokens)"
            )
        return ids

    return encode


def encoded(tokenizer: Any, spec: PromptSpec, text: str) -> list[int]:
    """Token ids of a text as a prompt."""
    if not spec.chat_template:
        return list(tokenizer(text)["input_ids"])
    system = [] if spec.system is None else [{"role": "system", "content": spec.system}]
    thinking = spec.thinking if isinstance(spec, BenchmarkPrompt) else None
    ids = tokenizer.apply_chat_template(
        [*system, {"role": "user", "content": text}],
        add_generation_prompt=True,
        return_dict=False,
        **({} if thinking is None else {"enable_thinking": thinking}),
    )
    return list(ids)
