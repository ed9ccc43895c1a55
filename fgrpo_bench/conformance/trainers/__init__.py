"""How to call the estimators of other people's trainers; each module needs the package of its name.

A module has `load()`, which gives the Trainer that is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import getsourcelines, unwrap
from typing import Any

from fgrpo_bench.conformance.check import Estimator
from fgrpo_bench.conformance.vectors import Floats, Vectors

TRAINERS = {
    "verl": "verl==0.9.1",
    "trl": "trl==1.16.0",
    "openrlhf": "openrlhf==0.11.2",
    "skyrl": "skyrl==0.3.0",
}
"""By name: the version that the adapter was written for."""


@dataclass(frozen=True)
class Trainer:
    """An installed trainer."""

    title: str
    """With its version."""
    estimators: Sequence[Estimator]
    parts: Callable[[Floats], Sequence[Sequence[int]]]
    """Sends rewards [groups, N] through its filter and splits; what check_groups takes."""


def load_trainer(name: str) -> Trainer:
    """ValueError where it is not installed, or is another than the adapter knows."""
    try:
        trainer: Trainer = import_module(f"{__name__}.{name}").load()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"the estimators of {name} cannot be called ({error}): install {TRAINERS[name]} in "
            "this environment"
        ) from error
    return trainer


def place(function: Any, text: str) -> str:
    """Where the first line with this text is in a function's source, e.g.
    `verl/trainer/ppo/core_algos.py:326, compute_grpo_outcome_advantage`.

    AttributeError where it has none, as of a version that the adapter does not know.
    """
    function = unwrap(function)
    lines, first = getsourcelines(function)
    file = f"{function.__module__.replace('.', '/')}.py"
    for number, line in enumerate(lines, first):
        if text in line:
            return f"{file}:{number}, {function.__qualname__}"
    raise AttributeError(f"{function.__qualname__} in {file} has no line with {text!r}")


def by_mean(rewards: Sequence[float], above: Sequence[float]) -> list[list[int]]:
    """The groups that an estimator saw: rows whose baseline, reward less advantage, is the same."""
    groups: dict[float, list[int]] = {}
    for row, (reward, advantage) in enumerate(zip(rewards, above, strict=True)):
        groups.setdefault(round(reward - advantage, 3), []).append(row)
    return [*groups.values()]


def unique_settings(vectors: Vectors) -> tuple[dict[str, object], ...]:
    """Every setting of the parameters that a file has."""
    return tuple(dict(parameters) for parameters in vectors.settings())
