"""Every edit of a report or of what it rests on is found by `--verify`, forged digests or not, and
what was not touched agrees."""

from __future__ import annotations

import re
import shutil
from itertools import product

import polars as pl
import pytest

from fgrpo_bench.analysis.other_scores import likelihood_stages
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.scoring import count, score
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.verify import verify
from fgrpo_bench.stages.digests import SEAL, with_checksum
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, LIKELIHOODS, PASSK, read_table, write_table
from tests.support.graded import draw_and_grade, forge
from tests.support.report import ONE_SEED, copy, rewrite_passk, scored, small_sweep

pytestmark = pytest.mark.usefixtures("plain_figures")


def found(results, name="results.csv", *, regrade=False):
    return verify(results.paths.report / name, root=results.paths.root, regrade=regrade).differences


def unseen(results, name="results.csv", *, regrade=False):
    return verify(results.paths.report / name, root=results.paths.root, regrade=regrade).unseen


def evaluated(results):
    return results.points[-1].evaluate.benchmark("countdown")


def draws(results):
    return evaluated(results).draws


def grades(results):
    return evaluated(results).grades("countdown-1")


def passk(results):
    return evaluated(results).passk


def metrics(results):
    return results.points[-1].train.metrics


def svg(results):
    return results.paths.report / "coverage-countdown.svg"


# edits


def edit_text(name, change, *, forged=False):
    def edit(results):
        file = results.paths.report / name
        before = file.read_bytes()
        file.write_bytes(change(before))
        assert file.read_bytes() != before
        if forged:
            forge(results)

    return edit


def edit_table(path_of, schema, *, forged=False, **columns):
    def edit(results):
        path = path_of(results)
        write_table(path, read_table(path, schema).with_columns(**columns), schema)
        if forged:
            forge(results)

    return edit


def edit_outcome(results, *, at=0):
    """The other verdict on one draw."""
    table = read_table(grades(results), GRADES)
    values = table["outcome"].to_list()
    values[at] = "correct" if values[at] == "incorrect" else "incorrect"
    write_table(grades(results), table.with_columns(outcome=pl.Series(values)), GRADES)


def remove(path_of):
    return lambda results: path_of(results).unlink()


def edit_provenance(**entries):
    """entries: merged into the value of each key, or set where there is none."""

    def edit(results):
        at = results.paths.report / "provenance.json"
        known = {key: value for key, value in read_json(at).items() if key != SEAL}
        merged = {key: known.get(key, {}) | entries[key] for key in entries}
        write_json(at, with_checksum(known | merged))

    return edit


def edit_declared(name, change, *, resealed=False):
    """name: sweep.json or plan.json. change: of what it says, in place."""

    def edit(results):
        at = results.paths.folder / name
        content = read_json(at)
        change(content)
        write_json(at, with_checksum(content) if resealed else content)

    return edit


def family_at_32(content):
    content["declaration"]["sweep"]["family"] = {"ks": [32]}


def another_point(content):
    content["points"][1]["point_id"] = "other"


def without_a_point(content):
    del content["points"][-1]


def edit_weights(results):
    point = results.points[-1]
    (point.train.checkpoint(point.step) / "model.safetensors").write_bytes(b"other weights")


def edit_a_digest_of_the_marker(results):
    stage = results.points[-1].train
    marker = read_json(stage.done)
    name = next(name for name in marker["outputs"] if name.endswith(".safetensors"))
    marker["outputs"][name]["sha256"] = "0" * 64
    write_json(stage.done, with_checksum({key: marker[key] for key in marker if key != SEAL}))


def edit_the_cost_in_a_marker(results):
    stage = results.points[-1].train
    write_json(stage.done, read_json(stage.done) | {"cpu_seconds": 1.0})


def with_crlf(content):
    return content.replace(b"\n", b"\r\n")


def with_a_first_cr(content):
    return content.replace(b"\n", b"\r", 1)


