"""Seeds and uniform numbers that need no state: each is a function of what it is for.

A draw's own seed is fixed by (base seed, stream, problem, draw), where the stream of a model that
a sweep trains is its training seed, and the engine's uniform numbers by that seed and the position,
so a draw is the same whichever batch, process or attempt makes it.
Generator: splitmix64 (Steele, Lea, Flood 2014), which is a bijection of 64 bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stream(*parts: object) -> int:
    """A 64-bit stream number from any printable parts, e.g. stream(11, "rollout", 40)."""
    text = "\x1f".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")


def draw_seeds(
    seed: int, problem_ids: Sequence[str], draws: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Own seed of every draw; int64 [len(problem_ids), len(draws)], none negative.

    Within a problem no two of the 2**63 possible draws share a seed before the sign bit is
    dropped; between problems the streams are hashed apart.
    """
    starts = np.array([stream(seed, problem) for problem in problem_ids], dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = _mix(starts[:, None] + draws.astype(np.uint64)[None, :] * _GOLDEN)
    return (mixed >> np.uint64(1)).astype(np.int64)


def uniforms(seeds: NDArray[np.int64], n: int) -> NDArray[np.float64]:
    """n uniform numbers in [0, 1) for each seed; float64 [len(seeds), n]."""
    positions = np.arange(1, n + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        bits = _mix(_mix(seeds.astype(np.uint64))[:, None] + positions[None, :] * _GOLDEN)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
