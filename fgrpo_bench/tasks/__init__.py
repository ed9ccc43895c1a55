"""Tasks: generated problems with a split, demonstrations and a vocabulary.

To add one: a module with a class that has the members of `Task`, its spec beside it, and a line in
TASKS. The embedded engine needs prompts of one length and a bound on the response; everything else
is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np

from fgrpo_bench.core import registry
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.specs import TaskSpec
from fgrpo_bench.tasks.countdown import Countdown
from fgrpo_bench.tasks.maze import MazeTask


class Task(Protocol):
    """What the embedded engine and the evaluators ask of a task.

    One may have `in_words(problem)` too: what a problem asks, for the pages that show it.
    """

    spec: ClassVar[type[TaskSpec]]
    """The task's own fields, those that it is made from."""
    vocabulary: str
    """The characters of prompts and responses, one token each."""
    prompt_length: int
    """Characters of every prompt."""
    response_length: int
    """Most characters of a correct response."""
    n_train: int
    n_heldout: int

    def train_problem(self, index: int) -> Problem:
        """Training problem 0 .. n_train - 1."""

    def train_problems(self, indices: Sequence[int]) -> list[Problem]:
        """Training problems, which a task that makes them may make together."""

    def heldout_problem(self, index: int) -> Problem:
        """Held-out problem 0 .. n_heldout - 1; none is a training problem."""

    def demonstration(self, index: int, rng: np.random.Generator) -> str:
        """A correct response to a training problem, drawn at random."""

    def demonstrations(self, indices: Sequence[int], rng: np.random.Generator) -> list[str]:
        """A correct response to each of some training problems, drawn in their order."""


TASKS: dict[str, Any] = {"countdown": Countdown, "maze": MazeTask}
"""Classes that make a Task of their own spec."""


@lru_cache(maxsize=4)
def make_task(spec: TaskSpec) -> Task:
    """The task of a spec."""
    task: Task = registry.entry("tasks", spec.name)(spec)
    return task