REASON = pl.lit("for another reason")
SEALED = "was changed after it was frozen, or lost its seal"
BUILT_OF = "sweep.json and plan.json do not say what the report was built of"
CSV, TEX, MD = "results.csv", "report.tex", "report.md"
EDITS = [
    (edit_text("coverage-countdown.svg", bytes.lower), TEX, "countdown.svg: was changed"),
    (remove(svg), TEX, "coverage-countdown.svg: is missing"),
    (
        edit_text("plane-countdown.pdf", lambda b: b + b"%", forged=True),
        MD,
        "plane-countdown.pdf: drawn again it differs",
    ),
    (edit_text(TEX, with_crlf, forged=True), TEX, r"do not edit.\r', computed again '% Needs"),
    (edit_text(CSV, with_a_first_cr, forged=True), CSV, "results.csv, line 1: has"),
    (edit_text(CSV, lambda b: b[:-1], forged=True), CSV, "has no such line, computed again ''"),
    (edit_provenance(checked_by={"x": "y"}), CSV, "'checked_by' is nothing that"),
    (
        edit_provenance(inputs={"grpo-n4-g0-s11/eval/x": "0" * 64}),
        CSV,
        "eval/x: is gone since the report was built, or was never behind it",
    ),
    (edit_provenance(files={"a.txt": "0"}), CSV, "names 'a.txt', which is no file"),
    (edit_outcome, TEX, "grades.countdown-1.parquet: was changed since the report was built"),
    (edit_outcome, TEX, ", countdown: pass@k is not what the stored grades give"),
    (
        edit_table(grades, GRADES, reason=REASON, forged=True),
        CSV,
        "grades.countdown-1.parquet: is not what the marker of its stage has",
    ),
    (edit_table(draws, DRAWS, response=pl.lit("1+2")), CSV, "draws.parquet: was changed"),
    (remove(draws), CSV, "draws.parquet: is missing"),
    (edit_weights, CSV, "model.safetensors: was changed since the report was built"),
    (edit_a_digest_of_the_marker, CSV, "safetensors: is not what the marker"),
    (edit_the_cost_in_a_marker, CSV, "DONE.json: was changed after its stage"),
    (edit_declared("sweep.json", family_at_32), MD, f"sweep.json: {SEALED}"),
    (edit_declared("sweep.json", family_at_32, resealed=True), TEX, BUILT_OF),
    (edit_declared("plan.json", another_point), CSV, f"plan.json: {SEALED}"),
    (edit_declared("plan.json", without_a_point, resealed=True), CSV, BUILT_OF),
]
"""An edit, the file that is verified, and what is said."""


@pytest.mark.parametrize(("edit", "name", "said"), EDITS)
def test_an_edit_is_found_without_judging_again(results, edit, name, said):
    edit(results)
    differences = found(results, name)
    assert any(said in line for line in differences), differences


def test_a_number_that_was_edited_by_hand_is_named_by_the_command_with_its_line(results, capsys):
    file = results.paths.report / CSV
    header, first, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([header, first.replace("0.", "0.9", 1), *rest]))
    assert main(["--verify", str(file)]) == 1
    said = capsys.readouterr().out
    assert "results.csv: was changed since the report was built" in said
    row = "results.csv, line 2, row method Base, k 1, column pass_at_k: has '0.9"
    assert row in said and "computed again '0." in said


# edits of which the report was built anew


def as_if_judged_so(results):
    edit_outcome(results)
    ks = read_json(results.points[-1].evaluate.spec)["evaluation"]["ks"]
    clusters = read_table(passk(results), PASSK).select("problem_id", "cluster").unique()
    drawn = results.points[-1].evaluate.benchmark("countdown").draws
    counts = count(read_table(grades(results), GRADES), draws=read_table(drawn, DRAWS))
    again = score(counts, ks).drop("cluster")
    write_table(passk(results), again.join(clusters, on="problem_id"), PASSK)
    rewritten(results.points[-1].evaluate, [grades(results), passk(results)])


def another_cluster(results):
    first = pl.col("problem_id") == read_table(passk(results), PASSK)["problem_id"].min()
    for point in results.points:
        cluster = pl.when(first).then(pl.lit("other")).otherwise("cluster")
        rewrite_passk(point, lambda table, cluster=cluster: table.with_columns(cluster=cluster))
        rewritten(point.evaluate, [point.evaluate.benchmark("countdown").passk])


def halved_bounds(results):
    edit_table(passk, PASSK, pass_at_k_low=pl.col("pass_at_k_low") / 2)(results)
    rewritten(results.points[-1].evaluate, [passk(results)])


def other_words(column):
    def edit(results):
        edit_table(grades, GRADES, **{column: REASON})(results)
        rewritten(results.points[-1].evaluate, [grades(results)])

    return edit


def another_record_of_families(results):
    declared = {"declared": "2026-01-01", "family": "all", "question": "?", "comparisons": 1}
    declared |= {"sha256": "0" * 64, "trained": 0}
    edit_declared("sweep.json", lambda c: c.update(families=[declared]), resealed=True)(results)


