"""A grader of one's own: a function of a module that Python finds, by its name.

`mypkg.grade:grade` names it; it takes (response, answer), both text, and gives True or False, a
Grade, or a number from 0 to 1, of which `mypkg.grade:score@0.5` says from where on it is correct.
As a reward of training the same function may give any finite number.
It is imported and called in a process that can be killed (`function_worker`), never here. Its
version is a digest of the file that it stands in, so that an edited one grades anew.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.graders.worker import OfProcess, Workers, judges

SECONDS, WALL_SECONDS = 10.0, 60.0
"""Of processor and on the wall for a response: a function may be slow, and one that hangs ends."""
MEGABYTES = 8192
"""Address space of the process, with all that the module imports."""
LIFETIME = 20_000
"""Responses after which a process is replaced."""
SPELLED = re.compile(r"(?:(.+)::)?([A-Za-z_][\w.]*):([A-Za-z_]\w*)(?:@(-?\d*\.?\d+))?")
DIGITS = 8
"""Of the digest in a version."""
MOST_SAID = 20
"""Reasons why a reward did not judge, that a process prints."""
_said: set[str] = set()


def _rule(whose: str, numbers: str) -> str:
    return (
        f"{whose} of your own takes (response, answer) and returns True or False, {numbers} (then "
        "write module:function@0.5, from which on it is correct), or a Grade"
    )


RULE = _rule("a grader", "a number from 0 to 1")
REWARD_RULE = _rule("a reward", "any finite number")


@dataclass(frozen=True, kw_only=True)
class Named:
    """What the name of such a grader says."""

    module: str
    function: str
    threshold: float | None
    """From which number on a response is correct; None: it gives no numbers."""
    folder: Path
    """Where the module is found."""
    file: Path


def named(name: str) -> Named:
    """ValueError where it is not spelled `module:function`, or no such file is found; one of
    `located` is looked for in its folder alone."""
    spelled = SPELLED.fullmatch(name)
    if spelled is None:
        raise ValueError(f"{name!r} names no function: write module:function; {RULE}")
    placed, module, function, threshold = spelled.groups()
    folders = [Path.cwd(), *map(Path, sys.path)] if placed is None else [Path(placed)]
    for folder in dict.fromkeys(folders):
        place = folder.joinpath(*module.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return Named(
                    module=module,
                    function=function,
                    threshold=None if threshold is None else float(threshold),
                    folder=folder,
                    file=file,
                )
    raise ValueError(
        f"{name!r}: there is no {module.replace('.', '/')}.py "
        + (f"in {placed} any more: put it back" if placed else f"here ({Path.cwd()}) nor where "
           "Python looks for modules: go to the folder that it is in, or install it")
    )  # fmt: skip


def located(name: str) -> str:
    """The name with the folder that its module was found in, for processes that start elsewhere."""
    return f"{named(name).folder}::{name}"


def entry(name: str) -> tuple[str, Callable[[Problem, str], Grade]] | None:
    """As fgrpo_bench.graders.GRADERS has them: version and grader; None for the name of no
    function."""
    if ":" not in name:
        return None
    digest = hashlib.sha256(named(name).file.read_bytes()).hexdigest()
    return digest[:DIGITS], partial(grade, name)


def grade(name: str, problem: Problem, response: str, *, is_reward: bool = False) -> Grade:
    """What the function says of a response; unscored, with the reason, where it says nothing.

    is_reward: its numbers may be any finite ones, else they are from 0 to 1.
    """
    function = named(name)
    request = {
        "module": function.module,
        "function": function.function,
        "threshold": function.threshold,
        "folder": str(function.folder),
        "changed": function.file.stat().st_mtime_ns,
        "response": response,
        "answer": problem.target,
    }
    reply = _processes().ask(request, WALL_SECONDS)
    number = reply.get("number")
    if number is not None and not is_reward and not 0 <= number <= 1:
        return Grade(outcome="unscored", extracted=None, reason=reply["reason"])
    return Grade(
        outcome=reply.get("outcome", "unscored"),
        extracted=reply.get("extracted"),
        reason=reply["reason"],
        reward=reply.get("reward", number),
    )


def reward(name: str, problem: Problem, response: str) -> Grade:
    """The same as a reward; what it does not judge is printed the first times, for the log."""
    judged = grade(name, problem, response, is_reward=True)
    if judged.outcome == "unscored" and len(_said) < MOST_SAID and judged.reason not in _said:
        _said.add(judged.reason)
        print(f"{name} did not judge a response to {problem.problem_id}: {judged.reason}")
    return judged


def check(name: str, problem: Problem, *, is_reward: bool = False) -> None:
    """ValueError where the function says nothing of a problem's own answer as a response."""
    tried = grade(name, problem, problem.target, is_reward=is_reward)
    if tried.outcome == "unscored":
        option = f"experiment.train.reward={name}" if is_reward else f"--grader {name}"
        raise ValueError(
            f"{option}, called with the answer of {problem.problem_id} as the response: "
            f"{tried.reason}; {REWARD_RULE if is_reward else RULE}"
        )


_processes = OfProcess(
    lambda: Workers(
        judges(1),
        seconds=SECONDS,
        megabytes=MEGABYTES,
        lifetime=LIFETIME,
        module="fgrpo_bench.graders.function_worker",
    )
)
"""The processes that call functions for this one."""
