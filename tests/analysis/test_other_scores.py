"""What is scored beside a benchmark's pass@k: other graders, rare correct answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.analysis.scoring import count_stored, score
from fgrpo_bench.analysis.stored import analysis_digest
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.paper.published import published_delta_nll
from fgrpo_bench.report.build import appendix, write_report
from fgrpo_bench.report.tables.comparisons import grader_tables
from fgrpo_bench.report.verify import verify
from fgrpo_bench.specs import Cell
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import GRADES, PASSK, read_table, write_table
from tests.report.conftest import plain_figures as plain_figures
from tests.support.dashboard import GRADER, add_draws
from tests.support.report import (
    copy,
    scored,
    small_sweep,
)

ALSO = "experiment.evaluation.benchmarks.countdown.extra_graders=[math]"
SECOND = "math-5"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A small sweep whose second grader takes every draw of the first eight problems for right; not
    to be changed."""
    results = small_sweep(tmp_path_factory.mktemp("graders"), "smoke", ALSO)
    lenient = pl.col("problem_id").str.slice(1).cast(pl.Int64) < 8
    for point in results.points:
        add_draws(point, "countdown", ("1", "2", "3"))
        paths = point.evaluate.benchmark("countdown")
        grades = read_table(paths.grades(GRADER), GRADES).with_columns(
            outcome=pl.when(lenient).then(pl.lit("correct")).otherwise("outcome"),
            grader_version=pl.lit(SECOND),
        )
        write_table(paths.grades(SECOND), grades, GRADES)
        counts = count_stored(paths.grades(SECOND), results.stopping, draws=paths.draws)
        table = score(counts, results.evaluation["ks"], results.stopping)
        write_table(paths.passk(SECOND), table, PASSK)
        target = point.evaluated().target
        target["graders"]["countdown/math"] = SECOND
        written = [paths.grades(SECOND), paths.passk(SECOND)]
        rewritten(point.evaluate, written, target=target)
    return load_results(results.paths)


def test_every_cell_has_its_mean_over_problems_and_seeds(sweep):
    analysis = analyse(sweep)
    assert set(analysis.other_graders["cell"]) == set(analysis.by_cell)
    for row in analysis.other_graders.iter_rows(named=True):
        own = [
            point.extra_passk("countdown", "math").filter(k=row["k"])["pass_at_k"].mean()
            for point in sweep.points
            if analysis.by_cell[row["cell"]].method == point.method
        ]
        assert row["pass_at_k"] == pytest.approx(sum(own) / len(own))
        assert row["versions"] == [SECOND] and row["n_seeds"] == len(own)
        assert row["pass_at_k"] > analysis.estimate("countdown", row["cell"], row["k"]).mean


def test_the_report_has_both_and_says_by_which_its_other_tables_are(sweep):
    analysis = analyse(sweep)
    (table,) = grader_tables(analysis)
    assert table in appendix(analysis)
    assert table.title == "countdown: pass@k in percent by each grader"
    first, last = analysis.ends
    assert table.header[3:] == tuple(
        f"pass@{k} by {name}" for k in (first, last) for name in ("countdown", "math")
    )
    assert table.notes[0].startswith(
        "All other tables and figures of countdown go by the grader countdown;"
    )
    assert SECOND in table.notes[0]
    rows = {row[0]: row for row in table.rows}
    assert rows["Base"][3] != rows["Base"][4] != "-"


def test_a_sweep_that_is_not_judged_by_the_second_yet_has_no_row(tmp_path, sweep):
    results = copy(sweep, tmp_path)
    for point in results.points:
        marker = read_json(point.evaluate.done)
        del marker["target"]["graders"]["countdown/math"]
        write_json(point.evaluate.done, marker)
    assert analyse(load_results(results.paths)).other_graders.is_empty()


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_changed_verdicts_of_the_second_are_another_analysis_and_are_found(
    tmp_path, sweep, monkeypatch
):
    results = copy(sweep, tmp_path)
    write_report(results, formats=["csv"])
    file = results.paths.report / "results.csv"
    assert verify(file, root=tmp_path, regrade=False).differences == ()
    before = analysis_digest(results)
    path = results.points[0].evaluate.benchmark("countdown").passk(SECOND)
    table = read_table(path, PASSK)
    write_table(path, table.with_columns(pass_at_k=pl.lit(0.25)), PASSK)
    assert analysis_digest(results) != before
    said = "\n".join(verify(file, root=tmp_path, regrade=False).differences)
    assert f"{path.name}: is not what the stored grades give" in said
    write_table(path, table, PASSK)
    monkeypatch.setattr("fgrpo_bench.report.verify.grader_version", lambda name: f"{name}-9")
    found = verify(file, root=tmp_path, regrade=True).differences
    for own, now in ((GRADER, "countdown-9"), (SECOND, "math-9")):
        said = f"was graded by {own}, and this is {now}"
        assert sum(said in line for line in found) == len(results.points)


def test_sweeps_without_such_scores_have_no_rows(analysis):
    assert analysis.other_graders.is_empty() and not list(grader_tables(analysis))
    assert analysis.likelihood.is_empty()


def test_scores_stand_by_seed_beside_the_papers(finished: SweepResults, tmp_path: Path) -> None:
    runs = [point for point in finished.points if point.label == "grpo-n8-g0"]
    values = {point.point_id: 0.5 + i for i, point in enumerate(runs)}
    (row,) = analyse(scored(finished, tmp_path, values)).likelihood.to_dicts()
    assert (row["cell"], row["seeds"], row["by_seed"]) == (
        "grpo-n8-g0",
        [11, 12, 13],
        [0.5, 1.5, 2.5],
    )
    assert (row["mean"], row["n_rare"], row["published"]) == (1.5, [300] * 3, "0.68")


def test_an_empty_set_has_no_score(finished: SweepResults, tmp_path: Path) -> None:
    point = next(point for point in finished.points if point.cell is not None)
    assert analyse(scored(finished, tmp_path, {point.point_id: None})).likelihood.is_empty()


@pytest.mark.parametrize(
    ("gamma", "size", "figure"), [(0.0, 2, "0.19"), (0.0, 32, "0.52"), (0.5, 8, "0.46")]
)
def test_the_papers_figures_are_those_of_its_table_2(gamma: float, size: int, figure: str) -> None:
    cell = Cell(algorithm="grpo", group_size=size, focal_gamma=gamma)
    assert published_delta_nll(cell) == figure
    assert published_delta_nll(replace(cell, learning_rate_factor=0.5)) is None