BUILT_ANEW = [
    (as_if_judged_so, True, 1, r"draw 0 of \S+ is stored as \w+ and judged \w+$"),
    (
        another_cluster,
        True,
        3,
        r": 1 problems are stored with another cluster than they have, e\.g\. (\d+)-\S+ "
        r"with 'other' in place of '\d+'$",
    ),
    (
        other_words("reason"),
        True,
        6,
        "is stored as .*for another reason|: 67 more distinct responses are judged otherwise$",
    ),
    (
        other_words("extracted"),
        True,
        6,
        "is stored as .*for another reason|: 67 more distinct responses are judged otherwise$",
    ),
    (halved_bounds, False, 1, "countdown: pass@k is not what the stored grades give$"),
    (
        another_record_of_families,
        False,
        1,
        "^sweep.json: records the family 'all', and its settings give 'focal",
    ),
]
"""An edit, whether only judging again finds it, how many lines are said of it, and each of them."""


@pytest.mark.parametrize(("edit", "is_judged_again", "n", "said"), BUILT_ANEW)
def test_what_the_report_was_built_of_is_computed_and_judged_again(
    results, edit, is_judged_again, n, said
):
    edit(results)
    write_report(load_results(results.paths))
    if is_judged_again:
        assert found(results) == ()
    differences = found(results, regrade=is_judged_again)
    assert len(differences) == n, differences
    assert all(re.search(said, line) for line in differences), differences


def test_a_false_verdict_on_a_response_that_was_judged_before_is_found(results):
    responses = read_table(draws(results), DRAWS).select("problem_id", "response")
    at = responses.with_row_index().filter(responses.is_duplicated())["index"][-1]
    edit_outcome(results, at=at)
    row = read_table(grades(results), GRADES).row(at, named=True)
    said = f"draw {row['draw']} of {row['problem_id']} is stored as {row['outcome']} and judged "
    assert any(said in line for line in found(results, regrade=True))


def test_draws_without_a_grade_and_grades_without_a_draw_are_found_by_judging_again(results):
    stored = read_table(draws(results), DRAWS)
    write_table(draws(results), stored[1:], DRAWS)
    said = "1 draws have a grade and no stored text, e.g. 0 of "
    assert any(said in line for line in found(results, regrade=True))
    write_table(draws(results), stored, DRAWS)
    write_table(grades(results), read_table(grades(results), GRADES)[2:], GRADES)
    said = "2 draws have a stored text and no grade, e.g. 0 of"
    assert any(said in line for line in found(results, regrade=True))


def test_a_grader_of_another_version_is_not_called_a_difference_in_verdicts(reported, monkeypatch):
    monkeypatch.setattr("fgrpo_bench.report.verify.grader_version", lambda name: f"{name}-9")
    differences = found(reported, regrade=True)
    assert len(differences) == len(reported.points)
    assert all("was graded by countdown-1, and this is countdown-9" in line for line in differences)


@pytest.mark.slow
def test_an_earlier_checkpoint_is_verified_as_the_last_one_is(tmp_path):
    every = ("experiment.train.save_every=10", "experiment.checkpoints=every")
    results = small_sweep(tmp_path, "smoke", ONE_SEED, *every)
    for point in results.points:
        for checkpoint in point.checkpoints:
            draw_and_grade(point.at(checkpoint))
    write_report(load_results(results.paths))
    assert found(results, regrade=True) == ()
    point = results.points[-1]
    first, last = point.checkpoints
    path = point.at(first).evaluate.benchmark("countdown").grades("countdown-1")
    wrong = pl.when(draw=0).then(pl.lit("unscored")).otherwise("outcome")
    write_table(path, read_table(path, GRADES).with_columns(outcome=wrong), GRADES)
    changed, wrong = found(results)
    assert changed.endswith("was changed since the report was built")
    said = f"{point.point_id} at step {first.step}, countdown: pass@k is not what the stored"
    assert wrong.startswith(said) and first.step < last.step


@pytest.mark.slow
def test_a_mean_likelihood_that_its_answers_do_not_give_is_found(results, tmp_path):
    point = next(p for p in results.points if p.cell is not None)
    made = scored(results, tmp_path / "scored", {point.point_id: 0.5})
    (stage,) = (stage for _, _, stage in likelihood_stages(made))
    rows = [("p", 0, 2.0, 0.25), ("p", 1, 2.0, 0.75)]
    answers = pl.DataFrame(rows, schema=LIKELIHOODS, orient="row")
    write_table(stage.likelihoods, answers, LIKELIHOODS)
    write_report(made)
    assert found(made) == ()
    write_json(stage.done, read_json(stage.done) | {"delta_nll": 0.4})
    said = f"{point.point_id}, step {point.step}: delta NLL is 0.4, and 0.5 over its answers"
    assert said in found(made)


# what is no file, no report or damaged


def to_a_folder(path):
    path.mkdir()


def to_a_loop_of_links(path):
    path.symlink_to(path.name)


