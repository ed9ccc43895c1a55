"""Verdicts of other programs, as the files of what they drew have them.

Grades of these names are stored by an import (evaluators.interchange) and never made: the number of
a draw decides, not its text. `verl` calls a score of 1 or more correct, `verl-from-0.5` one of 0.5
or more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from fgrpo_bench.core.problems import Grade, Problem

PROGRAMS = (
    *("columns", "completions", "evalchemy", "every-eval-ever", "inspect", "lighteval", "lm-eval"),
    *("nemo-rl", "nemo-skills", "qwen2.5-math", "skyrl", "trl", "verifiers", "verl"),
)
"""columns: of a file of no known program; completions: of one in our own format."""
USUAL = 1.0
"""The least score of a correct draw, unless another is declared."""
VERSION = 1
"""Raised when the same verdicts would be other grades."""
_SPELLED = re.compile(rf"({'|'.join(map(re.escape, PROGRAMS))})(?:-from-([0-9]+(?:\.[0-9]+)?))?")


def layer_name(program: str, threshold: float | None) -> str:
    """The name of a program's verdicts. threshold: the least score of a correct draw; None is
    USUAL. ValueError for one that is negative or no finite number.

    >>> layer_name("verl", None), layer_name("verl", 0.5)
    ('verl', 'verl-from-0.5')
    """
    if threshold in (None, USUAL):
        return program
    name = f"{program}-from-{threshold:g}"
    if not is_recorded(name):
        raise ValueError(f"--threshold {threshold:g}: give a number from 0 on, e.g. 0.5")
    return name


def is_recorded(grader: str) -> bool:
    """Whether a name is that of some program's verdicts."""
    return _SPELLED.fullmatch(grader) is not None


def entry(name: str) -> tuple[int, Callable[[Problem, str], Grade]] | None:
    """As fgrpo_bench.graders.GRADERS has them: version and grader; None for another name."""
    return (VERSION, grade) if is_recorded(name) else None


def grade(problem: Problem, response: str) -> Grade:
    """Of a text alone nothing is known."""
    return Grade(outcome="unscored", extracted=None, reason="the file has no verdict of it")
