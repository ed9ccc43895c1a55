"""Every edit of a report or of what it rests on is found by `--verify`, forged digests or not."""

from __future__ import annotations

import re
import shutil

import polars as pl
import pytest

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.verify import verify
from fgrpo_bench.stages.digests import SEAL, with_checksum
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, read_table, write_table
from tests.support.graded import forge
from tests.support.report import copy


@pytest.fixture
def results(reported, tmp_path):
    return copy(reported, tmp_path)


def evaluated(results, at=-1):
    return results.points[at].evaluate.benchmark("countdown")


def edit_text(name, change, *, forged=False):
    def edit(results):
        file = results.paths.report / name
        before = file.read_bytes()
        file.write_bytes(change(before))
        assert file.read_bytes() != before
        if forged:
            forge(results)

    return edit


def edit_table(path_of, schema, *, forged=False, marked=False, **columns):
    def edit(results):
        path = path_of(results)
        write_table(path, read_table(path, schema).with_columns(**columns), schema)
        if marked:
            rewritten(results.points[-1].evaluate, [path])
        if forged:
            forge(results)

    return edit


def remove(path_of):
    return lambda results: path_of(results).unlink()


def svg(results):
    return results.paths.report / "coverage-countdown.svg"


def replace_svg(results):
    shutil.copy(results.paths.report / "curves-countdown.svg", svg(results))


def edit_provenance(**entries):
    """entries: merged into the value of each key, or set where there is none."""

    def edit(results):
        at = results.paths.report / "provenance.json"
        known = {key: value for key, value in read_json(at).items() if key != SEAL}
        write_json(
            at, with_checksum(known | {key: known.get(key, {}) | entries[key] for key in entries})
        )

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


SEALED = "was changed after it was frozen, or lost its seal"
BUILT_OF = "sweep.json and plan.json do not say what the report was built of"


def draws(results):
    return evaluated(results).draws


def grades(results):
    return evaluated(results).grades("countdown-1")


def metrics(results):
    return results.points[-1].train.metrics


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


def move_a_point(results):
    """By a hundredth of an inch, with its digest."""
    edit_text(
        "plane-countdown.svg",
        lambda b: re.sub(rb'(<use xlink:href="#\w+" x=")(\d+)', rb"\g<1>1\2", b, count=1),
        forged=True,
    )(results)


REASON = pl.lit("for another reason")


@pytest.mark.parametrize(
    ("edit", "name", "said"),
    [
        (edit_text("coverage-countdown.svg", bytes.lower), "table.tex", "svg: was changed"),
        (replace_svg, "table.tex", "coverage-countdown.svg: was changed"),
        (remove(svg), "table.tex", "coverage-countdown.svg: is missing"),
        (
            edit_text("plane-countdown.pdf", lambda b: b + b"%", forged=True),
            "report.md",
            "plane-countdown.pdf: drawn again it differs",
        ),
        (
            move_a_point,
            "plane-countdown.svg",
            "plane-countdown.svg, line ",
        ),
        (
            edit_text("table.tex", lambda b: b.replace(b"\n", b"\r\n"), forged=True),
            "table.tex",
            r"do not edit.\r', computed again '% Needs",
        ),
        (
            edit_text("results.csv", lambda b: b.replace(b"\n", b"\r", 1), forged=True),
            "results.csv",
            "results.csv, line 1: has",
        ),
        (
            edit_text("results.csv", lambda b: b[:-1], forged=True),
            "results.csv",
            "has no such line, computed again ''",
        ),
        (edit_provenance(checked_by={"x": "y"}), "results.csv", "'checked_by' is nothing that"),
        (
            edit_provenance(inputs={"grpo-n4-g0-s11/eval/x": "0" * 64}),
            "results.csv",
            "eval/x: is gone since the report was built, or was never behind it",
        ),
        (edit_provenance(files={"a.txt": "0"}), "results.csv", "names 'a.txt', which is no file"),
        (
            edit_table(grades, GRADES, reason=REASON, forged=True),
            "results.csv",
            "grades.countdown-1.parquet: is not what the marker of its stage has",
        ),
        (
            edit_table(draws, DRAWS, response=pl.lit("1+2")),
            "results.csv",
            "draws.parquet: was changed",
        ),
        (remove(draws), "results.csv", "draws.parquet: is missing"),
        (edit_weights, "results.csv", "model.safetensors: was changed since the report was built"),
        (edit_a_digest_of_the_marker, "results.csv", "safetensors: is not what the marker"),
        (edit_the_cost_in_a_marker, "results.csv", "DONE.json: was changed after its stage"),
        (edit_declared("sweep.json", family_at_32), "report.md", f"sweep.json: {SEALED}"),
        (edit_declared("sweep.json", family_at_32, resealed=True), "table.tex", BUILT_OF),
        (edit_declared("plan.json", another_point), "results.csv", f"plan.json: {SEALED}"),
        (edit_declared("plan.json", without_a_point, resealed=True), "results.csv", BUILT_OF),
    ],
)
def test_an_edit_is_found_without_judging_again(results, edit, name, said):
    edit(results)
    found = verify(results.paths.report / name, root=results.paths.root, regrade=False)
    assert any(said in line for line in found.differences), found.differences


