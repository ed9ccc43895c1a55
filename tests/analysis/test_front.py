"""The front of the plane of pass@k at the smallest and the largest k, with planted truths."""

from __future__ import annotations

import numpy as np
import pytest

from fgrpo_bench.analysis import OPEN, ROBUST, SUGGESTIVE, analyse
from fgrpo_bench.analysis.comparisons import fronts
from fgrpo_bench.analysis.rows import Comparison
from tests.support.report import small_sweep


def row(new, old, k, difference, verdict, family="the question"):
    nothing = dict.fromkeys(
        ("group", "name", "low", "high", "standard_error", "degrees", "p", "p_draws", "p_holm")
    )
    return Comparison(
        **nothing,
        column="countdown",
        k=k,
        new=new,
        new_step=1,
        old=old,
        old_step=1,
        difference=difference,
        seeds=(),
        by_seed=(),
        n_problems=0,
        family=family,
        p_bh=None,
        verdict=verdict,
    )


def pair(first, last, verdicts, new="b", old="a"):
    """Differences at k = 1, at another k, which counts for nothing, and at k = 256."""
    return [
        row(new, old, 1, first, verdicts[0]),
        row(new, old, 16, -first, ROBUST),
        row(new, old, 256, last, verdicts[1]),
    ]


@pytest.mark.parametrize(
    ("rows", "dominated"),
    [
        (pair(0.01, 0.1, (OPEN, ROBUST)), {"a": ("b",)}),
        (pair(0.1, 0.0, (ROBUST, OPEN)), {"a": ("b",)}),
        (pair(0.1, 0.1, (ROBUST, ROBUST)), {"a": ("b",)}),
        (pair(-0.1, -0.001, (ROBUST, SUGGESTIVE)), {"b": ("a",)}),
        (pair(-0.01, 0.1, (OPEN, ROBUST)), {}),  # incomparable: worse at the other
        (pair(-0.1, 0.1, (ROBUST, ROBUST)), {}),
        (pair(0.1, 0.1, (SUGGESTIVE, SUGGESTIVE)), {}),  # not robust is not dominated
        (
            pair(0.1, 0.1, (OPEN, ROBUST)) + pair(-0.1, -0.1, (OPEN, ROBUST), new="a", old="c"),
            {"a": ("b", "c")},
        ),
    ],
)
def test_a_cell_is_dominated_by_one_that_is_robustly_better_and_nowhere_worse(rows, dominated):
    made = {each.cell: each for each in fronts(rows, ["a", "b", "c"], ["countdown"], [1, 256])}
    assert {c: each.dominated_by for c, each in made.items() if each.dominated_by} == dominated
    asked = {cell for each in rows for cell in (each.new, each.old)}
    for cell, each in made.items():
        assert each.is_on_front == ((cell not in dominated) if cell in asked else None)


def test_what_no_question_compares_is_on_no_front():
    rows = [row("b", "a", k, 0.1, OPEN, family=None) for k in (1, 256)]
    assert [each.is_on_front for each in fronts(rows, ["a", "b"], ["countdown"], [1, 256])] == [
        None,
        None,
    ]


def test_with_a_single_k_what_is_robustly_worse_there_is_dominated():
    rows = [row("b", "a", 1, 0.1, ROBUST)]
    assert [each.dominated_by for each in fronts(rows, ["a", "b"], ["countdown"], [1])] == [
        ("b",),
        (),
    ]


PLANTED = {"nsr": (0.9, 0.5), "psr": (0.5, 0.8)}
"""Share of problems that a method ever solves, and its success rate on these: NSR is planted above
the others at every k, PSR above them at k = 1 and below at k = 32."""


def test_a_planted_method_that_is_better_everywhere_dominates_grpo(tmp_path):
    def rates(point, rng, n_problems):
        share, level = PLANTED.get(point.cell and point.cell.algorithm, (0.7, 0.4))
        solved = np.arange(n_problems) < share * n_problems
        return np.where(solved, level + rng.uniform(-0.01, 0.01, n_problems), 0.0)

    cells = ["sweep.grid.algorithm=[grpo,nsr,psr,rloo]", "sweep.cells=[]"]
    cells += ["sweep.family.pairs=[methods]"]
    analysis = analyse(small_sweep(tmp_path, "methods", *cells, success_rates=rates))
    assert dict(analysis.front.select("cell", "dominated_by").iter_rows()) == {
        "grpo-n8-g0": ["nsr-n8-g0"],
        "nsr-n8-g0": [],
        "psr-n8-g0": [],
        "rloo-n8-g0": [],
    }
    psr = [analysis.comparison("countdown", k, "psr-n8-g0", "grpo-n8-g0") for k in (1, 32)]
    assert psr[0].difference > 0 > psr[1].difference, "better at one k alone"
    assert analysis.on_front("countdown", "base") is None
    assert analysis.on_front("countdown", "grpo-n8-g0").is_on_front is False