def test_what_is_no_file_is_a_difference_with_a_remedy_and_no_end(results):
    aside = results.paths.root / "aside"
    made = product([draws, passk, metrics, svg], [to_a_folder, to_a_loop_of_links])
    for path_of, replace in made:
        path = path_of(results)
        folder = results.paths.report if path_of is svg else results.paths.folder
        path.rename(aside)
        replace(path)
        differences = found(results, regrade=path_of is draws)
        name = path.relative_to(folder).as_posix()
        (line,) = [line for line in differences if line.startswith(name)]
        assert "check <sweep> --repair" in line, (name, replace)
        (path.rmdir if replace is to_a_folder else path.unlink)()
        aside.rename(path)
    assert found(results) == ()


def test_doubled_rows_of_pass_at_k_end_the_report_and_its_verification(results, capsys):
    path = passk(results)
    table = read_table(path, PASSK)
    pl.concat([table, table[:1]]).write_parquet(path)  # past the check of write_table
    shutil.rmtree(results.paths.analysis)
    root = ["--root", str(results.paths.root)]
    for arguments in (["smoke"], ["--verify", str(results.paths.report / CSV)]):
        assert main([*arguments, *root]) == 1
        error = capsys.readouterr().err
        assert f"{path} is damaged" in error and "delete it and run the sweep again" in error


def test_a_named_file_outside_the_folder_is_refused_and_printed_escaped(results, capsys):
    edit_provenance(files={"../x\n\x1b[2J.svg": "0" * 64})(results)
    assert main(["--verify", str(results.paths.report / CSV)]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said and said.count("which is no file of a report") == 1


def test_what_is_no_provenance_or_cannot_be_verified_is_refused_in_words(results, capsys):
    digests = results.paths.report / "provenance.json"
    assert main(["--verify", str(digests)]) == 1
    assert "is none of report.md, report.tex, results.csv, report.html" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["smoke", "--verify", str(digests)])
    capsys.readouterr()
    for text in ("{}", "[]", '{"sweep": "smoke"}', "not json"):
        digests.write_text(text)
        assert main(["--verify", str(results.paths.report / TEX)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ") and "provenance.json" in error, text


# what is looked at


def test_what_was_not_looked_at_is_said(results):
    not_judged = "whether the grader still gives these grades"
    said = unseen(results)
    assert any(not_judged in line for line in said)
    assert any("what the figures show" in line for line in said)
    assert not any(not_judged in line for line in unseen(results, regrade=True))
    for point in results.points:
        point.train.done.unlink()
    assert any("of 3 stages whose markers are missing" in line for line in unseen(results))


def test_a_report_of_another_run_is_named(results, tmp_path):
    moved = results.paths.folder.with_name("v2")
    copy(results, tmp_path / "other").paths.folder.rename(moved)
    said = verify(moved / "report" / CSV, root=results.paths.root, regrade=False).differences
    assert any("provenance.json: is of" in line for line in said)


def test_files_beside_with_forged_digests_are_named_as_hashed_and_found_by_the_folder(
    results, capsys
):
    names = (CSV, TEX, "report.html")
    for name in names:
        edit_text(name, lambda content: content + b"x", forged=True)(results)
    report = results.paths.report
    assert main(["--verify", str(report / MD)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (said,) = [line for line in lines if "beyond their digests" in line]
    assert said.startswith("not looked at: ") and "--verify of the folder" in said
    assert all(name in said for name in names)
    (report / "by-task.csv").write_text("of before")
    assert main(["--verify", str(report)]) == 1
    said = capsys.readouterr().out
    assert all(f"{name}, line " in said for name in names)
    assert "by-task.csv: is not of this report" in said


def test_the_folder_of_a_sweep_is_verified_whole_and_one_of_no_report_is_refused(reported, capsys):
    assert main(["--verify", str(reported.paths.folder), "--regrade"]) == 0
    said = capsys.readouterr().out
    assert "every number computed and judged again, none differs" in said
    assert "beyond their digests" not in said
    assert main(["--verify", str(reported.paths.root)]) == 1
    assert "give a report's folder or a file of it" in capsys.readouterr().err


def test_a_table_that_was_copied_with_its_provenance_is_verified_against_the_root(
    reported, tmp_path, capsys
):
    for name in (TEX, "provenance.json"):
        shutil.copy(reported.paths.report / name, tmp_path)
    asked = ["--verify", str(tmp_path / TEX), "--root", str(reported.paths.root)]
    assert main(asked) == 0
    (tmp_path / "provenance.json").unlink()
    assert main(asked) == 1
    assert "copy a table together with its provenance" in capsys.readouterr().err
