"""What a task is: five members that one writes, and what follows from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.specs import TaskSpec

MOST_READ = 20_000
"""Problems of a task that are all read for what it does not say itself, which takes a second."""


class Task(ABC):
    """Generated problems with a split and demonstrations; it is made of its spec.

    Prompts and responses may be of any lengths and characters. The five members up to
    `demonstration` are a task's own; each of the others has a default.
    """

    spec: ClassVar[type[TaskSpec]]
    """The class of its own fields, e.g. SumsSpec; an object of it is what __init__ takes."""
    n_train: int
    """Training problems, e.g. 353."""
    n_heldout: int
    """Problems that training never sees, e.g. 88."""

    @abstractmethod
    def problem(self, index: int) -> Problem:
        """Training problem 0 .. n_train - 1, and behind these the held-out ones; none is there
        twice. E.g. problem(7) has prompt="12+9=", target="21" and grader="sums"."""

    @abstractmethod
    def demonstration(self, index: int, rng: np.random.Generator) -> str:
        """A correct response to a training problem, of several one at random, e.g. "21"."""

    # What is worth writing where a task can do it faster: many at once.

    def problems(self, indices: Sequence[int]) -> list[Problem]:
        """Problems, e.g. problems([7, 3])."""
        return [self.problem(index) for index in indices]

    def demonstrations(self, indices: Sequence[int], rng: np.random.Generator) -> list[str]:
        """A correct response to each of some training problems, drawn in their order."""
        return [self.demonstration(index, rng) for index in indices]

    # What is worth writing where a task has many problems, or would have it otherwise.

    @cached_property
    def vocabulary(self) -> str:
        """The characters of prompts and responses, a token each, e.g. "0123456789+="; ValueError,
        as of the two below, where there are too many problems to read."""
        return "".join(sorted(set("".join([*self._texts[0], *self._texts[1]]))))

    @cached_property
    def prompt_length(self) -> int:
        """Characters of the longest prompt, e.g. 6."""
        return max(map(len, self._texts[0]))

    @cached_property
    def response_length(self) -> int:
        """Characters of the longest correct response, e.g. 2; by default of the longest of one
        demonstration a training problem."""
        return max(map(len, self._texts[1]))

    @staticmethod
    def in_words(problem: Problem) -> str:
        """What a problem asks, for pages that show it, e.g. "add 12 and 9"."""
        return problem.prompt

    @staticmethod
    def target_in_words(problem: Problem) -> str:
        """What is right, for pages that show it, e.g. "21"."""
        return problem.target

    # What nobody writes.

    def heldout_problems(self, count: int) -> list[Problem]:
        """The first of those that training never sees."""
        return self.problems(range(self.n_train, self.n_train + count))

    @cached_property
    def _texts(self) -> tuple[list[str], list[str]]:
        """Every prompt, and a demonstration of every training problem."""
        n = self.n_train + self.n_heldout
        if n > MOST_READ:
            raise ValueError(
                f"{type(self).__name__} has {n:,} problems, and at most {MOST_READ:,} are read for "
                "their characters and lengths: give it vocabulary, prompt_length and "
                "response_length"
            )
        shown = self.demonstrations(range(self.n_train), np.random.default_rng(0))
        return [problem.prompt for problem in self.problems(range(n))], shown
