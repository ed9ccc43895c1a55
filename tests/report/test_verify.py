"""Every edit of a report, or of what its numbers are computed from, is found by `--verify` and
named by file and line, and what was not touched agrees."""

from __future__ import annotations

import re
import shutil
from random import Random

import polars as pl
import pytest

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import write_report
from fgrpo_bench.report.verify import verify
from fgrpo_bench.stages.digests import CHECKSUM_KEY, with_checksum
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, read_table, write_table
from tests.support.graded import draw_and_grade
from tests.support.report import ONE_SEED, small_sweep

pytestmark = pytest.mark.usefixtures("plain_figures")


def found(results, name="", *, regrade=False):
    return verify(results.paths.report / name, root=results.paths.root, regrade=regrade).differences


def unseen(results, name="", *, regrade=False):
    return verify(results.paths.report / name, root=results.paths.root, regrade=regrade).unseen


def evaluated(results):
    return results.points[-1].evaluate.benchmark("countdown")


def draws(results):
    return evaluated(results).draws


def grades(results):
    return evaluated(results).grades("countdown-1")


def passk(results):
    return evaluated(results).passk()


# edits


def edit_text(name, change):
    def edit(results):
        file = results.paths.report / name
        before = file.read_bytes()
        file.write_bytes(change(before))
        assert file.read_bytes() != before

    return edit


def replace_text(name, pattern, replacement):
    return edit_text(name, lambda text: re.sub(pattern, replacement, text, count=1))


def edit_table(path_of, schema, **columns):
    def edit(results):
        path = path_of(results)
        write_table(path, read_table(path, schema).with_columns(**columns), schema)

    return edit


def edit_outcome(results, *, at=0):
    """The other verdict on one draw."""
    table = read_table(grades(results), GRADES)
    values = table["outcome"].to_list()
    values[at] = "correct" if values[at] == "incorrect" else "incorrect"
    write_table(grades(results), table.with_columns(outcome=pl.Series(values)), GRADES)


def remove(name):
    return lambda results: (results.paths.report / name).unlink()


def add(name):
    return lambda results: (results.paths.report / name).write_text("of before")


def edit_record(name, change, *, resealed=False):
    """name: of a JSON file of the run. change: of what it says, in place."""

    def edit(results):
        at = results.paths.folder / name
        content = {key: value for key, value in read_json(at).items() if key != CHECKSUM_KEY}
        change(content)
        write_json(at, with_checksum(content) if resealed else content)

    return edit


def family_at_32(content):
    content["declaration"]["sweep"]["family"] = {"ks": [32]}


def without_a_point(content):
    del content["points"][-1]


def of_another_version(content):
    content["version"] = "v2"


def edit_a_digest_of_the_marker(results):
    stage = results.points[-1].train
    marker = read_json(stage.done)
    name = next(name for name in marker["outputs"] if name.endswith(".safetensors"))
    marker["outputs"][name]["sha256"] = "0" * 64
    write_json(
        stage.done, with_checksum({key: marker[key] for key in marker if key != CHECKSUM_KEY})
    )


def has_nothing_further(results):
    """One edit may be said of two files."""