@pytest.mark.parametrize("column", ["reason", "extracted"])
def test_words_of_a_grade_with_every_digest_forged_are_found_by_judging_again(results, column):
    edit_table(grades, GRADES, forged=True, marked=True, **{column: REASON})(results)
    file = results.paths.report / "results.csv"
    assert verify(file, root=results.paths.root, regrade=False).differences == ()
    found = verify(file, root=results.paths.root, regrade=True).differences
    assert any("is stored as" in line and "for another reason" in line for line in found)


def test_what_was_not_looked_at_is_said(reported, results):
    file = reported.paths.report / "results.csv"
    unseen = verify(file, root=reported.paths.root, regrade=False).unseen
    assert any("whether the grader still gives these grades" in line for line in unseen)
    assert any("what the figures show" in line for line in unseen)
    assert not any(
        "still gives these grades" in line for line in judged_again(file, reported).unseen
    )
    for point in results.points:
        point.train.done.unlink()
    file = results.paths.report / "results.csv"
    unseen = verify(file, root=results.paths.root, regrade=False).unseen
    assert any("of 3 stages whose markers are missing" in line for line in unseen)


def judged_again(file, results):
    return verify(file, root=results.paths.root, regrade=True)


def test_a_figure_is_verified_by_itself_and_a_report_of_another_run_is_named(results, tmp_path):
    assert verify(svg(results), root=results.paths.root, regrade=False).differences == ()
    other = copy(results, tmp_path / "other")
    moved = results.paths.folder.with_name("v2")
    other.paths.folder.rename(moved)
    found = verify(moved / "report" / "results.csv", root=results.paths.root, regrade=False)
    assert any("provenance.json: is of" in line for line in found.differences)


def test_doubled_rows_of_pass_at_k_end_the_report_and_its_verification(results, capsys):
    path = evaluated(results).passk
    table = read_table(path, PASSK)
    pl.concat([table, table[:1]]).write_parquet(path)  # past the check of write_table
    shutil.rmtree(results.paths.analysis)
    root = ["--root", str(results.paths.root)]
    for arguments in (["smoke"], ["--verify", str(results.paths.report / "results.csv")]):
        assert main([*arguments, *root]) == 1
        error = capsys.readouterr().err
        assert f"{path} is damaged" in error and "delete it and run the sweep again" in error


def test_files_beside_with_forged_digests_are_named_as_hashed_and_found_by_the_folder(
    results, capsys
):
    names = ("results.csv", "table.tex", "report.html")
    for name in names:
        edit_text(name, lambda content: content + b"x", forged=True)(results)
    report = results.paths.report
    assert main(["--verify", str(report / "report.md")]) == 0
    (said,) = [
        line for line in capsys.readouterr().out.splitlines() if "beyond their digests" in line
    ]
    assert said.startswith("not looked at: ") and "--verify of the folder" in said
    assert all(name in said for name in names)
    (report / "by-task.csv").write_text("of before")
    assert main(["--verify", str(report)]) == 1
    said = capsys.readouterr().out
    assert all(f"{name}, line " in said for name in names)
    assert "by-task.csv: is not of this report" in said


def test_the_folder_of_a_sweep_is_verified_whole_and_one_of_no_report_is_refused(reported, capsys):
    assert main(["--verify", str(reported.paths.folder)]) == 0
    said = capsys.readouterr().out
    assert "every number computed again, none differs" in said
    assert "beyond their digests" not in said
    assert main(["--verify", str(reported.paths.root)]) == 1
    assert "give a report's folder or a file of it" in capsys.readouterr().err


def to_a_folder(path):
    path.unlink()
    path.mkdir()


def to_a_loop_of_links(path):
    path.unlink()
    path.symlink_to(path.name)


def passk(results):
    return evaluated(results).passk


@pytest.mark.parametrize("replace", [to_a_folder, to_a_loop_of_links])
@pytest.mark.parametrize("path_of", [draws, passk, metrics, svg])
def test_what_is_no_file_is_a_difference_with_a_remedy_and_no_end(results, path_of, replace):
    path = path_of(results)
    replace(path)
    file = results.paths.report / "results.csv"
    verified = verify(file, root=results.paths.root, regrade=path_of is draws)
    said = [line for line in verified.differences if line.startswith(name_of(results, path))]
    (line,) = said
    assert "check <sweep> --repair" in line


def name_of(results, path):
    report = results.paths.report
    folder = report if path.is_relative_to(report) else results.paths.folder
    return path.relative_to(folder).as_posix()


def test_a_named_file_outside_the_folder_is_refused_and_printed_escaped(results, capsys):
    edit_provenance(files={"../x\n\x1b[2J.svg": "0" * 64})(results)
    assert main(["--verify", str(results.paths.report / "results.csv")]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said and said.count("which is no file of a report") == 1


def test_a_record_of_families_that_its_settings_do_not_give_is_found(results):
    declared = {"declared": "2026-01-01", "family": "all", "question": "?", "comparisons": 1}
    declared |= {"sha256": "0" * 64, "trained": 0}
    edit_declared("sweep.json", lambda c: c.update(families=[declared]), resealed=True)(results)
    write_report(load_results(results.paths))
    verified = verify(results.paths.report / "results.csv", root=results.paths.root, regrade=False)
    (line,) = verified.differences
    assert line.startswith("sweep.json: records the family 'all', and its settings give 'focal")
