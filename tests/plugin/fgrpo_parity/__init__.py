"""A package that adds to every table: is the number of ones in a word of bits even?"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.engines.embedded.engine import ENGINE, EmbeddedTrain
from fgrpo_bench.engines.engine import Engine, Environment
from fgrpo_bench.specs import TaskSpec
from fgrpo_bench.specs.base import STRICT, Seed

__version__ = "0.3"


@dataclass(config=STRICT, frozen=True, kw_only=True)
class ParitySpec(TaskSpec):
    """The task's own fields."""

    name: Literal["parity"]
    seed: Seed
    n_bits: Annotated[int, Field(ge=3, le=16)]
    """Zeros and ones of a problem."""


class Parity:
    """Every word of n_bits zeros and ones; the last quarter in a random order is held out."""

    spec = ParitySpec
    vocabulary = "01:eo"
    response_length = 1

    def __init__(self, spec: ParitySpec) -> None:
        self.prompt_length = spec.n_bits + 1
        self._words = np.random.default_rng(spec.seed).permutation(2**spec.n_bits)
        self.n_heldout = len(self._words) // 4
        self.n_train = len(self._words) - self.n_heldout
        self._format = f"0{spec.n_bits}b"

    def train_problem(self, index: int) -> Problem:
        return self._problem(int(self._words[index]))

    def train_problems(self, indices: Sequence[int]) -> list[Problem]:
        return [self.train_problem(index) for index in indices]

    def heldout_problem(self, index: int) -> Problem:
        return self._problem(int(self._words[self.n_train + index]))

    def demonstration(self, index: int, rng: np.random.Generator) -> str:
        return self.train_problem(index).target

    def demonstrations(self, indices: Sequence[int], rng: np.random.Generator) -> list[str]:
        return [self.demonstration(index, rng) for index in indices]

    def _problem(self, number: int) -> Problem:
        word = format(number, self._format)
        return Problem(
            benchmark="parity",
            problem_id=word,
            prompt=f"{word}:",
            target="eo"[word.count("1") % 2],
            grader="parity",
        )


def grade(problem: Problem, response: str) -> Grade:
    """Right where the response is the one letter that is asked for."""
    is_right = response == problem.target
    return Grade(
        outcome="correct" if is_right else "incorrect", extracted=response[:1], reason="compared"
    )


def reversed_prompt(row: Any, prompt_key: str, answer_key: str) -> tuple[Any, Any]:
    """A layout: the prompt is read from its end."""
    return row[prompt_key][::-1], row[answer_key]


def centred(rewards: Any) -> Any:
    """An advantage: R - mu."""
    return rewards - rewards.mean(1, keepdim=True)


def plain(log_probs: Any, old: Any, advantages: Any, low: float, high: float) -> tuple[Any, Any]:
    """An objective: the gradient of the policy, without a ratio."""
    return -advantages * log_probs, old > old


@dataclass(config=STRICT, frozen=True, kw_only=True)
class ParityTrain(EmbeddedTrain):
    """A training run by the engine below."""

    engine: Literal["parity"]  # type: ignore[assignment]


TASKS = {"parity": Parity}
GRADERS = {"parity": (1, grade)}
BENCHMARKS = {
    "parity": {
        "name": "parity",
        "domain": "in-domain",
        "dataset": None,
        "n_problems": 8,
        "grader": "parity",
        "extra_graders": [],
        "prompt": None,
    }
}
LAYOUTS = {"reversed": reversed_prompt}
ADVANTAGES = {"centred": centred}
OBJECTIVES = {"plain": plain}
ENGINES = {
    "parity": Engine(
        name="parity",
        train=ParityTrain,
        program=ENGINE.program,
        environment=Environment(
            name="parity", interpreter=lambda _: sys.executable, target=lambda _: "setup"
        ),
        objectives=("clip",),
        advantages=("grpo",),
        identity=ENGINE.identity,
        version=1,
    )
}
