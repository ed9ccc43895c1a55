"""Instruction following (IFEval): does a response do all that its prompt asks for?

The checkers are lm-eval's, or say the same in time linear in the text. They run in a process that
can be killed (`ifeval_worker`): a response that takes more processor time or memory than the limit,
or makes a checker fail, is unscored. What is checked is the text after the last `</think>`.

Strict: the response follows an instruction as it is. Loose: it does, or one of seven variants
without its first line, last line or asterisks. The outcome of a grade is strict at prompt level,
all instructions at once; the other numbers stand in its reason and come from `judge_instructions`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from fgrpo_bench.core.problems import Grade, Problem, earned_by
from fgrpo_bench.graders.math import after_thoughts
from fgrpo_bench.graders.worker import OfProcess, Workers, judges

SECONDS = 5.0
"""Processor seconds for all instructions of a response, strict and loose."""
WALL_SECONDS = 60.0
"""Wall seconds; only a stopped or starved process ever gets there."""
MEGABYTES = 4096
"""Address space of a process that checks."""
LIFETIME = 20_000
"""Responses after which a process is replaced."""


COUNTS = re.compile(r"(\d+) of (\d+) strict, (\d+) loose")
"""A reason: instructions followed strictly, of how many, and followed loosely."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Followed:
    """Which instructions of a prompt a response follows, in their order."""

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]
    failure: str | None
    """Why it could not be told; both tuples are empty then. None where it could."""


def share_followed(outcome: str, reason: str) -> float:
    """Of the instructions of a prompt, those that a response with such a grade follows strictly.

    >>> share_followed("incorrect", "1 of 2 strict, 2 loose")
    0.5
    """
    counts = COUNTS.fullmatch(reason)
    if counts is None or not int(counts[2]):
        return earned_by(outcome, reason)
    return int(counts[1]) / int(counts[2])


def grade(problem: Problem, response: str) -> Grade:
    """Correct where the response follows every instruction as it is.

    problem.target: JSON with `instruction_id_list` and `kwargs`. Raises RuntimeError where lm-eval
    or NLTK's data is missing or of another version.
    """
    judged = judge_instructions(problem, response)
    if judged.failure is not None:
        return Grade(outcome="unscored", extracted=None, reason=judged.failure)
    counts = f"{sum(judged.strict)} of {len(judged.strict)} strict, {sum(judged.loose)} loose"
    return Grade(
        outcome="correct" if all(judged.strict) else "incorrect", extracted=None, reason=counts
    )


def judge_instructions(problem: Problem, response: str) -> Followed:
    """Which instructions a response follows, strictly and loosely; problem and errors as `grade`.

    Instruction-level scores are means over all instructions of all prompts, prompt-level ones over
    prompts whose instructions are all followed.
    """
    try:
        instructions = json.loads(problem.target)
        instructions = {key: instructions[key] for key in ("instruction_id_list", "kwargs")}
    except (ValueError, KeyError, TypeError):
        return Followed(strict=(), loose=(), failure="the gold is no list of instructions")
    request = instructions | {"prompt": problem.prompt, "response": after_thoughts(response)}
    reply = _checkers().ask(request, WALL_SECONDS)
    if "strict" not in reply:
        return Followed(strict=(), loose=(), failure=reply["reason"])
    return Followed(strict=tuple(reply["strict"]), loose=tuple(reply["loose"]), failure=None)


_checkers = OfProcess(
    lambda: Workers(
        judges(1),
        seconds=SECONDS,
        megabytes=MEGABYTES,
        lifetime=LIFETIME,
        module="fgrpo_bench.graders.ifeval_worker",
    )
)
"""The processes that check for this one."""
