"""A package that adds to every table: is the number of ones in a word of bits even?"""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.engines.embedded.engine import ENGINE, EmbeddedTrain
from fgrpo_bench.engines.engine import Engine, Environment
from fgrpo_bench.specs import TaskSpec
from fgrpo_bench.specs.base import STRICT, Seed
from fgrpo_bench.tasks import Task

__version__ = "0.3"


@dataclass(config=STRICT, frozen=True, kw_only=True)
class ParitySpec(TaskSpec):
    """The task's own fields."""

    name: Literal["parity"]
    seed: Seed
    n_bits: Annotated[int, Field(ge=3, le=16)]
    """Zeros and ones of a problem."""


class Parity(Task):
    """Every number of n_bits, without zeros before it, so that prompts differ in length; the last
    quarter in a random order is held out. An odd number of ones is an answer of two letters."""

    spec = ParitySpec

    def __init__(self, spec: ParitySpec) -> None:
        self._numbers = np.random.default_rng(spec.seed).permutation(2**spec.n_bits)
        self.n_heldout = len(self._numbers) // 4
        self.n_train = len(self._numbers) - self.n_heldout

    def problem(self, index: int) -> Problem:
        word = format(int(self._numbers[index]), "b")
        return Problem(
            benchmark="parity",
            problem_id=word,
            prompt=f"{word}→",
            target=["e", "öd"][word.count("1") % 2],
            grader="parity",
        )

    def demonstration(self, index: int, rng: np.random.Generator) -> str:
        return self.problem(index).target


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
