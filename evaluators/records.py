"""What every back end gives: draws, and the function that makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.records import Problem


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Draws of some problems; row p * n + j is draw j of problem p."""

    responses: list[str]
    n_tokens: NDArray[np.int32]
    """Sampled tokens, the end token included."""
    finished: NDArray[np.bool_]
    """Whether the model ended by itself (else it ran into the length limit)."""


Sampler = Callable[[list[Problem], NDArray[np.int64]], Drawn]
"""Problems and seeds [problems, draws] -> draws; each draw follows from its own seed."""
