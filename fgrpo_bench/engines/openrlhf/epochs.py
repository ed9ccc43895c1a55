"""The order of the training prompts: which of them an epoch has, so that in the end all are seen.

An epoch is a number of whole batches, and a dataset hardly ever fills them: of 39,202 problems 34
are left over by 153 batches of 256. What an epoch leaves out comes first in the next one. Pure:
imports neither Ray nor OpenRLHF.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray


def epochs(seed: int, *, problems: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Endless epochs of `size` different problems each, as indices below `problems`, shuffled.

    size: 1 .. problems. No problem is drawn once more before all others have been drawn as often.
    """
    is_due = np.ones(problems, dtype=bool)
    """Not drawn yet since all were drawn equally often."""
    for epoch in count():
        order = np.random.default_rng([seed, 2, epoch]).permutation(problems)
        due = order[is_due[order]]
        if len(due) > size:
            chosen = due[:size]
            is_due[chosen] = False
        else:
            repeated = order[~is_due[order]][: size - len(due)]
            chosen = np.concatenate([due, repeated])
            is_due[:] = True
            is_due[repeated] = False
        is_chosen = np.zeros(problems, dtype=bool)
        is_chosen[chosen] = True
        yield order[is_chosen[order]]


class PromptOrder:
    """The sampler of a prompt loader: each iteration is the next epoch.

    ValueError where an epoch has more prompts than there are.
    """

    def __init__(self, *, seed: int, problems: int, size: int) -> None:
        if not 1 <= size <= problems:
            raise ValueError(
                f"an epoch of {size} prompts out of {problems}: give at least as many prompts"
            )
        self._seed, self._problems, self._size = seed, problems, size
        self.epoch = 0
        """Of the next iteration, counted from 0."""

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> OneEpoch:
        return OneEpoch(self)

    def indices(self, epoch: int) -> list[int]:
        """The problems of an epoch, in order; all epochs before it are gone through."""
        every = epochs(self._seed, problems=self._problems, size=self._size)
        indices: list[int] = next(islice(every, epoch, None)).tolist()
        return indices


class OneEpoch(Iterator[int]):
    """One iteration; a loader's state keeps where it stands, and a resumed run begins there.

    The epoch counts as begun with the first problem, because loaders make iterators that they do
    not use.
    """

    def __init__(self, order: PromptOrder) -> None:
        self._order, self._epoch, self._taken = order, order.epoch, 0
        self._indices: list[int] | None = None

    def __next__(self) -> int:
        if self._indices is None:
            self._indices = self._order.indices(self._epoch)
            self._order.epoch = self._epoch + 1
        if self._taken == len(self._indices):
            raise StopIteration
        self._taken += 1
        return self._indices[self._taken - 1]

    def state_dict(self) -> dict[str, Any]:
        """The place within the run."""
        return {"epoch": self._epoch, "taken": self._taken}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on at a place that state_dict gave; ValueError for anything else."""
        if state.keys() != {"epoch", "taken"}:
            raise ValueError(
                f"the training state has {sorted(state)} in place of its epoch and the prompts "
                "taken, so nothing can resume from it: move the stage's openrlhf/states away to "
                "start at step 1"
            )
        self._epoch, self._taken, self._indices = state["epoch"], state["taken"], None
        self._order.epoch = self._epoch + (self._taken > 0)
