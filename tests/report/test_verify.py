"""Verifying a table: what was not touched agrees, and every kind of change is named."""

from __future__ import annotations

import shutil

import polars as pl
import pytest

from fgrpo_bench.analysis.other_scores import likelihood_stages
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.verify import verify
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, LIKELIHOODS, PASSK, read_table, write_table
from tests.support.graded import draw_and_grade
from tests.support.report import ONE_SEED, copy, rewrite_passk, scored, small_sweep


@pytest.fixture
def results(reported, tmp_path):
    return copy(reported, tmp_path)


def grades_of(results):
    return results.points[-1].evaluate.benchmark("countdown").grades("countdown-1")


def change_an_outcome(path):
    table = read_table(path, GRADES)
    first = table["outcome"][0]
    other = "correct" if first == "incorrect" else "incorrect"
    write_table(path, table.with_columns(outcome=pl.Series([other, *table["outcome"][1:]])), GRADES)


@pytest.mark.parametrize("name", ["report.md", "table.tex", "results.csv", "report.html"])
@pytest.mark.slow
def test_an_untouched_file_agrees_to_the_last_digit(reported, name, capsys):
    file = str(reported.paths.report / name)
    assert main(["--verify", file, "--regrade"]) == 0
    assert "every number computed and judged again, none differs" in capsys.readouterr().out


def test_a_number_that_was_edited_by_hand_is_named_with_its_line(results, capsys):
    file = results.paths.report / "results.csv"
    header, first, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([header, first.replace("0.", "0.9", 1), *rest]))
    assert main(["--verify", str(file)]) == 1
    said = capsys.readouterr().out
    assert "results.csv: was changed since the report was built" in said
    row = "results.csv, line 2, row method Base, k 1, column pass_at_k: has '0.9"
    assert row in said and "computed again '0." in said


def test_grades_that_changed_are_named_and_what_follows_from_them(results):
    change_an_outcome(grades_of(results))
    found = verify(
        results.paths.report / "table.tex", root=results.paths.root, regrade=False
    ).differences
    point = results.points[-1].point_id
    assert any(
        line.endswith("grades.countdown-1.parquet: was changed since the report was built")
        for line in found
    )
    assert f"{point}, countdown: pass@k is not what the stored grades give" in found


@pytest.mark.slow
def test_a_verdict_that_the_grader_does_not_give_is_found_by_judging_again(results):
    paths = results.points[-1].evaluate.benchmark("countdown")
    change_an_outcome(grades_of(results))
    grades = read_table(grades_of(results), GRADES)
    ks = read_json(results.points[-1].evaluate.spec)["evaluation"]["ks"]
    clusters = read_table(paths.passk, PASSK).select("problem_id", "cluster").unique()
    again = score(count(grades), ks).drop("cluster").join(clusters, on="problem_id")
    write_table(paths.passk, again, PASSK)  # as if it had been judged so
    rewritten(results.points[-1].evaluate, [grades_of(results), paths.passk])
    write_report(load_results(results.paths))
    file = results.paths.report / "table.tex"
    assert verify(file, root=results.paths.root, regrade=False).differences == ()
    (line,) = verify(file, root=results.paths.root, regrade=True).differences
    assert "draw 0 of" in line and "is stored as" in line and "and judged" in line


@pytest.mark.slow
def test_a_cluster_that_a_problem_does_not_have_is_named_by_judging_again(results):
    point = results.points[-1]
    first = sorted(read_table(point.evaluate.benchmark("countdown").passk, PASSK)["problem_id"])[0]
    other = pl.when(problem_id=first).then(pl.lit("other")).otherwise("cluster")
    for each in results.points:
        rewrite_passk(each, lambda table: table.with_columns(cluster=other))
        rewritten(each.evaluate, [each.evaluate.benchmark("countdown").passk])
    write_report(load_results(results.paths))
    file = results.paths.report / "table.tex"
    assert verify(file, root=results.paths.root, regrade=False).differences == ()
    wrong = verify(file, root=results.paths.root, regrade=True).differences
    bag = "".join(sorted(first.partition("-")[0]))
    said = f"1 problems are stored with another cluster than they have, e.g. {first} with 'other' "
    assert [line.partition(": ")[2] for line in wrong] == [f"{said}in place of '{bag}'"] * 3


@pytest.mark.slow
def test_an_earlier_checkpoint_is_verified_as_the_last_one_is(tmp_path):
    every = ("experiment.train.save_every=10", "experiment.checkpoints=every")
    results = small_sweep(tmp_path, "smoke", ONE_SEED, *every)
    for point in results.points:
        for checkpoint in point.checkpoints:
            draw_and_grade(point.at(checkpoint))
    file = write_report(load_results(results.paths)).files[0]
    assert verify(file, root=tmp_path, regrade=True).differences == ()
    point = results.points[-1]
    first, last = point.checkpoints
    change_an_outcome(point.at(first).evaluate.benchmark("countdown").grades("countdown-1"))
    changed, wrong = verify(file, root=tmp_path, regrade=False).differences
    assert changed.endswith("was changed since the report was built")
    said = f"{point.point_id} at step {first.step}, countdown: pass@k is not what the stored"
    assert wrong.startswith(said) and first.step < last.step


