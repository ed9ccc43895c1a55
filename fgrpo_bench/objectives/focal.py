"""The focal weight, the one place where its formula stands."""

from __future__ import annotations

from typing import Any


def focal_weight(success_rate: Any, focal_gamma: float) -> Any:
    """(1 - success_rate) ** focal_gamma: the factor on every advantage of a group.

    Source: F-GRPO, arXiv 2602.06717, section 4. No imports and no checks, so that floats, NumPy
    arrays and torch tensors of any shape pass through and come back as what they were.

    success_rate: share of the group's rollouts that are correct, in [0, 1].
    focal_gamma: exponent >= 0; 0 is exactly 1 everywhere, so that the base algorithm is untouched.

    >>> focal_weight(0.75, 0.5)
    0.5
    """
    return (1 - success_rate) ** focal_gamma
