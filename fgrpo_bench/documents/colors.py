"""Colours and markers that colour-blind readers can tell apart, for figures and dashboards."""

from __future__ import annotations

from collections.abc import Sequence

PLAIN = ("#6baed6", "#4292c6", "#2171b5", "#0d5299", "#08306b")
"""Light to dark blue: gamma = 0, by rank of N."""
METHODS = ("#2171b5", "#009e73", "#7b4fa3", "#cc79a7", "#8a8a2b", "#33a0c8")
"""Blue, green, purple, pink, olive and cyan: gamma = 0, by rank of the algorithm where a sweep of
one N compares several."""
FOCAL = ("#e6891e", "#c6480a", "#7f2704")
"""Orange to brown: gamma > 0, by rank of gamma."""
ALGORITHMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
"""Okabe and Ito's colours, by rank of the algorithm, where a line is an algorithm."""
LINES = (
    *("#0072b2", "#666666", "#999999", "#d55e00", "#e69f00", "#009e73"),
    *("#cc79a7", "#999933", "#332288", "#882255", "#56b4e9"),
)
"""Okabe and Ito's with greys and Tol's, where there are more lines than ALGORITHMS."""
SUCCESS_RATES = (*reversed(FOCAL), "#dddddd", PLAIN[0], PLAIN[2], PLAIN[4])
"""Dark to light orange, grey, light to dark blue: groups that are all wrong to all right, in seven
bins."""
MARKERS = ("o", "s", "D", "^", "v")
BASE = "#666666"


def shade(colors: Sequence[str], rank: int, count: int) -> str:
    """Spread ranks over the shades; a single one takes the middle."""
    if count == 1:
        return colors[len(colors) // 2]
    return colors[round(rank * (len(colors) - 1) / (count - 1))]
