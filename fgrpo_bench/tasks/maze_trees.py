"""Spanning trees of a square lattice by randomised Prim, many at once, and how many there are.

The variant: the tree begins with the first cell; the frontier is the cells beside it. In each step
one cell of the frontier is drawn, all equally likely, and joined to one of its neighbours in the
tree, all equally likely. (Drawing a wall between tree and frontier, or random weights and Prim's
order, gives other distributions.)

Each tree follows from its own seed: its numbers are fgrpo_bench.core.seeds.uniforms of that seed,
two a step, so it is the same whatever is made beside it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.core.seeds import uniforms

DIRECTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Row and column of a cell's neighbours; a tree has their numbers."""
_OUTSIDE, _FRONTIER, _TREE, _BORDER = range(4)
_AT_ONCE = 2**18
"""Cells of the trees that are grown together: what fits a processor's cache, about."""


def _nth_set() -> NDArray[np.int8]:
    """The number of the n-th set bit of a mask of four, [mask, n]; -1 where there are fewer."""
    table = np.full((16, 4), -1, np.int8)
    for mask in range(16):
        bits = [bit for bit in range(4) if mask >> bit & 1]
        table[mask, : len(bits)] = bits
    return table


_NTH_SET = _nth_set()
_N_SET = np.array([mask.bit_count() for mask in range(16)])


def grow(seeds: NDArray[np.int64], width: int) -> NDArray[np.int8]:
    """Trees of a lattice of width x width cells, one a seed: [trees, cells] has of every cell the
    direction of the next one towards cell 0, as a number in DIRECTIONS; of cell 0 it is 0."""
    parts = max(1, -(-len(seeds) * width**2 // _AT_ONCE))
    grown = [_grow(part, width) for part in np.array_split(seeds, parts)]
    return np.concatenate(grown)


def _grow(seeds: NDArray[np.int64], width: int) -> NDArray[np.int8]:
    n, padded = len(seeds), width + 2  # a border spares the test of what lies outside
    area = padded**2
    offsets = [down * padded + right for down, right in DIRECTIONS]
    inner = (np.arange(1, width + 1)[:, None] * padded + np.arange(1, width + 1)).ravel()
    state = np.full((n, area), _BORDER, np.int8)
    state[:, inner] = _OUTSIDE
    towards = np.zeros((n, area), np.int8)
    frontier = np.zeros((n, width**2), np.int32)
    # Flat below: place p of tree t is at t * area + p, slot s of its frontier at t * cells + s.
    flat_state, flat_towards, slots = state.ravel(), towards.ravel(), frontier.ravel()
    tree, first_slot = np.arange(n) * area, np.arange(n) * width**2
    size = np.zeros(n, np.int64)
    numbers = np.ascontiguousarray(uniforms(seeds, 2 * (width**2 - 1)).T)

    def enlarge(cell: NDArray[np.int64], beside: list[NDArray[np.int8]]) -> None:
        """Put a cell of every tree into it, and its neighbours outside into the frontier."""
        flat_state[cell] = _TREE
        for offset, kind in zip(offsets, beside, strict=True):
            is_new = kind == _OUTSIDE
            neighbour = cell + offset
            flat_state[neighbour] = np.where(is_new, np.int8(_FRONTIER), kind)
            # Where it is not new the slot is written in vain: the next one takes it.
            slots[first_slot + size] = neighbour - tree
            size[is_new] += 1

    start = tree + inner[0]
    enlarge(start, [flat_state[start + offset] for offset in offsets])
    for step in range(width**2 - 1):
        drawn = first_slot + (numbers[2 * step] * size).astype(np.int64)
        cell = tree + slots[drawn]
        size -= 1
        slots[drawn] = slots[first_slot + size]
        beside = [flat_state[cell + offset] for offset in offsets]
        mask = sum((kind == _TREE).astype(np.int64) << bit for bit, kind in enumerate(beside))
        nth = (numbers[2 * step + 1] * _N_SET[mask]).astype(np.int64)
        flat_towards[cell] = _NTH_SET[mask, nth]
        enlarge(cell, beside)
    return towards[:, inner]


def paths(trees: NDArray[np.int8], width: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Directions from cell 0 to the last cell, [trees, longest], and their number, [trees]; -1
    behind the last."""
    steps = np.array([down * width + right for down, right in DIRECTIONS])
    at = np.full(len(trees), width**2 - 1)
    backwards = [np.full(len(trees), -1, np.int8)]  # so that there is a column without a tree too
    while at.any():
        towards = np.where(at > 0, trees[np.arange(len(trees)), at], np.int8(-1))
        backwards.append(np.where(towards < 0, np.int8(-1), towards ^ 1))  # U and D, L and R
        at = at + np.where(towards < 0, 0, steps[towards])
    met = np.stack(backwards[::-1], axis=1)
    lengths = (met >= 0).sum(1)
    order = np.argsort(met < 0, axis=1, kind="stable")
    return np.take_along_axis(met, order, 1), lengths


@lru_cache
def spanning_trees(width: int) -> int:
    """How many spanning trees a lattice of width x width cells has, exactly.

    Kirchhoff's matrix-tree theorem: the determinant of the Laplacian without the row and column of
    one cell. Bareiss's elimination keeps it in integers, and within the matrix's band.

    >>> spanning_trees(4)
    100352
    """
    cells = width**2
    laplacian = [[0] * cells for _ in range(cells)]
    for cell in range(cells):
        for other in (cell + 1 if (cell + 1) % width else cells, cell + width):
            if other < cells:
                laplacian[cell][other] = laplacian[other][cell] = -1
                laplacian[cell][cell] += 1
                laplacian[other][other] += 1
    rows, last, divisor = laplacian, cells - 1, 1
    for i in range(last - 1):
        pivot = rows[i][i]
        for k in range(i + 1, min(i + width, last - 1) + 1):
            row, head = rows[k], rows[k][i]
            for j in range(i + 1, min(k + width, last - 1) + 1):
                entering = divisor if k == i + width else 1  # what the steps so far would have made
                row[j] = (row[j] * entering * pivot - head * entering * rows[i][j]) // divisor
        divisor = pivot
    return rows[last - 1][last - 1]


def digests(trees: NDArray[np.int8]) -> NDArray[np.uint64]:
    """A number of 64 bits a tree, the same for equal trees: [trees]. Where others share it a maze
    is drawn again in vain, which does no harm."""
    weights = np.random.default_rng(0).integers(2**64, size=trees.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):
        numbers = (trees.astype(np.uint64) * (weights | np.uint64(1))).sum(1)
    return np.asarray(numbers, np.uint64)
