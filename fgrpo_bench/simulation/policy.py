"""A categorical policy over many actions, drawn from and updated in time of what has moved.

Actions of one kind (right or wrong) that were never drawn are alike: same logit, no history. So
they need no names: whichever is drawn first takes the next free place, and the actions that have a
history stand in one slice around the border between right and wrong,

    right, untouched | right, moved | wrong, moved | wrong, untouched

This changes nothing in distribution. Draws are exact: by rejection from bins of nearly equal
weight, so that no sum over all actions is needed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.simulation.settings import Settings

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

BIN = 0.25
"""Width of a bin of logits; narrower bins reject less, wider ones are fewer."""
DRIFT = 0.25
"""Rise of any logit after which the bins are made anew."""


class Policy:
    """softmax(logits), with right actions before wrong ones."""

    def __init__(self, settings: Settings, rng: np.random.Generator) -> None:
        n_right, n_actions = settings.n_correct, settings.n_actions
        self.border = n_right
        """Places below it are right actions."""
        self.logits = np.full(n_actions, settings.wrong_logit)
        self.logits[:n_right] = settings.correct_logit
        self.logits[n_right - 1] = settings.anchor_logit
        self.first, self.last = n_right - 1, n_right
        """The slice [first, last) has moved or may differ from its kind."""
        self._rng = rng
        self._start = np.exp(self.logits[:n_right])
        self._start /= np.exp(self.logits).sum()
        self._make_bins()

    def masses(self) -> tuple[float, float]:
        """Total mass of the right actions, and the share of their first masses that is still there:
        Q_pos and M_ret = 1 - sum max(0, pi_0 - pi_t) / sum pi_0 over right actions (app. J)."""
        weights = np.exp(self.logits)
        right = weights[: self.border] / weights.sum()
        lost = np.maximum(self._start - right, 0.0).sum()
        return float(right.sum()), float(1 - lost / self._start.sum())

    def draw(self, n: int) -> Indices:
        """n independent draws: indices of actions [n], in no particular order."""
        drawn = self._accepted(n)
        while len(drawn) < n:
            drawn = np.concatenate([drawn, self._accepted(n - len(drawn))])
        if len(drawn) > n:  # all are alike, so any n of them will do, chosen without looking
            surplus = self._rng.choice(len(drawn), len(drawn) - n, replace=False, shuffle=False)
            drawn = np.delete(drawn, surplus)
        return drawn

    def settle(self, drawn: Indices) -> tuple[Indices, Indices]:
        """The distinct places that draws mean, each untouched one moved to the next free place of
        its kind, and how often each was drawn."""
        if len(drawn) * 4 > len(self.logits):
            tally = np.bincount(drawn, minlength=len(self.logits))
            places = np.flatnonzero(tally)
            counts = tally[places]
        else:
            places, counts = np.unique(drawn, return_counts=True)
        low, high = places.searchsorted([self.first, self.last])
        if low:
            places[:low] = np.arange(self.first - low, self.first)
            self.first -= int(low)
        if more := len(places) - int(high):
            places[high:] = np.arange(self.last, self.last + more)
            self.last += more
        return places, counts

    def touch_all(self) -> None:
        """From now on every action has a history."""
        self.first, self.last = 0, len(self.logits)
        self._make_bins()

    def rose(self, most: float) -> None:
        """Tell that no logit has risen by more than `most` since the last call."""
        self._drift += max(most, 0.0)
        if self._drift > DRIFT:
            self._make_bins()

    def _make_bins(self) -> None:
        """Bins of the moved actions by logit, and one each for the untouched of a kind."""
        own = self.logits[self.first : self.last]
        steps = np.floor((own - own.min()) / BIN).astype(np.int16)
        self._order = np.argsort(steps, kind="stable") + self.first
        sizes = np.bincount(steps)
        kept = np.flatnonzero(sizes)
        ends = sizes.cumsum()[kept]
        tops = np.maximum.reduceat(self.logits[self._order], ends - sizes[kept])
        untouched = [(0, self.first), (self.last, len(self.logits))]
        untouched = [(low, high) for low, high in untouched if high > low]
        self._order = np.concatenate([self._order, *(np.arange(*span) for span in untouched)])
        more = np.array([high - low for low, high in untouched], dtype=np.int64)
        self._sizes = np.concatenate([sizes[kept], more])
        self._starts = self._sizes.cumsum() - self._sizes
        self._tops = np.concatenate([tops, [self.logits[low] for low, _ in untouched]])
        bounds = self._sizes * np.exp(self._tops - self._tops.max())
        self._shares = bounds / bounds.sum()
        self._drift = 0.0
        weights = np.exp(self.logits - self._tops.max()).sum()
        self._acceptance = float(weights / bounds.sum())

    def _accepted(self, n: int) -> Indices:
        """About n draws: a bin by its bound, any action of it, kept with weight / bound."""
        rng, drift = self._rng, self._drift
        expected = n * np.exp(drift) / self._acceptance
        proposed = int(expected + 3 * np.sqrt(expected) + 4)
        tally = rng.multinomial(proposed, self._shares)
        within = (rng.random(proposed) * np.repeat(self._sizes, tally)).astype(np.int64)
        places = self._order[within + np.repeat(self._starts, tally)]
        height = self.logits[places]
        height -= np.repeat(self._tops + drift, tally)
        kept: Indices = places[rng.random(proposed) < np.exp(height)]
        return kept
