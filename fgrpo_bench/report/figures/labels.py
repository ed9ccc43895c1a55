"""Names beside the points of a panel, where they cover no point, error bar, line or other name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fgrpo_bench.documents.style import SMALL

Floats = NDArray[np.float64]
Corners = Sequence[Sequence[float]]
"""x and y of each."""
POINTS = 72
"""An inch."""
APART = 2.0
"""Points between a name and what it must not touch."""
MARKER = 6.0
"""Points across."""
STEP = 3.0
"""Points between two places that are tried, and of a line between two places that it covers."""
FAR = 7.0
"""Points from a name to its point, above which a line joins them."""
ORDERS = 12
"""Orders in which names are placed; the one that leaves them nearest to their points is taken."""


@dataclass(frozen=True, kw_only=True)
class Name:
    """A point and what it is called."""

    at: Sequence[float]
    """x and y in the panel's data."""
    text: str
    """As matplotlib sets it, symbols as math."""
    color: str


def name_points(
    figure: Figure,
    axes: Axes,
    names: Sequence[Name],
    lines: Sequence[Corners],
) -> bool:
    """Write the names; False, and nothing is written, where they do not all fit. The limits of the
    panel stay as they are.

    lines: error bars and whatever else no name may cover, as corners in the panel's data.
    """
    scale = lay_out(figure)
    axes.set_xlim(axes.get_xlim())
    axes.set_ylim(axes.get_ylim())

    def in_points(corners: Corners) -> Floats:
        return np.asarray(scale * axes.transData.transform(np.array(corners, dtype=np.float64)))

    points = in_points([name.at for name in names])
    taken = [_boxes(points, MARKER / 2 + APART)]
    taken += [_around(in_points(corners)) for corners in lines]
    sizes = np.array([_size(axes, name.text) * scale for name in names])
    low, high = scale * axes.bbox.get_points()
    places = _placed(points, sizes, np.concatenate(taken), low + 1, high - 1)
    if places is None:
        return False
    for name, point, size, place in zip(names, points, sizes, places, strict=True):
        (x, y), (right, up) = name.at, place - point
        gap = np.linalg.norm(np.maximum(np.abs(place - point) - size / 2, 0))
        line = {"arrowstyle": "-", "color": name.color, "lw": 0.5, "shrinkA": 0, "shrinkB": 3}
        axes.annotate(
            name.text, (x, y), (right, up), textcoords="offset points", ha="center",
            va="center", fontsize=SMALL, color=name.color, zorder=5, in_layout=False,
            arrowprops=line if gap > FAR else None,
        )  # fmt: skip
    return True


def lay_out(figure: Figure) -> float:
    """Give the panels their places and sizes, by which it is known what there is room for. Returns
    the points of a pixel."""
    layout = figure.get_layout_engine()
    assert layout is not None
    layout.execute(figure)
    return POINTS / figure.dpi


def _size(axes: Axes, text: str) -> Floats:
    """Width and height of a name in pixels."""
    words = axes.text(0, 0, text, fontsize=SMALL)
    box = words.get_window_extent()
    words.remove()
    return np.array([box.width, box.height])


def _placed(
    points: Floats, sizes: Floats, taken: Floats, low: Floats, high: Floats
) -> Floats | None:
    """The centre of each name [names, 2] in points; None where some name has no place left.

    taken: boxes [boxes, 4] as left, bottom, right, top. low, high: corners of the panel.
    """
    grid = np.stack(np.meshgrid(*(np.arange(a, b, STEP) for a, b in zip(low, high, strict=True))))
    tried = grid.reshape(2, -1).T
    free, costs = [], []
    for point, size in zip(points, sizes, strict=True):
        inside = ((tried - size / 2 >= low) & (tried + size / 2 <= high)).all(axis=1)
        places = tried[inside & ~_covers(tried, size, taken)]
        far = np.linalg.norm(np.maximum(np.abs(places - point) - size / 2, 0), axis=1)
        nearest = np.argsort(far, kind="stable")
        free.append(places[nearest])
        costs.append(far[nearest])
    rng, best, best_cost = np.random.default_rng(0), None, np.inf
    for _ in range(ORDERS):
        places, cost = np.empty_like(points), 0.0
        others, written = np.empty((0, 4)), np.empty((0, 4))
        for i in rng.permutation(len(points)):
            ok = ~_covers(free[i], sizes[i], others)
            ok &= (costs[i] <= FAR) | ~_crossed(points[i], free[i], written)
            if not ok.any():
                break
            first = int(ok.argmax())
            places[i], cost = free[i][first], cost + costs[i][first] ** 2
            joined = along(np.array([points[i], places[i]]))
            half = sizes[i] / 2 + APART / 2
            name = np.concatenate([places[i] - half, places[i] + half])[None]
            written = np.concatenate([written, name])
            others = np.concatenate([others, name, _boxes(joined, APART / 2)])
        else:
            if cost < best_cost:
                best, best_cost = places, cost
    return best


def _covers(centres: Floats, size: Floats, boxes: Floats) -> NDArray[np.bool_]:
    """Whether a name of this size touches any of the boxes, at each of the centres [places]."""
    low, high = centres - size / 2, centres + size / 2
    touched = np.zeros(len(centres), dtype=bool)
    for left, bottom, right, top in boxes:
        touched |= (
            (low[:, 0] < right) & (high[:, 0] > left) & (low[:, 1] < top) & (high[:, 1] > bottom)
        )
    return touched


def _crossed(point: Floats, centres: Floats, boxes: Floats) -> NDArray[np.bool_]:
    """Whether a line from a point to each of the centres goes through any of the boxes [places]."""
    parts = point + np.linspace(0, 1, 16)[:, None, None] * (centres - point)  # a box is not missed
    crossed = np.zeros(len(centres), dtype=bool)
    for box in boxes:
        crossed |= ((parts > box[:2]) & (parts < box[2:])).all(axis=2).any(axis=0)
    return crossed


def _around(corners: Floats) -> Floats:
    """Boxes that hold a line: one where it is level or upright, else along it."""
    low, high = corners.min(axis=0), corners.max(axis=0)
    if (high - low).min() < APART:
        return np.concatenate([low - APART, high + APART])[None]
    return _boxes(along(corners), APART)


def _boxes(points: Floats, reach: float) -> Floats:
    """Around each point [points, 4]."""
    return np.concatenate([points - reach, points + reach], axis=1)


def along(corners: Floats) -> Floats:
    """Places on a line through corners, at most STEP apart [places, 2]."""
    parts = [np.linspace(a, b, 2 + int(np.linalg.norm(b - a) / STEP)) for a, b in pairwise(corners)]
    return np.concatenate(parts)
