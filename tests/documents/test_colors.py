"""Colours of figures as colour-blind readers see them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fgrpo_bench.documents.colors import ALGORITHMS, BASE, FOCAL, PLAIN
from fgrpo_bench.report.figures.curves import COLORS

SIGHT = {
    "usual": np.eye(3),
    "without red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "without green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "without blue cones": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
"""What is left of linear RGB (Machado, Oliveira and Fernandes 2009, severity 1)."""
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def lab(color: str, sight: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a colour as it is seen."""
    srgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    x = XYZ @ np.clip(sight @ linear, 0, 1) / WHITE
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(
    ("colors", "apart"),
    [
        ([*COLORS.values()], 25),
        (ALGORITHMS, 15),
        ([PLAIN[2], *FOCAL, BASE], 15),
        ([*PLAIN, *FOCAL, BASE], 9),  # neighbouring N differ in their markers too
    ],
)
def test_colours_that_stand_for_different_things_stay_apart(sight, colors, apart):
    seen = [lab(color, SIGHT[sight]) for color in colors]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) >= apart


def test_the_measure_finds_what_readers_without_green_cones_confuse():
    red, green = (lab(color, SIGHT["without green cones"]) for color in ("#b04030", "#6b7030"))
    usual = [lab(color, SIGHT["usual"]) for color in ("#b04030", "#6b7030")]
    assert np.linalg.norm(red - green) < 15 < 50 < np.linalg.norm(usual[0] - usual[1])
