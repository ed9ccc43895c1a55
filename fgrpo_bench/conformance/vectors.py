"""The vectors of an advantage: groups of rewards and their exact advantages, one JSON file each.

The schema is in docs/reference/conformance.md. Reading them needs Python and NumPy alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FOLDER = Path(__file__).parent / "vectors"
WHOLE = 6
"""The largest group size whose orders are all tried; of larger groups a few."""


@dataclass(frozen=True)
class Case:
    """The groups of one size under one setting of the parameters."""

    parameters: Mapping[str, Any]
    group_size: int
    rewards: tuple[tuple[Fraction, ...], ...]
    """By group, [groups][N], in the file's order."""
    advantages: Floats
    """[groups, N]."""
    weights: Floats
    """Expected weight at each of the file's success rates."""

    def in_every_order(self, *, binary: bool = False) -> tuple[Floats, Floats]:
        """Rewards and advantages, [groups, N], each group in all of its orders up to `WHOLE`
        rollouts, in four orders beyond. binary: only the groups of 0 and 1."""
        rows: list[Any] = []
        for rewards, values in zip(self.rewards, self.advantages.tolist(), strict=True):
            if binary and not set(rewards) <= {0, 1}:
                continue
            pairs = [*zip(map(float, rewards), values, strict=True)]
            rows += sorted(set(permutations(pairs))) if len(pairs) <= WHOLE else _orders(pairs)
        both = np.array(rows)
        return both[..., 0], both[..., 1]


def _orders(pairs: Sequence[Any]) -> list[Any]:
    """A group as it is, reversed, rotated by a third, and its second half first, alternating."""
    n = len(pairs)
    shuffled = [pairs[i * 5 % n] if n % 5 else pairs[i] for i in range(n)]
    return [pairs, pairs[::-1], [*pairs[n // 3 :], *pairs[: n // 3]], shuffled]


@dataclass(frozen=True)
class Vectors:
    """One file."""

    advantage: str
    equation: str
    paper: str
    divisor: str | None
    """What of a group's rewards the formula divides by, beside which others may have an epsilon;
    None for one that divides by nothing of them."""
    success_rates: tuple[float, ...]
    cases: tuple[Case, ...]

    def cases_with(self, parameters: Mapping[str, Any]) -> list[Case]:
        """The cases with these parameters; ValueError that lists those of the file."""
        cases = [case for case in self.cases if case.parameters == dict(parameters)]
        if not cases:
            choices = {written(case.parameters) for case in self.cases}
            raise ValueError(
                f"{self.advantage} with {written(parameters)}: the vectors have "
                f"{'; '.join(sorted(choices))}"
            )
        return cases

    def settings(self) -> list[Mapping[str, Any]]:
        """The parameters of the file, each setting once."""
        return [*{written(case.parameters): case.parameters for case in self.cases}.values()]


def written(parameters: Mapping[str, Any]) -> str:
    """e.g. `k=2,baseline=sloo`."""
    return ",".join(f"{n}={value}" for n, value in parameters.items()) or "no parameters"


def names() -> list[str]:
    """The advantages that have vectors."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def read_vectors(advantage: str) -> Vectors:
    """ValueError for an advantage without vectors."""
    if advantage not in names():
        raise ValueError(f"no vectors of {advantage!r}: there are those of {', '.join(names())}")
    content = json.loads((FOLDER / f"{advantage}.json").read_text(encoding="utf-8"))
    return Vectors(
        advantage=content["advantage"],
        equation=content["equation"],
        paper=content["paper"],
        divisor=content["convention"]["divisor"],
        success_rates=tuple(content["success_rates"]),
        cases=tuple(map(_case, content["cases"])),
    )


def _case(stored: Mapping[str, Any]) -> Case:
    groups = stored["groups"]
    return Case(
        parameters=stored["parameters"],
        group_size=stored["group_size"],
        rewards=tuple(tuple(map(Fraction, group["rewards"])) for group in groups),
        advantages=np.array([group["float"] for group in groups], dtype=float),
        weights=np.array(stored["expected_weight"], dtype=float),
    )
