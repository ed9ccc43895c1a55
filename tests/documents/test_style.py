"""Labels beside the lines of a figure."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.documents.style import _apart


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12).map(sorted))
def test_labels_keep_their_order_and_distance_and_stay_below_the_top(heights):
    placed = _apart(heights, 0.05)
    assert all(b - a >= 0.05 - 1e-9 for a, b in pairwise(placed))
    assert placed[-1] <= 1


def test_labels_that_do_not_clash_stay_at_their_lines():
    assert _apart([0.1, 0.5, 0.9], 0.05) == pytest.approx([0.1, 0.5, 0.9])
