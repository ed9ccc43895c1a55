"""What a run is made of: problems, grades and the outcome of a stage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["correct", "incorrect", "unscored"]
BY_PLACE = ", by its place alone"
"""How the reason of a grade ends whose answer was found by nothing but its place in the text: it
stands in no box and no tag, and nothing there calls it the answer."""
_REWARD = re.compile(r"(?:scored|it returned) (-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?:; .*)?", re.DOTALL)
"""How the reason of a stored grade begins that earned something else than 1 or 0."""


def earned_by(outcome: str, reason: str) -> float:
    """What a stored grade earned, whose table has no column for it; 0 where it is unscored.

    >>> earned_by("incorrect", "scored 0.1; value is 23"), earned_by("correct", "it is the target")
    (0.1, 1.0)
    """
    said = None if outcome == "unscored" else _REWARD.fullmatch(reason)
    return float(outcome == "correct") if said is None else float(said[1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem of a benchmark, e.g.
    Problem(benchmark="countdown", problem_id="3256-24", prompt="3256=24:", target="3256=24",
    grader="countdown", cluster="2356")."""

    benchmark: str
    problem_id: str
    """Stable and readable; unique within the benchmark."""
    prompt: str
    """What the model sees, before any chat template."""
    target: str
    """What the grader needs to judge a response; no prompt text."""
    grader: str
    """A key of fgrpo_bench.graders.GRADERS."""
    cluster: str | None = None
    """What it shares with other problems of its benchmark, e.g. a passage, or countdown's digits;
    None: nothing. Estimates may follow it; no prompt, seed or draw does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """A judgement, and what it earns. Unscored is not incorrect: the grader could not tell."""

    outcome: Outcome
    extracted: str | None
    """The answer that was judged; None where there was none to find."""
    reason: str
    """Why, in a few words for a person."""
    reward: float | None = None
    """Any finite number: partial credit, format, length. None: 1 where it is correct, else 0."""

    @property
    def earned(self) -> float:
        """The reward that advantages learn from; pass@k and success rates ask for the outcome."""
        return float(self.outcome == "correct") if self.reward is None else self.reward

    @property
    def stored_reason(self) -> str:
        """The reason, before it the reward where `earned_by` would tell another."""
        is_told = earned_by(self.outcome, self.reason) == self.earned
        if is_told or self.outcome == "unscored":
            return self.reason
        return f"scored {self.earned!r}; {self.reason}"
