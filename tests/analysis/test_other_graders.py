"""pass@k by graders beside a benchmark's own: in the analysis, in the report, and verified."""

from __future__ import annotations

import polars as pl
import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.frames import digest_of
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.content import content
from fgrpo_bench.report.optional_tables import grader_tables
from fgrpo_bench.report.verify import verify
from fgrpo_bench.results import load_results
from fgrpo_bench.scoring import count_stored, score
from fgrpo_bench.stages.files import read_json, write_json
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.tables import GRADES, PASSK, read_table, write_table
from tests.support.dashboard import GRADER, add_draws
from tests.support.report import copy, small_sweep

ALSO = "experiment.evaluation.benchmarks.countdown.extra_graders=[math]"
SECOND = "math-3"


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
        table = score(count_stored(paths.grades(SECOND), None), results.evaluation["ks"], None)
        write_table(paths.extra_passk(SECOND), table, PASSK)
        target = point.evaluated().target
        target["graders"]["countdown/math"] = SECOND
        written = [paths.grades(SECOND), paths.extra_passk(SECOND)]
        rewritten(point.evaluate, written, target=target)
    return load_results(results.paths)


def test_every_cell_has_its_mean_over_problems_and_seeds(sweep):
    analysis = analyse(sweep)
    assert set(analysis.other_graders["cell"]) == set(analysis.by_cell)
    for row in analysis.other_graders.iter_rows(named=True):
        own = [
            point.passk_beside("countdown", "math").filter(k=row["k"])["pass_at_k"].mean()
            for point in sweep.points
            if analysis.by_cell[row["cell"]].method == point.method
        ]
        assert row["pass_at_k"] == pytest.approx(sum(own) / len(own))
        assert row["versions"] == [SECOND] and row["n_seeds"] == len(own)
        assert row["pass_at_k"] > analysis.estimate("countdown", row["cell"], row["k"]).mean


def test_the_report_has_both_and_says_by_which_its_other_tables_are(sweep):
    analysis = analyse(sweep)
    (table,) = grader_tables(analysis)
    assert table in content(analysis)
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


def test_a_benchmark_with_one_grader_has_no_such_table(analysis):
    assert analysis.other_graders.is_empty() and not list(grader_tables(analysis))


def test_a_sweep_that_is_not_judged_by_the_second_yet_has_no_row(tmp_path, sweep):
    results = copy(sweep, tmp_path)
    for point in results.points:
        marker = read_json(point.evaluate.done)
        del marker["target"]["graders"]["countdown/math"]
        write_json(point.evaluate.done, marker)
    assert analyse(load_results(results.paths)).other_graders.is_empty()


def test_changed_verdicts_of_the_second_are_another_analysis_and_are_found(tmp_path, sweep):
    results = copy(sweep, tmp_path)
    write_report(results, formats=["csv"])
    file = results.paths.report / "results.csv"
    assert verify(file, root=tmp_path, regrade=False).differences == ()
    before = digest_of(results)
    path = results.points[0].evaluate.benchmark("countdown").extra_passk(SECOND)
    table = read_table(path, PASSK).with_columns(pass_at_k=pl.lit(0.25))
    write_table(path, table, PASSK)
    assert digest_of(results) != before
    said = "\n".join(verify(file, root=tmp_path, regrade=False).differences)
    assert "pass@k is not what the stored grades give" in said and path.name in said


def test_verdicts_of_the_second_are_looked_at_too(tmp_path, sweep, monkeypatch):
    results = copy(sweep, tmp_path)
    write_report(results, formats=["csv"])
    monkeypatch.setattr("fgrpo_bench.report.recomputed.grader_version", lambda name: f"{name}-9")
    found = verify(results.paths.report / "results.csv", root=tmp_path, regrade=True)
    for own, now in ((GRADER, "countdown-9"), (SECOND, "math-9")):
        said = f"was graded by {own}, and this is {now}"
        assert sum(said in line for line in found.differences) == len(results.points)
