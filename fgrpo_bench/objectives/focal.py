"""The focal weight and its mean, the one place where their formulas stand."""

from __future__ import annotations

from math import gamma, pi, sqrt
from typing import Any


def focal_weight(success_rate: Any, focal_gamma: float) -> Any:
    """(1 - success_rate) ** focal_gamma: the factor on every advantage of a group.

    Source: F-GRPO, arXiv 2602.06717, section 4. No checks, so that floats, NumPy
    arrays and torch tensors of any shape pass through and come back as what they were.

    success_rate: share of the group's rollouts that are correct, in [0, 1].
    focal_gamma: exponent >= 0; 0 is exactly 1 everywhere, so that the base algorithm is untouched.

    >>> focal_weight(0.75, 0.5)
    0.5
    """
    return (1 - success_rate) ** focal_gamma


def low_lr_multiplier(focal_gamma: float) -> float:
    """E[(1-mu)^gamma sqrt(mu(1-mu))] / E[sqrt(mu(1-mu))] for mu uniform on [0, 1]: the mean focal
    weight, each group weighed by the spread of its rewards.

    Source: F-GRPO, arXiv 2602.06717, the scale-matched control "GRPO low-LR", in closed form:
    B(3/2, gamma + 3/2) / B(3/2, 3/2) = (4 / sqrt(pi)) Gamma(gamma + 3/2) / Gamma(gamma + 3).

    focal_gamma: exponent >= 0; 0 gives 1.

    >>> round(low_lr_multiplier(0.5), 3)
    0.679
    """
    return 4 / sqrt(pi) * gamma(focal_gamma + 1.5) / gamma(focal_gamma + 3)
