"""Expected weights of advantages, each computed once: they depend on no sweep."""

from __future__ import annotations

from functools import lru_cache

from dashboards.queries.analysis import Floats
from fgrpo_bench.theory.weights import CURVE, SIZES, Line, Method, lines_at, lines_over


@lru_cache(maxsize=256)
def weights(text: str, group_size: int) -> Floats:
    """Of a method as it is written, at CURVE."""
    return Method.parse(text).weights(group_size, CURVE)


@lru_cache(maxsize=64)
def at_size(texts: tuple[str, ...], group_size: int) -> list[Line]:
    """Lines of methods at a group size that all of them are defined for."""
    return lines_at([Method.parse(text) for text in texts], group_size)


@lru_cache(maxsize=64)
def over_sizes(text: str) -> tuple[list[int], list[Line]]:
    """Group sizes that a method is defined for, and its line at each."""
    method = Method.parse(text)
    return [size for size in SIZES if method.is_defined(size)], lines_over(method)
