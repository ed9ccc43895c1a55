"""What groups are made of that teach nothing: all right or all wrong, one response repeated or
different ones; and over how many solutions the right rollouts of a group are spread.

In: judgements of rollouts by group. Out: which groups are what, and the metrics of a training step,
which both engines write (fgrpo_bench.stages.watch.METRICS) and `fgrpo-bench groups` counts.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray


def uniform_groups(
    n_correct: ArrayLike, group_size: ArrayLike, is_repeated: ArrayLike
) -> dict[str, NDArray[np.bool_]]:
    """Which groups are all wrong, or all right, with one response throughout or different ones; a
    group with both right and wrong rollouts is none of them.

    n_correct, group_size: rollouts of each group; is_repeated: whether its responses are all the
    same; all [groups], as are the values.
    """
    right, size = np.asarray(n_correct), np.asarray(group_size)
    repeated = np.asarray(is_repeated, dtype=bool)
    return {
        "wrong_repeated": (right == 0) & repeated,
        "wrong_different": (right == 0) & ~repeated,
        "right_repeated": (right == size) & repeated,
        "right_different": (right == size) & ~repeated,
    }


def solution_entropy(solutions: ArrayLike) -> float | None:
    """Entropy of a group's right rollouts over solutions, nats, the mean over groups that have one;
    None where none has.

    solutions: number of the solution that each rollout is, below 0 for one that is not right;
    [groups, group_size]. It is that of the shares themselves, from 0 (one way alone) to the
    logarithm of the number of right rollouts.
    """
    number = np.asarray(solutions)
    is_right = number >= 0
    alike = (number[:, :, None] == number[:, None, :]).sum(2)
    n_right = is_right.sum(1)
    has_right = n_right > 0
    if not has_right.any():
        return None
    surprise = np.where(is_right, np.log(np.maximum(n_right, 1)[:, None] / alike), 0.0)
    return float((surprise.sum(1)[has_right] / n_right[has_right]).mean())


def numbered(solutions: Iterable[str | None]) -> NDArray[np.int64]:
    """Solutions as numbers, equal ones alike; -1 for None. One dimension in and out."""
    numbers: dict[str, int] = {}
    return np.array(
        [-1 if text is None else numbers.setdefault(text, len(numbers)) for text in solutions],
        dtype=np.int64,
    )


def group_metrics(
    correct: ArrayLike, is_repeated: ArrayLike, solutions: ArrayLike
) -> dict[str, float | None]:
    """Of a step's groups, those that METRICS has of them: shares of all groups, and the entropy.

    correct: whether each rollout is right, [groups, group_size]; is_repeated: [groups]; solutions:
    as of `solution_entropy`.
    """
    right = np.asarray(correct, dtype=bool)
    uniform = uniform_groups(right.sum(1), right.shape[1], is_repeated)
    shares = {f"{name}_fraction": float(of.mean()) for name, of in uniform.items()}
    return shares | {"solution_entropy": solution_entropy(solutions)}
