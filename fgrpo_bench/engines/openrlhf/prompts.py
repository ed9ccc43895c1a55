"""The prompt files of a run, written before OpenRLHF starts.

Which prompts: those that fit prompt_tokens, in an order that follows from the training seed, as
many as the epochs can hold. The order in which they are trained on is that of `epochs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data import dataset_problems
from fgrpo_bench.data.chat import chat_tokens
from fgrpo_bench.engines.openrlhf.arguments import batches, openrlhf_train
from fgrpo_bench.engines.openrlhf.labels import LABEL, PROMPT, make_label
from fgrpo_bench.files.whole import write_text
from fgrpo_bench.specs import PromptSpec, SweepPoint
from fgrpo_bench.tasks import make_task

Length = Callable[[Any], int]
"""Tokens of a prompt as the model reads it."""
PROBLEMS_AT_ONCE = 256
"""Problems that a task makes together: a run of few steps needs few of its many."""


def training_problems(point: SweepPoint, data: Path | None, length: Length) -> list[Problem]:
    """The problems that the epochs choose from; ValueError where they fill none.

    data: the stage that fetched the dataset; None for a generated task.
    """
    train, sizes = openrlhf_train(point), batches(point)
    n_prompts, most = sizes.prompts_per_epoch, sizes.prompts_per_epoch * train.epochs
    if train.dataset is not None:
        assert data is not None
        every = dataset_problems(data, train.dataset, n_problems=None)
        n_problems = len(every)
    else:
        assert train.task is not None
        task = make_task(train.task)
        n_problems = task.n_train
    # A stream of its own: cells of one training seed have the same order of prompts.
    order = np.random.default_rng([point.seed, 2]).permutation(n_problems).tolist()
    chosen: list[Problem] = []
    too_long = 0
    for start in range(0, n_problems, PROBLEMS_AT_ONCE):
        numbers = order[start : start + PROBLEMS_AT_ONCE]
        block = [every[i] for i in numbers] if train.dataset else task.problems(numbers)
        fits = [p for p in block if length(messages(p.prompt, train.prompt)) <= train.prompt_tokens]
        # Counted for the message below: what is too long is left out, never cut.
        too_long += len(block) - len(fits)
        chosen += fits
        if len(chosen) >= most:
            break
    if len(chosen) >= n_prompts:
        return chosen[:most]
    raise ValueError(
        f"an epoch of {point.point_id} has {n_prompts} prompts (prompts per step x steps / "
        f"epochs), but of {n_problems} there are only {len(chosen)} with at most prompt_tokens="
        f"{train.prompt_tokens} ({too_long} are longer): raise epochs, lower steps or the prompts "
        "per step"
    )


def evaluation_problems(point: SweepPoint, data: Path | None, length: Length) -> list[Problem]:
    """The problems of the evaluation during training; empty where there is none.

    data: the stage that fetched eval_dataset; None for a generated task, whose held-out problems
    are taken. ValueError for a prompt of more than prompt_tokens.
    """
    train = openrlhf_train(point)
    if not train.eval_every:
        return []
    if train.task is not None:
        task = make_task(train.task)
        return task.heldout_problems(min(train.eval_n_problems, task.n_heldout))
    assert train.eval_dataset is not None and data is not None
    problems = dataset_problems(data, train.eval_dataset, n_problems=train.eval_n_problems)
    for problem in problems:
        tokens = length(messages(problem.prompt, train.prompt))
        if tokens > train.prompt_tokens:
            raise ValueError(
                f"{problem.problem_id} of eval_dataset {train.eval_dataset.name} has {tokens} "
                f"tokens, more than prompt_tokens={train.prompt_tokens}: raise prompt_tokens, take "
                "fewer problems (eval_n_problems), or set eval_every=0"
            )
    return problems


def messages(prompt: str, spec: PromptSpec) -> str | list[dict[str, str]]:
    """A prompt as the prompt file holds it: text, or the messages of a chat."""
    prompt = spec.text(prompt)
    if not spec.chat_template:
        return prompt
    system = [] if spec.system is None else [{"role": "system", "content": spec.system}]
    return [*system, {"role": "user", "content": prompt}]


def write_prompts(path: Path, problems: list[Problem], spec: PromptSpec, tokenizer: Any) -> None:
    """One JSON line a problem, as fgrpo_bench.engines.openrlhf.labels describes it.

    ValueError where the tokenizer adds to a plain prompt what OpenRLHF cannot be given.
    """
    beginning = bos_text(tokenizer, spec)
    rows = (
        {PROMPT: messages(beginning + problem.prompt, spec), LABEL: make_label(problem)}
        for problem in problems
    )
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def base_tokenizer(base: Path, spec: PromptSpec, *, trust_remote_code: bool = False) -> Any:
    """The base model's tokenizer; ValueError where it has none, or lacks the chat template."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(base, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{base} has no tokenizer that transformers can load ({str(error).splitlines()[0]}): "
            "put the tokenizer's files beside the weights"
        ) from error
    if spec.chat_template and tokenizer.chat_template is None:
        raise ValueError(
            f"the tokenizer of {base} has no chat template: set "
            "experiment.train.prompt.chat_template=false, or add a chat_template.jinja to the model"
        )
    return tokenizer


def token_counter(tokenizer: Any, spec: PromptSpec) -> Length:
    """Counts the tokens of a prompt, those that the tokenizer adds included."""
    if not spec.chat_template:
        return lambda prompt: len(tokenizer(prompt)["input_ids"])
    return lambda prompt: len(chat_tokens(tokenizer, prompt))


def bos_text(tokenizer: Any, spec: PromptSpec) -> str:
    """The bos_token where the tokenizer puts it before a plain text, else nothing.

    OpenRLHF reads prompts without the special tokens that a tokenizer adds, an evaluation with
    them; a chat template writes its own. ValueError where the tokenizer adds others.
    """
    if spec.chat_template:
        return ""
    text, bos = "1", tokenizer.bos_token or ""
    read = tokenizer(text)["input_ids"]
    for beginning in ("", bos):
        if tokenizer(beginning + text, add_special_tokens=False)["input_ids"] == read:
            return beginning
    raise ValueError(
        f"the tokenizer of {tokenizer.name_or_path} reads {text!r} as "
        f"{tokenizer.convert_ids_to_tokens(read)}, which is more than its bos_token ({bos!r}) "
        "before the text: OpenRLHF cannot be made to read a plain prompt so; change what the "
        "tokenizer adds, or set experiment.train.prompt.chat_template=true"
    )