REASON = pl.lit("for another reason")
BUILT_OF = "provenance.json: sweep.json and plan.json do not say what the report was built of"
CSV, TEX, MD, HTML = "results.csv", "report.tex", "report.md", "report.html"
EDITS = [
    {
        replace_text(CSV, rb",0\.\d", b",0.9"): (
            r"^results\.csv, line \d+: has '.*', built anew '.*0\."
        ),
        edit_text(TEX, lambda text: text.replace(b"\n", b"\r\n")): (
            r"report\.tex: \d+ more lines differ"
        ),
        replace_text(MD, rb"\n\| GRPO .*", b""): (
            r"^report\.md, line \d+: has '.*', built anew '\| GRPO"
        ),
        replace_text(HTML, rb"<td>4</td>", b"<td>5</td>"): (
            r"^report\.html, line \d+: has '.*<td>5"
        ),
        replace_text("appendix.md", rb"\| GRPO", b"| PPO"): (
            r"^appendix\.md, line \d+: has '.*PPO"
        ),
        edit_text("coverage-countdown.svg", bytes.lower): (
            r"^coverage-countdown\.svg, line \d+: has"
        ),
        edit_text("plane-countdown.pdf", lambda b: b + b"%"): (
            r"plane-countdown\.pdf: differs from what"
        ),
        add("by-value.csv"): r"^by-value\.csv: is no file of this report$",
    },
    {
        edit_text(CSV, lambda text: text[:-1]): (
            r"^results\.csv, line \d+: has no such line, built anew ''"
        ),
        replace_text(MD, rb"## ", b"# "): (r"^report\.md, line \d+: has '# .*', built anew '## "),
        replace_text(HTML, rb'd="M 10 20"', b'd="M 10 21"'): (
            r"^report\.html, line \d+: has '.*M 10 21"
        ),
        remove("coverage-countdown.svg"): r"^coverage-countdown\.svg: is missing$",
    },
    {
        remove(MD): r"^report\.md: is missing$",
        edit_outcome: r"grades\.countdown-1\.parquet: was changed since the report was built$",
        has_nothing_further: r"passk\.parquet: is not what the stored grades give$",
    },
    {edit_a_digest_of_the_marker: (r"model\.safetensors: was changed since the report was built$")},
    {
        edit_record("report/provenance.json", of_another_version): (
            r"^provenance\.json: was changed after"
        )
    },
    {
        edit_record("report/provenance.json", of_another_version, resealed=True): (
            r"^provenance\.json: is of version v2, and stands in v1$"
        )
    },
    {edit_record("sweep.json", family_at_32, resealed=True): f"^{BUILT_OF}$"},
    {edit_record("plan.json", without_a_point, resealed=True): f"^{BUILT_OF}$"},
]
"""Edits of one verification, and what is said of each."""


@pytest.mark.slow
@pytest.mark.parametrize("edits", EDITS)
def test_an_edit_is_named_by_file_and_line(results, edits):
    for edit in edits:
        edit(results)
    differences = found(results)
    for said in edits.values():
        assert any(re.search(said, line) for line in differences), (said, differences)
    assert not any("judged" in line for line in differences)


@pytest.mark.slow
def test_a_number_that_was_edited_by_hand_is_named_by_the_command_with_its_line(results, capsys):
    file = results.paths.report / CSV
    header, first, *rest = file.read_text().splitlines(keepends=True)
    file.write_text("".join([header, first.replace("0.", "0.9", 1), *rest]))
    assert main(["--verify", str(file)]) == 1
    said = capsys.readouterr().out
    assert "results.csv, line 2: has '" in said and f"{file}: 1 differences" in said


def flip_a_bit(file, drawn):
    whole = file.read_bytes()
    at = drawn.randrange(len(whole))
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << drawn.randrange(8)]) + whole[at + 1 :])


@pytest.mark.slow
def test_any_flipped_bit_of_any_file_of_a_report_is_found(results):
    record = results.paths.report / "provenance.json"
    files = {file: file.read_bytes() for file in sorted(results.paths.report.iterdir())}
    for seed in range(3):
        for file in files.keys() - {record}:
            flip_a_bit(file, Random(f"{seed} {file.name}"))
        differences = found(results)
        unnoticed = [
            file.name
            for file in files.keys() - {record}
            if not any(line.startswith(file.name) for line in differences)
        ]
        assert unnoticed == [], seed
        for file, whole in files.items():
            file.write_bytes(whole)
        flip_a_bit(record, Random(seed))
        try:
            assert any(record.name in line for line in found(results)), seed
        except ValueError as refused:
            assert str(record) in str(refused)
        record.write_bytes(files[record])


# edits of which the report was built anew


def halved_bounds(results):
    edit_table(passk, PASSK, pass_at_k_low=pl.col("pass_at_k_low") / 2)(results)
    rewritten(results.points[-1].evaluate, [passk(results)])


@pytest.mark.slow
def test_pass_at_k_that_the_grades_do_not_give_is_found_in_a_report_that_was_built_of_it(results):
    halved_bounds(results)
    write_report(load_results(results.paths))
    (said,) = found(results)
    assert said.endswith("passk.parquet: is not what the stored grades give")


def without_the_first_grade(results):
    write_table(grades(results), read_table(grades(results), GRADES)[1:], GRADES)


def without_the_first_text(results):
    write_table(draws(results), read_table(draws(results), DRAWS)[1:], DRAWS)