def test_a_false_verdict_on_a_response_that_was_judged_before_is_found(results):
    paths = results.points[-1].evaluate.benchmark("countdown")
    draws = read_table(paths.draws, DRAWS)
    again = draws.filter(pl.struct("problem_id", "response").is_duplicated()).row(-1, named=True)
    this = (pl.col("problem_id") == again["problem_id"]) & (pl.col("draw") == again["draw"])
    grades = read_table(grades_of(results), GRADES)
    stored = grades.filter(this)["outcome"][0]
    other = "correct" if stored == "incorrect" else "incorrect"
    outcome = pl.when(this).then(pl.lit(other)).otherwise("outcome").alias("outcome")
    write_table(grades_of(results), grades.with_columns(outcome), GRADES)
    found = verify(
        results.paths.report / "table.tex", root=results.paths.root, regrade=True
    ).differences
    said = f"draw {again['draw']} of {again['problem_id']} is stored as {other} and judged {stored}"
    assert any(line.endswith(said) for line in found)


def test_draws_without_a_grade_and_grades_without_a_draw_are_found_by_judging_again(results):
    paths = results.points[-1].evaluate.benchmark("countdown")
    draws, grades = read_table(paths.draws, DRAWS), read_table(grades_of(results), GRADES)
    file = results.paths.report / "table.tex"
    write_table(paths.draws, draws[1:], DRAWS)
    found = verify(file, root=results.paths.root, regrade=True).differences
    assert any("1 draws have a grade and no stored text, e.g. 0 of " in line for line in found)
    write_table(paths.draws, draws, DRAWS)
    write_table(grades_of(results), grades[2:], GRADES)
    found = verify(file, root=results.paths.root, regrade=True).differences
    assert any("2 draws have a stored text and no grade, e.g. 0 of" in line for line in found)


@pytest.mark.slow
def test_bounds_that_the_grades_do_not_give_are_found_though_the_report_has_them(results):
    def halved(table):
        return table.with_columns(pass_at_k_low=pl.col("pass_at_k_low") / 2)

    rewrite_passk(results.points[-1], halved)
    point = results.points[-1]
    rewritten(point.evaluate, [point.evaluate.benchmark("countdown").passk])
    write_report(load_results(results.paths))
    (line,) = verify(
        results.paths.report / "table.tex", root=results.paths.root, regrade=False
    ).differences
    assert line.endswith("countdown: pass@k is not what the stored grades give")


@pytest.mark.slow
def test_a_mean_likelihood_that_its_answers_do_not_give_is_found(results, tmp_path):
    point = next(p for p in results.points if p.cell is not None)
    made = scored(results, tmp_path / "scored", {point.point_id: 0.5})
    (stage,) = (stage for _, _, stage in likelihood_stages(made))
    rows = [("p", 0, 2.0, 0.25), ("p", 1, 2.0, 0.75)]
    write_table(
        stage.likelihoods, pl.DataFrame(rows, schema=LIKELIHOODS, orient="row"), LIKELIHOODS
    )
    file = write_report(made).files[0]
    assert verify(file, root=made.paths.root, regrade=False).differences == ()
    write_json(stage.done, read_json(stage.done) | {"delta_nll": 0.4})
    found = verify(file, root=made.paths.root, regrade=False).differences
    assert (
        f"{point.point_id}, step {point.step}: delta NLL is 0.4, and 0.5 over its answers" in found
    )


@pytest.mark.parametrize("text", ["{}", "[]", '{"sweep": "smoke"}', "not json"])
def test_what_is_no_provenance_is_refused_in_words(results, text, capsys):
    (results.paths.report / "provenance.json").write_text(text)
    assert main(["--verify", str(results.paths.report / "table.tex")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and "provenance.json" in error


def test_a_grader_of_another_version_is_not_called_a_difference_in_verdicts(results, monkeypatch):
    monkeypatch.setattr("fgrpo_bench.report.verify.grader_version", lambda name: f"{name}-9")
    found = verify(
        results.paths.report / "table.tex", root=results.paths.root, regrade=True
    ).differences
    assert len(found) == len(results.points)
    assert all("was graded by countdown-1, and this is countdown-9" in line for line in found)


def test_a_table_that_was_copied_with_its_provenance_is_verified_against_the_root(
    results, tmp_path, capsys
):
    paper = tmp_path / "paper" / "tables"
    paper.mkdir(parents=True)
    for name in ("table.tex", "provenance.json"):
        shutil.copy(results.paths.report / name, paper)
    asked = ["--verify", str(paper / "table.tex"), "--root", str(results.paths.root)]
    assert main(asked) == 0
    (paper / "provenance.json").unlink()
    assert main(asked) == 1
    assert "copy a table together with its provenance" in capsys.readouterr().err


def test_what_cannot_be_verified_is_refused(results, capsys):
    digests = results.paths.report / "provenance.json"
    assert main(["--verify", str(digests)]) == 1
    assert "is none of report.md, table.tex, results.csv, report.html" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["smoke", "--verify", str(digests)])
