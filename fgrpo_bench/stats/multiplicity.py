"""p-values of many comparisons, corrected together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that bound the chance of any false rejection, however they depend (Holm
    1979, "A simple sequentially rejective multiple test procedure")."""
    order = np.argsort(p_values)
    factors = len(p_values) - np.arange(len(p_values))
    raised = np.maximum.accumulate(np.asarray(p_values, dtype=float)[order] * factors)
    out = np.empty(len(p_values))
    out[order] = np.minimum(raised, 1.0)
    return [float(value) for value in out]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values that bound the expected share of false rejections, for tests that are
    independent or positively dependent (Benjamini and Hochberg 1995)."""
    # As scipy.stats.false_discovery_control, to the last bit; importing that takes a second.
    order, m = np.argsort(p_values)[::-1], len(p_values)
    raised = np.asarray(p_values, dtype=float)[order] * (m / np.arange(m, 0, -1))
    out = np.empty(m)
    out[order] = np.minimum(np.minimum.accumulate(raised), 1.0)
    return [float(value) for value in out]
