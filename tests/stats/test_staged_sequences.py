"""pass@k from draws that stop, against every sequence of verdicts of small designs.

Each sequence is played draw by draw, and what it shows is counted; no formula stands here.
"""

from collections import Counter, defaultdict
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.staged import designs


def end_of(design, draws):
    """The draws of this sequence that the design makes, played draw by draw."""
    for n in design.stages:
        if sum(draw == "right" for draw in draws[:n]) >= design.enough:
            return draws[:n]
    return draws


def sequences(design, verdicts):
    """Every sequence of verdicts that the design lets end, each once."""
    return {end_of(design, all_of) for all_of in product(verdicts, repeat=design.stages[-1])}


@settings(max_examples=25)
@given(designs())
def test_it_is_the_share_of_all_sequences_that_the_first_k_draws_do_not_fail(design):
    ways, failing = Counter(), defaultdict(Counter)
    for sequence in sequences(design, ("right", "wrong")):
        end = len(sequence), sequence.count("right")
        ways[end] += 1
        first = sequence.index("right") if end[1] else design.stages[-1]
        failing[end].update(range(1, first + 1))
    assert sorted(ways) == sorted(zip(*(part.tolist() for part in design.ends()), strict=True))
    ks = np.arange(1, design.stages[-1] + 1)
    for (n, c), way in ways.items():
        want = [1 - failing[n, c][k] / way for k in ks.tolist()]
        assert design.pass_at_k(n_drawn=n, n_correct=c, k=ks) == pytest.approx(want, abs=1e-15)


@settings(max_examples=25)
@given(designs(most=7), st.data())
def test_given_which_draws_were_judged_it_is_the_share_of_the_sequences_of_those(design, data):
    """The first k are the first k judged ones; sequences that leave out the same draws."""
    left_out = data.draw(st.sets(st.integers(0, design.stages[-1] - 1), max_size=3))
    ways, failing = Counter(), defaultdict(Counter)
    for sequence in sequences(design, ("right", "wrong")):
        if any(i in left_out and draw == "right" for i, draw in enumerate(sequence)):
            continue
        judged = [draw for i, draw in enumerate(sequence) if i not in left_out]
        end = len(sequence), judged.count("right")
        ways[end] += 1
        first = judged.index("right") if end[1] else len(judged)
        failing[end].update(range(1, first + 1))
    judged = design.stages[-1] - len(left_out)
    ks = np.arange(1, design.stages[-1] + 1)
    for (n, c), way in ways.items():
        edges = (0, *(stage for stage in design.stages if stage <= n))
        unscored = [len(left_out & set(range(a, b))) for a, b in pairwise(edges)]
        unscored += [0] * (len(design.stages) - len(unscored))
        asked = {"n_drawn": n, "n_correct": c, "k": ks, "n_unscored": unscored}
        reach = judged if n == design.stages[-1] else design.stages[-1]
        want = [1 - failing[n, c][k] / way if k <= reach else np.nan for k in ks.tolist()]
        assert design.pass_at_k(**asked) == pytest.approx(want, abs=1e-15, nan_ok=True)
        want = [
            (failing[n, c][k] / way) ** 2 - failing[n, c][2 * k] / way if 2 * k <= reach else np.nan
            for k in ks.tolist()
        ]
        assert design.draw_variance(**asked) == pytest.approx(want, abs=1e-15, nan_ok=True)


@settings(max_examples=10)
@given(designs(most=5))
def test_the_bounds_are_the_shares_of_sequences_that_judge_unscored_draws_wrong_or_right(design):
    ways, failing = Counter(), {what: defaultdict(Counter) for what in ("wrong", "right")}
    for sequence in sequences(design, ("right", "wrong", "unscored")):
        end = len(sequence), sequence.count("right"), sequence.count("unscored")
        ways[end] += 1
        for what, counts in failing.items():
            judged = [what if draw == "unscored" else draw for draw in sequence]
            first = judged.index("right") if "right" in judged else design.stages[-1]
            counts[end].update(range(1, first + 1))
    ks = np.arange(1, design.stages[-1] + 1)
    for (n, c, u), way in ways.items():
        # By the stage of each: whichever leaves the end possible.
        stage = design.stages.index(n)
        lengths = np.diff(design.stages, prepend=0)[: stage + 1]
        later = min(u, lengths[-1] - max(0, c - design.enough + 1 if stage else c))
        unscored = [0] * len(design.stages)
        unscored[stage] = int(later)
        for i in range(stage):
            unscored[i] = min(u - sum(unscored), int(lengths[i]))
        low, high = design.bounds(n_drawn=n, n_correct=c, k=ks, n_unscored=unscored)
        for got, what in ((low, "wrong"), (high, "right")):
            want = [1 - failing[what][n, c, u][k] / way for k in ks.tolist()]
            assert got == pytest.approx(want, abs=1e-15)
