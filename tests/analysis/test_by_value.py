"""pass@k by the values of a column of the problems, and the differences in each."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from fgrpo_bench.analysis import analyse, analysed
from fgrpo_bench.analysis.by_value import named_partitions
from fgrpo_bench.analysis.checkpoints import HELD_OUT
from fgrpo_bench.analysis.stored import load
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.stats.intervals import FRACTIONS, estimate, estimate_difference
from fgrpo_bench.stats.selection import is_for_selection
from tests.support.report import (
    TASKS,
    copy,
    forget,
    rewrite_passk,
    small_sweep,
    with_columns,
)

N_PROBLEMS = 24
LEVELS = ["10", "9", "9", None] * 5 + ["10", "9", "2", "a"]
"""By problem: 10 has 6, 9 has 11, 2 and a have one each, and 5 have nothing."""
IDS = [f"p{i:03d}" for i in range(N_PROBLEMS)]


def of_level(level: str) -> list[int]:
    return [i for i, name in enumerate(LEVELS) if name == level]


@pytest.fixture(scope="module")
def levels(tmp_path_factory):
    """A small sweep whose problems have levels, an own number each and all one author; not to be
    changed."""
    root = tmp_path_factory.mktemp("levels")
    return with_columns(small_sweep(root), level=LEVELS, number=IDS, author=["me"] * N_PROBLEMS)


@pytest.fixture(scope="module")
def by_level(levels):
    return analyse(levels, by="level")


def values(results, cell: str, k: int) -> np.ndarray:
    """[seeds, problems], pass@k as it is stored."""
    rows = [
        point.passk("countdown").filter(k=k).sort("problem_id")["pass_at_k"].to_numpy()
        for point in results.points
        if point.label == cell
    ]
    return np.array(rows)


@pytest.mark.slow
def test_values_stand_in_rising_order_and_problems_without_one_are_in_none(by_level):
    first = [row for row in by_level.rows("by_value") if row.cell == "base" and row.k == 1]
    assert [(row.column, row.by, row.value, row.n_of_value) for row in first] == [
        ("countdown", "level", "2", 1),
        ("countdown", "level", "9", 11),
        ("countdown", "level", "10", 6),
        ("countdown", "level", "a", 1),
    ]
    assert by_level.notes_on_values("countdown") == (
        "5 of 24 problems have nothing in level and are left out.",
        "Of one problem, and so without an interval: 2, a.",
    )


@pytest.mark.slow
def test_a_value_has_the_means_and_intervals_of_its_own_problems(by_level, levels):
    rows = by_level.rows("by_value")
    assert {row.cell for row in rows} == set(by_level.by_cell)
    for row in rows:
        of_value = values(levels, row.cell, row.k)[:, of_level(row.value)]
        (alone,) = estimate(of_value[..., None], limits=FRACTIONS)
        assert row.mean == pytest.approx(of_value.mean())
        assert (row.low, row.high, row.standard_error, row.n_problems) == (
            pytest.approx(alone.low),
            pytest.approx(alone.high),
            pytest.approx(alone.standard_error),
            of_value.shape[1],
        )
        assert (row.low is None) == (row.value in ("2", "a"))


@pytest.mark.slow
def test_a_difference_has_the_interval_of_its_own_problems_and_holm_over_the_values(
    by_level, levels
):
    rows = by_level.rows("by_value_comparisons")
    pairs = {(row.new, row.old) for row in by_level.question_rows}
    assert {(row.new, row.old) for row in rows} == pairs
    assert {row.k for row in rows} == set(by_level.ks)
    for row in rows:
        of = of_level(row.value)
        new, old = (values(levels, cell, row.k)[:, of, None] for cell in (row.new, row.old))
        (alone,) = estimate_difference(new, old)
        assert row.difference == pytest.approx((new - old).mean())
        assert (row.low, row.high, row.p) == (
            pytest.approx(alone.low),
            pytest.approx(alone.high),
            pytest.approx(alone.p_value),
        )
    pair = next(iter(pairs))
    first = {row.value: row for row in rows if (row.new, row.old, row.k) == (*pair, 1)}
    small, large = sorted((first["9"], first["10"]), key=lambda row: row.p)
    assert small.p_holm == pytest.approx(min(1.0, 2 * small.p))
    assert large.p_holm == pytest.approx(max(small.p_holm, large.p))
    for row in (first["2"], first["a"]):  # of one problem: shown, tested by nobody
        assert row.difference is not None and (row.low, row.p, row.p_holm) == (None, None, None)


@pytest.mark.slow
def test_what_is_significant_holds_after_the_correction(levels, tmp_path):
    results = copy(levels, tmp_path)
    for point in results.points:
        of_9 = pl.col("problem_id").is_in([IDS[i] for i in of_level("9")])
        rate = 0.9 if point.label == "grpo-n8-g0.5" else 0.1
        rewrite_passk(
            point,
            lambda table, of_9=of_9, rate=rate: table.with_columns(
                pass_at_k=pl.when(of_9).then(pl.lit(rate)).otherwise(pl.lit(0.5))
            ),
        )
    rows = analyse(results, by="level").rows("by_value_comparisons")
    first = {row.value: row for row in rows
             if (row.new, row.old, row.k) == ("grpo-n8-g0.5", "grpo-n8-g0", 1)}  # fmt: skip
    assert (first["9"].verdict, first["9"].family) == (
        "significant",
        "the values of level at one k",
    )
    assert first["9"].difference == pytest.approx(0.8)
    assert (first["10"].verdict, first["10"].p_holm) == ("inconclusive", 1.0)
    assert (first["2"].verdict, first["2"].family) == ("inconclusive", None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "said"),
    [
        ("levle", r"--by levle: no column of the problems is called so.*countdown has level \(4 "
                  r"values\) \(did you mean level\?\)"),
        ("number", r"--by number: 24 different values over 24 problems of countdown; name a "
                   r"column of 2 to 30 values, and of fewer than there are problems: "),
        ("author", r"--by author: 1 different values over 24 problems of countdown"),
        ("problem_id", r"--by problem_id: no column of the problems is called so"),
    ],
)  # fmt: skip
def test_a_column_that_does_not_tell_problems_apart_is_refused(levels, by, said):
    with pytest.raises(ValueError, match=said):
        analyse(levels, by=by)
    with pytest.raises(ValueError, match=said):
        analysed(levels, by=by)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (None, "--by x: no column .*; mine has none"),
        ({"y": ["1", "2"] * 25}, r"--by x: no column .*; mine has y \(2 values\)"),
        ({"x": [str(i % 31) for i in range(50)]}, "--by x: 31 different values over 50 problems"),
        ({"x": [None] * 50}, "--by x: 0 different values over 50 problems"),
    ],
)
def test_so_is_one_of_generated_problems_and_of_more_values_than_a_table_has(columns, said):
    names = [f"p{i}" for i in range(50)]
    frame = None
    if columns is not None:
        frame = pl.DataFrame({"problem_id": names} | columns)
    with pytest.raises(ValueError, match=said):
        named_partitions("x", {"mine": frame}, {"mine": names})


@pytest.mark.slow
def test_of_several_benchmarks_those_that_have_the_column_are_told(levels):
    frame = pl.DataFrame({"problem_id": ["a", "b", "c", "d"], "level": ["1", "1", "2", "3"]})
    columns = {"mine": frame, "generated": None, "other": frame.drop("level")}
    (part,) = named_partitions("level", columns, {key: ["a", "b", "c"] for key in columns})
    assert part.benchmark == "mine" and part.problems == {"1": ("a", "b"), "2": ("c",)}


def test_half_of_the_problems_chose_nothing_and_is_reported(tmp_path):
    results = with_columns(
        small_sweep(tmp_path, "smoke", "experiment.checkpoints=every",
                    "experiment.train.save_every=5"),
        level=["1", "2"] * 12,
    )  # fmt: skip
    rows = analyse(results, HELD_OUT, "level").rows("by_value")
    kept = [name for name in IDS if not is_for_selection(name)]
    for level in ("1", "2"):
        n_kept = sum(int(name[1:]) % 2 == int(level) - 1 for name in kept)
        assert {row.n_of_value for row in rows if row.value == level} == {n_kept}


@pytest.mark.slow
def test_a_stored_analysis_is_kept_and_told_by_another_column(levels, tmp_path):
    results = copy(levels, tmp_path)
    plain = analysed(results)
    assert plain.by_value.is_empty() and plain.by is None
    record = results.paths.analysis / "analysis.json"
    before = read_json(record)
    told = load(results.paths.sweep, root=results.paths.root, by="level")
    assert told.by == "level" and set(told.by_value["value"]) == {"2", "9", "10", "a"}
    assert told.estimates.equals(plain.estimates)
    assert read_json(record) == before and analysed(results).by_value.is_empty()


# A benchmark that is made of tasks is told by these without being asked to.


def test_a_task_scores_the_mean_over_its_own_problems_and_seeds(of_tasks):
    analysis = analyse(of_tasks)
    assert analysis.by_value["value"].unique().sort().to_list() == sorted(TASKS)
    assert set(analysis.by_value["by"]) == {"task"}
    for row in analysis.by_value.filter(value="arrow_maze").iter_rows(named=True):
        of_value = values(of_tasks, row["cell"], row["k"])[:, 1::3]
        assert row["mean"] == pytest.approx(of_value.mean())
        assert (row["n_of_value"], len(row["seeds"])) == (8, len(of_value))
        assert (row["n_draws"], row["unscored"]) == (64, 0)


def test_draws_that_cannot_be_judged_are_counted_with_their_task_and_score_nothing(of_tasks):
    of_value = analyse(of_tasks).by_value.filter(value="no | verifier")
    assert of_value["mean"].null_count() == len(of_value) > 0
    assert set(of_value["unscored"]) == {1.0} and set(of_value["n_draws"]) == {64.0}
    assert set(of_value["n_of_value"]) == {8} and set(of_value["n_problems"]) == {0}


def test_a_problem_that_one_seed_lacks_is_left_out_of_its_task(tmp_path, of_tasks):
    results = copy(of_tasks, tmp_path)
    point = next(point for point in results.points if point.cell is not None)
    rewrite_passk(
        point,
        lambda table: table.with_columns(
            pl.when(pl.col("problem_id") != "p001").then(pl.col("pass_at_k")).alias("pass_at_k")
        ),
    )
    (row,) = analyse(results).by_value.filter(value="arrow_maze", k=1, cell=point.label).to_dicts()
    of_value = values(results, point.label, 1)[:, 1::3]
    assert row["mean"] == pytest.approx(of_value[:, 1:].mean()) and row["n_problems"] == 7


def test_sweeps_without_such_a_column_and_unfinished_ones_have_no_rows(
    analysis, tmp_path, of_tasks
):
    assert analysis.by_value.is_empty() and analysis.by_value_comparisons.is_empty()
    results = copy(of_tasks, tmp_path)
    results = forget(results, *(point.point_id for point in results.points))
    assert analyse(results).by_value.is_empty()
    assert analyse(results, by="task").by_value.is_empty()  # nothing says yet what there is


def test_a_lost_spec_matters_where_none_is_left_that_says_where_the_columns_are(tmp_path):
    results = with_columns(small_sweep(tmp_path, "smoke"), level=LEVELS)
    first, *others = results.points
    for point in others:
        point.evaluate.spec.unlink()
    assert len(analyse(results, by="level").by_value)
    first.evaluate.spec.unlink()
    assert analyse(results).by_value.is_empty()
    with pytest.raises(FileNotFoundError, match=r"spec\.json"):
        analyse(results, by="level")
