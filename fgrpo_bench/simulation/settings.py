"""What is simulated: the paper's categorical policy (app. J) and one run of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal, get_args

from fgrpo_bench.specs.base import MOST

Rule = Literal["adam", "literal"]
"""adam: Adam on the ratio surrogate (1/N) sum_j r_j p_j / sg(p_j). literal: plain gradient ascent
on (1/N) sum_j r_j p_j."""
RULES: tuple[Rule, ...] = get_args(Rule)
RECIPE_VERSION = 1
"""Raised when the same settings come to mean another simulation."""
GROUP_SIZES = tuple(2**power for power in range(1, 18))
GAMMAS = (0.0, 1.0)
SEEDS = (0, 1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The policy and its training, the same in all runs; values are the paper's."""

    n_actions: int = 128_000
    n_correct: int = 10_000
    """Right actions, with reward +1; all others have -1."""
    anchor_logit: float = 5.0
    """First logit of one right action."""
    correct_logit: float = 3.0
    """Of the other right actions."""
    wrong_logit: float = 0.0
    steps: int = 1_000
    learning_rate: float = 1e-2
    beta1: float = 0.9
    """Of Adam, likewise beta2 and epsilon: the values that torch gives."""
    beta2: float = 0.999
    epsilon: float = 1e-8
    every: int = 10
    """Steps between measurements."""

    def __post_init__(self) -> None:
        if not 2 <= self.n_correct < self.n_actions:
            raise ValueError(
                f"n_correct={self.n_correct}, n_actions={self.n_actions}: at least 2 actions must "
                "be right and one wrong"
            )
        if self.steps < 1 or self.every < 1 or self.steps % self.every:
            raise ValueError(
                f"steps={self.steps}, every={self.every}: both at least 1, and steps a multiple of "
                "every"
            )


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: a cell with a seed."""

    rule: Rule
    group_size: int
    focal_gamma: float
    seed: int

    def __post_init__(self) -> None:
        in_bounds = 2 <= self.group_size <= MOST and 0 <= self.seed < 2**32
        if not in_bounds or not 0 <= self.focal_gamma <= 100:  # nan is not either
            raise ValueError(
                f"group_size={self.group_size}, focal_gamma={self.focal_gamma}, seed={self.seed}: "
                f"a group has 2 to {MOST:,} draws, gamma is from 0 to 100 and a seed from 0 to "
                f"{2**32 - 1}"
            )
        object.__setattr__(self, "focal_gamma", self.focal_gamma + 0.0)  # -0.0 is 0.0

    @property
    def point_id(self) -> str:
        """e.g. `adam-n1024-g1-s0`."""
        return f"{self.rule}-n{self.group_size}-g{self.focal_gamma:g}-s{self.seed}"

    def cost(self, settings: Settings) -> float:
        """Processor seconds, measured once on a common server processor; sets the order."""
        dense = 1e-3 if self.rule == "literal" else 1e-4
        return settings.steps * (dense + 4e-8 * self.group_size)


def identity(settings: Settings, run: Run) -> dict[str, Any]:
    """What defines a run's result."""
    return {"recipe_version": RECIPE_VERSION, "settings": asdict(settings), "run": asdict(run)}


def grid(
    rule: Rule | None,
    *,
    group_sizes: Sequence[int] = GROUP_SIZES,
    gammas: Sequence[float] = GAMMAS,
    seeds: Sequence[int] = SEEDS,
) -> tuple[Run, ...]:
    """Every run of a rule. None is Adam's, and the literal rule's at the first gamma and seed,
    which show that it moves nothing."""
    if rule is None:
        literally = grid("literal", group_sizes=group_sizes, gammas=gammas[:1], seeds=seeds[:1])
        own = grid("adam", group_sizes=group_sizes, gammas=gammas, seeds=seeds)
        return (*own, *literally)
    cells = product(dict.fromkeys(group_sizes), dict.fromkeys(gammas), dict.fromkeys(seeds))
    return tuple(
        Run(rule=rule, group_size=size, focal_gamma=gamma, seed=seed) for size, gamma, seed in cells
    )
