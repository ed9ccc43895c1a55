"""What a staged design is, and where problems end under it, checked."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.stats.passk import integers

Counts = NDArray[np.int64]
MOST_DRAWS = 16_384
"""Of several stages: their tables are computed from whole numbers of about a bit a draw."""


class Ends(NamedTuple):
    """Ends of problems, and the k that is asked for at each; all of one shape."""

    n_drawn: Counts
    n_correct: Counts
    k: Counts
    stage: Counts
    """Index of the last stage that was made."""
    before: Counts
    """Judged draws before that stage."""
    last: Counts
    """Judged draws of that stage."""

    @property
    def n_unscored(self) -> Counts:
        """Draws that were not judged."""
        return self.n_drawn - self.before - self.last


def read_design(stages: Any, enough: Any) -> tuple[tuple[int, ...], int]:
    """Both as plain integers. Errors as of `StagedDesign`."""
    each, least = np.asarray(stages), np.asarray(enough)
    if each.ndim != 1 or not each.size or each.dtype.kind not in "iu":
        raise TypeError(
            f"stages={stages!r}: must be whole numbers of draws, at least one, e.g. (64, 128, 256)"
        )
    if least.ndim or least.dtype.kind not in "iu":
        raise TypeError(f"enough={enough!r}: must be a whole number of correct draws")
    stages, enough = tuple(each.tolist()), int(least)
    if stages[0] < 1:
        raise ValueError(f"stages={stages}: the first stage must have at least 1 draw")
    for stage, following in pairwise(stages):
        if following <= stage:
            raise ValueError(
                f"stages={stages}: {following} follows {stage}, but each stage counts all draws so "
                "far and must have more than the one before; sort them, each once"
            )
    if enough < 1:
        raise ValueError(
            f"enough={enough}: every problem would stop after {stages[0]} draws, also one that has "
            "none correct, and pass@k above that could not be estimated; enough must be at least 1"
        )
    if len(stages) > 1 and stages[-1] > MOST_DRAWS:
        raise ValueError(
            f"stages={stages}: the last of several stages may have at most {MOST_DRAWS:,} draws, "
            "because estimates are computed from exact whole numbers; lower it, or draw a fixed "
            "number"
        )
    return stages, enough


def read_ends(
    stages: tuple[int, ...], enough: int, *, n_drawn: Any, n_correct: Any, k: Any, n_unscored: Any
) -> Ends:
    """The ends as arrays of one shape. Arguments and errors as of `StagedDesign.pass_at_k`."""
    unscored = np.zeros(len(stages), np.int64)
    if n_unscored is not None:
        unscored = integers("n_unscored", n_unscored)
    if not unscored.ndim or unscored.shape[-1] != len(stages):
        raise ValueError(
            f"n_unscored of shape {unscored.shape}: must be [..., {len(stages)}], a number for "
            f"each of stages={stages}, 0 for those that were not drawn"
        )
    named = {"n_drawn": n_drawn, "n_correct": n_correct, "k": k}
    n, c, kk = (integers(name, value) for name, value in named.items())
    if kk.size and kk.min() < 1:
        raise ValueError(f"k={kk.min()}: k is a number of draws and must be at least 1")
    # Of the shape of these two alone: there may be many k and counts.
    drawn = np.broadcast_to(n, np.broadcast_shapes(n.shape, unscored.shape[:-1]))
    stage = np.searchsorted(stages, drawn).clip(max=len(stages) - 1)
    is_drawn = np.arange(len(stages)) <= stage[..., None]
    judged = np.diff(stages, prepend=0) * is_drawn - unscored
    last = np.take_along_axis(judged, stage[..., None], axis=-1)[..., 0]
    before = judged.sum(axis=-1) - last
    wrong = (unscored < 0).any(axis=-1) | (judged < 0).any(axis=-1)
    wrong = wrong | (np.take(stages, stage) != drawn)
    wrong = wrong | (c < np.where(stage < len(stages) - 1, enough, 0))
    wrong = wrong | (c > np.minimum(before, enough - 1) + last)
    if wrong.any():
        n, c = (np.broadcast_to(part, wrong.shape)[wrong][0] for part in (n, c))
        of = np.broadcast_to(unscored, (*wrong.shape, len(stages)))[wrong][0].tolist()
        raise ValueError(_impossible(stages, enough, int(n), int(c), of))
    return Ends(*np.broadcast_arrays(drawn, c, kk, stage, before, last))


def most_correct(stages: tuple[int, ...], enough: int, stage: int) -> int:
    """The largest number of correct draws with which a problem can end at a stage."""
    before = stages[stage - 1] if stage else 0
    return min(before, enough - 1) + stages[stage] - before


def _impossible(stages: tuple[int, ...], enough: int, n: int, c: int, unscored: list[int]) -> str:
    """What a design can reach, beside what it cannot."""
    counts = f"n_drawn={n}, n_correct={c}" + f", n_unscored={unscored}" * any(unscored)
    possible = [
        f"{enough if last < stages[-1] else 0} to {most} correct of {last}"
        for i, last in enumerate(stages)
        if (most := most_correct(stages, enough, i)) >= enough or last == stages[-1]
    ]
    fewer = "; unscored draws, counted by the stage that made them, leave fewer" * any(unscored)
    return (
        f"{counts}: with stages={stages} and enough={enough} a problem ends with "
        f"{', '.join(possible)}{fewer}. Count its draws in the order of their index, up to where "
        "the design stops"
    )
