"""Methods whose weights are shown: how they are written, and which lines a figure has."""

from __future__ import annotations

import numpy as np
import pytest

from fgrpo_bench.objectives.advantages import ADVANTAGES, reads_log_probs
from fgrpo_bench.theory import expected_weight
from fgrpo_bench.theory.weights import CURVE, METHODS, SIZES, Method, lines_at, lines_over


def test_every_advantage_that_is_a_function_of_the_rewards_is_shown():
    shown = {Method.parse(text).advantage for text in METHODS}
    assert shown == {name for name in ADVANTAGES if not reads_log_probs(name)}


@pytest.mark.parametrize("group_size", [2, 4, 32])
def test_methods_that_weigh_alike_are_one_line_and_no_two_lines_look_alike(group_size):
    methods = [m for m in map(Method.parse, METHODS) if m.is_defined(group_size)]
    lines = lines_at(methods, group_size)
    assert sum(len(line.labels) for line in lines) == len(methods)
    assert len({(line.color, line.style) for line in lines}) == len(lines)
    (flat,) = (line for line in lines if np.allclose(line.values, 1, 1e-12, 0))
    alike = {"Dr. GRPO", "RLOO", "PSR", "NSR", "W-REINFORCE weight=0.1"}
    if group_size == 2:
        alike |= {"GRPO", "F-GRPO gamma=0.5", "F-GRPO gamma=1", "MaxRL (coded)", "RS-GRPO beta=2"}
    assert set(flat.labels) == alike


def test_a_line_is_the_expected_weight_relative_to_one_half():
    (line,) = lines_at([Method.parse("pkpo:k=4,baseline=sloo@0.5")], 8)
    options = {"group_size": 8, "focal_gamma": 0.5, "k": 4, "baseline": "sloo"}
    at = CURVE.index(0.95)
    wanted = [expected_weight("pkpo", success_rate=p, **options) for p in (CURVE[at], 0.5)]
    assert line.values[at] == pytest.approx(wanted[0] / wanted[1], rel=1e-12)


@pytest.mark.parametrize("text", ["grpo@1", "maxrl", "pkpo:k=4"])
def test_over_group_sizes_a_method_has_a_line_where_it_is_defined(text):
    lines = lines_over(Method.parse(text))
    sizes = [size for size in SIZES if size >= 4 or text != "pkpo:k=4"]
    assert [line.labels for line in lines] == [(f"N = {size}",) for size in sizes]
    assert len({(line.color, line.style) for line in lines}) == len(lines)