def last_of_equal_responses(results):
    responses = read_table(draws(results), DRAWS).select("problem_id", "response")
    edit_outcome(
        results, at=responses.with_row_index().filter(responses.is_duplicated())["index"][-1]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (edit_outcome, r": 1 responses are judged otherwise: draw 0 of \S+ is stored as \w+ \("),
        (last_of_equal_responses, r": 1 responses are judged otherwise: draw \d+ of "),
        (edit_table(grades, GRADES, reason=REASON), r"\(for another reason\) and judged \w+ \("),
        (edit_table(grades, GRADES, extracted=REASON), r": \d\d+ responses are judged otherwise"),
        (without_the_first_grade, r": draw 0 of \S+ is stored as None \(None\) and judged \w"),
        (without_the_first_text, r": draw 0 of \S+ is stored as \w+ \(.*\) and judged nothing$"),
    ],
)
def test_a_false_verdict_is_found_by_judging_again(results, edit, said):
    edit(results)
    differences = found(results, regrade=True)
    assert any(re.search(said, line) for line in differences), differences


@pytest.mark.slow
def test_a_grader_of_another_version_is_not_called_a_difference_in_verdicts(reported, monkeypatch):
    monkeypatch.setattr("fgrpo_bench.report.verify.grader_version", lambda name: f"{name}-9")
    differences = found(reported, regrade=True)
    assert len(differences) == len(reported.points)
    assert all("was graded by countdown-1, and this is countdown-9" in line for line in differences)


@pytest.mark.slow
@pytest.mark.rare
def test_an_earlier_checkpoint_is_verified_as_the_last_one_is(tmp_path):
    every = ("experiment.train.save_every=10", "experiment.checkpoints=every")
    results = small_sweep(tmp_path, "smoke", ONE_SEED, *every)
    for point in results.points:
        for checkpoint in point.checkpoints:
            draw_and_grade(point.at(checkpoint))
    write_report(load_results(results.paths))
    assert found(results, regrade=True) == ()
    point = results.points[-1]
    first, _ = point.checkpoints
    path = point.at(first).evaluate.benchmark("countdown").grades("countdown-1")
    wrong = pl.when(draw=0).then(pl.lit("unscored")).otherwise("outcome")
    write_table(path, read_table(path, GRADES).with_columns(outcome=wrong), GRADES)
    wrong, changed = found(results)
    assert changed.endswith("was changed since the report was built")
    assert (
        wrong.endswith("is not what the stored grades give") and f"step-{first.step:05d}" in wrong
    )


# what is no report or damaged


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


@pytest.mark.slow
def test_a_name_that_would_steer_a_terminal_is_printed_escaped(results, capsys):
    (results.paths.report / "x\n\x1b[2J.svg").write_text("")
    assert main(["--verify", str(results.paths.report)]) == 1
    said = capsys.readouterr().out
    assert "\x1b" not in said and said.count("is no file of this report") == 1


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


@pytest.mark.slow
def test_what_was_not_looked_at_is_said(results):
    not_judged = "whether the grader still gives these grades"
    assert any(not_judged in line for line in unseen(results))
    assert not any(not_judged in line for line in unseen(results, regrade=True))
    draws(results).unlink()
    name = draws(results).relative_to(results.paths.folder)
    assert f"1 stored files that are not there, e.g. {name}" in unseen(results)


@pytest.mark.slow
def test_drawings_of_another_program_are_compared_with_their_digests_alone(results, monkeypatch):
    monkeypatch.setattr("fgrpo_bench.report.verify.drawing_program", lambda: "matplotlib 0")
    replace_text(HTML, rb'd="M 10 20"', b'd="M 10.0 20"')(results)
    assert found(results) == ()
    assert any("what the figures show, beyond their digests" in line for line in unseen(results))
    svg = results.paths.report / "coverage-countdown.svg"
    svg.write_bytes(svg.read_bytes().lower())
    replace_text(HTML, rb"</h2>", b"s</h2>")(results)
    figure, page = sorted(found(results))
    assert figure == f"{svg.name}: was changed since the report was built"
    assert page.startswith("report.html, line ")


@pytest.mark.slow
def test_the_folder_of_a_sweep_is_verified_whole_and_one_of_no_report_is_refused(reported, capsys):
    assert main(["--verify", str(reported.paths.folder), "--regrade"]) == 0
    assert "judged again and built anew, nothing differs" in capsys.readouterr().out
    assert main(["--verify", str(reported.paths.root)]) == 1
    assert "give a report's folder or a file of it" in capsys.readouterr().err


@pytest.mark.slow
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
