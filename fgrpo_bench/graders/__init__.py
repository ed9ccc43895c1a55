"""Graders: pure functions from a problem and a response to a judgement.

A grader never raises for any text, never runs any of it, takes time linear in its length, and says
`unscored` where it cannot tell. To add one: a module with a function
`grade(problem, response) -> Grade`, a line with its version in GRADERS (as PartialCredit where its
grades have rewards), and the texts that would hurt it most in tests/graders/test_linear_time.py. A
version is raised with any change of judgement.

A file for each grader, and one for what several share: what may hang runs in a process of its own
(worker, judge, judge_worker, judge_comparisons, ifeval_worker), answers in mathematics are read and
rewritten before they are compared (math_notation, math_reading), and letters are read
(choice_reading).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from fgrpo_bench.core import registry
from fgrpo_bench.core.problems import Grade, Problem, earned_by
from fgrpo_bench.graders import (
    choice,
    countdown,
    function,
    ifeval,
    math,
    math_tolerance,
    maze,
    synlogic,
)

Grader = Callable[[Problem, str], Grade]


@dataclass(frozen=True)
class PartialCredit:
    """A grader whose rewards are not 0 and 1 alone, which some advantages refuse."""

    grade: Grader

    def __call__(self, problem: Problem, response: str) -> Grade:
        """Its grade."""
        return self.grade(problem, response)


GRADERS: dict[str, tuple[int, Grader]] = {
    "choice": (4, choice.grade),
    "choice-strict": (1, choice.grade_strict),
    "countdown": (1, countdown.grade),
    "countdown-partial": (1, PartialCredit(countdown.grade_partial)),
    "ifeval": (2, ifeval.grade),
    "math": (5, math.grade),
    "math-strict": (2, math.grade_strict),
    "math-tolerance": (5, math_tolerance.grade),
    "math-tolerance-strict": (2, math_tolerance.grade_strict),
    "maze": (1, maze.grade),
    "maze-reached": (1, maze.grade_reached),
    "synlogic": (1, synlogic.grade),
}
STRICT: dict[str, str] = {
    "choice": "choice-strict",
    "math": "math-strict",
    "math-tolerance": "math-tolerance-strict",
}
"""By grader: the one that takes a stated answer alone (a box, a tag, "the answer is"), and calls a
response that was cut off before it incorrect."""
BOXED = frozenset({"math", "math-strict", "math-tolerance", "math-tolerance-strict"})
"""Graders that look for a box."""
BOX_SUFFIX = "\n\nPut your final answer within \\boxed{}."
"""What a model without a chat template is asked for, by which they find the answer."""
BOX_SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."
"""The same as a system message, as conf/prompt/boxed.yaml has it."""
CHOICE = frozenset({"choice", "choice-strict"})
"""Graders of problems with options, of which one can be guessed."""
WAITING = BOXED | {"ifeval"}
"""Graders that wait for a process of their own: an event loop asks them in a thread. The others
answer within milliseconds."""


SOLUTIONS: dict[str, Callable[[str], str]] = {
    "countdown": countdown.solution,
    "countdown-partial": countdown.solution,
    "maze": str,
    "maze-reached": str,
}
"""By grader whose problems have several right answers: from the extracted one, e.g. an expression
or a walk, to the solution that it is. Under all other graders right answers equal the gold, and are
one solution."""


def solution_key(grader: str, grade: Grade) -> str | None:
    """Which solution a right answer is; None for any other answer, and where a grader's right
    answers are all one. grader: a key of GRADERS, or a function of somebody's, which has none."""
    if grade.outcome != "correct" or grader not in SOLUTIONS:
        return None
    return SOLUTIONS[grader](grade.extracted or "")


def reward_of(grader: str) -> Callable[[str, str], float] | None:
    """From outcome and reason of a stored grade to its reward, of which best@k is the best: what it
    earns in training, of IFEval the share of instructions that are followed. None of a grader that
    says right or wrong alone; a name in no table is of somebody's function or of another program,
    or unknown, and grades tell."""
    if grader == "ifeval":
        return ifeval.share_followed
    known = registry.table("graders").get(grader)
    return earned_by if known is None or isinstance(known[1], PartialCredit) else None


def waits(name: str) -> bool:
    """Whether a grader is one of WAITING, or a function of somebody's, which is too."""
    return name in WAITING or ":" in name


def get_grader(name: str) -> Grader:
    """The grading function; ValueError that lists the valid names."""
    grade: Grader = registry.entry("graders", name)[1]
    return grade


def get_reward(name: str) -> Grader:
    """The same as a reward of training: numbers of somebody's function may be any finite ones."""
    return partial(function.reward, name) if ":" in name else get_grader(name)


def is_partial(name: str) -> bool:
    """Whether rewards are not 0 and 1 alone: PartialCredit, and a function that gives numbers."""
    return "@" in name or isinstance(get_grader(name), PartialCredit)


def grader_version(name: str) -> str:
    """e.g. `countdown-1`, or `parity-1+package-0.3` where a package brings it; part of every stored
    grade's file name."""
    version, brought = registry.entry("graders", name)[0], registry.origin("graders", name)
    return f"{name}-{version}" + ("+{package}-{version}".format(**brought) if brought else "")


def split_version(version: str) -> tuple[str, int]:
    """The grader and the number of what `grader_version` gave; another text with 0.

    >>> split_version("parity-strict-2+package-0.3")
    ('parity-strict', 2)
    """
    spelled = re.fullmatch(r"([^+]+)-(\d+)(?:\+.*)?", version)
    return (spelled[1], int(spelled[2])) if spelled else (version, 0)
