"""Writing a report: whole, repeatable, and possible at any stage of a sweep; its page needs nothing
else, and its figures are verified."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import FILES, render, write_report
from fgrpo_bench.report.footnotes import redeclared
from fgrpo_bench.report.verify import verify
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.plan import DeclaredFamily
from tests.report.conftest import drawing_plainly
from tests.support.html import Seen
from tests.support.report import ONE_SEED, copy, forget, small_sweep

TEXTS = ["report.md", "report.tex", "results.csv", "report.html"]
TEXTS += ["appendix.md", "appendix.tex", "appendix.html", "main.tex", "provenance.json"]


def figures(*names):
    """Files of figures; those that fit a column have a version for it beside."""
    wide = ("losses-", "training-")
    versions = [
        version
        for name in names
        for version in ([name] if name.startswith(wide) else [name, f"{name}-column"])
    ]
    return [f"{version}.{kind}" for version in versions for kind in ("svg", "pdf")]


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_all_files_lie_in_the_report_folder_and_the_text_names_the_question(finished, tmp_path):
    results = copy(finished, tmp_path)
    report = write_report(results)
    assert [file.name for file in report.files] == [
        *TEXTS,
        *figures(
            *("differences-countdown", "plane-countdown", "curves-countdown"),
            *("by-group-size-countdown", "losses-countdown", "coverage-countdown"),
            "training-grpo",
        ),
    ]
    assert {file.parent for file in report.files} == {results.paths.report}
    assert sorted(results.paths.report.iterdir()) == sorted(report.files)
    assert "\n\nDoes a focal weight at N = 8" in report.text
    page = (results.paths.report / "report.html").read_text()
    assert page.count("<table>") == 3 and "Does a focal weight at N = 8" in page
    appendix = Seen((results.paths.report / "appendix.html").read_text())
    assert appendix.tags.count("table") == 7
    assert {v for n, v in appendix.attributes if n == "href" and v[0] != "#"} == {"report.html"}


def test_a_paper_names_files_that_are_there_and_shows_every_figure_once(real_run):
    paper = (real_run.report / "main.tex").read_text()
    assert paper.count(r"\documentclass") == paper.count(r"\end{document}") == 1
    parts = re.findall(r"\\input\{(.*?)\}", paper)
    assert parts == ["report.tex", "appendix.tex"]
    texts = [(real_run.report / part).read_text() for part in parts]
    shown = [re.findall(r"\\includegraphics(?:\[.*?\])?\{(.*?)\}", text) for text in texts]
    assert {name.partition("-")[0] for name in shown[0]} == {"by", "coverage"}
    assert texts[0].count(r"\begin{table") == 1
    drawn = [file.stem for file in real_run.report.glob("*.pdf")]
    for name in drawn:
        is_wide = f"{name}-column" in drawn
        assert (shown[0] + shown[1]).count(name) == (0 if is_wide else 1), name
    for text in (paper, *texts):
        begun, ended = (re.findall(rf"\\{word}\{{(.*?)\}}", text) for word in ("begin", "end"))
        assert sorted(begun) == sorted(ended)


def test_every_figure_is_shown_well_formed_and_without_a_date(real_run):
    text = (real_run.report / "report.md").read_text()
    for file in real_run.report.iterdir():
        is_shown = file.suffix == ".svg" and not file.stem.endswith("-column")
        if file.suffix in (".svg", ".pdf"):
            assert (f"]({file.name})" in text) == is_shown
        if file.suffix == ".svg":
            root = ElementTree.parse(file).getroot()
            assert not list(root.iter("{http://purl.org/dc/elements/1.1/}date"))


def test_the_page_is_one_file_that_asks_for_nothing_and_whose_links_have_their_ends(real_run):
    seen = Seen((real_run.report / "report.html").read_text())
    assert not {"script", "link", "img", "iframe", "object"} & set(seen.tags)
    outside = [v for n, v in seen.attributes if n in ("src", "href", "xlink:href")]
    assert {value for value in outside if not value.startswith("#")} == {"appendix.html"}
    drawn = [*real_run.report.glob("*.svg")]  # with those for narrow screens
    assert seen.tags.count("svg") == len(drawn) > 4
    assert "viewport" in [value for name, value in seen.attributes if name == "name"]
    assert len(set(seen.ids)) == len(seen.ids)
    ends = {value[1:] for value in outside if value.startswith("#")}
    assert ends <= set(seen.ids)


@pytest.mark.rare  # as those of a real run are, which are verified whole
@pytest.mark.slow
def test_a_figure_is_verified_by_itself_and_a_moved_point_is_found(finished, tmp_path):
    results = copy(finished, tmp_path)
    write_report(results)
    file = results.paths.report / "plane-countdown.svg"

    def found():
        return verify(file, root=tmp_path, regrade=False).differences

    assert found() == ()
    moved = re.sub(rb'(<use xlink:href="#\w+" x=")(\d+)', rb"\g<1>1\2", file.read_bytes(), count=1)
    file.write_bytes(moved)
    assert any(line.startswith("plane-countdown.svg, line ") for line in found())


@pytest.mark.rare  # a verification of a real run is one
@pytest.mark.slow
def test_a_second_build_gives_the_same_bytes_and_single_formats_are_what_it_writes(
    finished, tmp_path
):
    results = copy(finished, tmp_path)
    before = {file: file.read_bytes() for file in write_report(results).files}
    assert {file: file.read_bytes() for file in write_report(results).files} == before
    for kind, name in FILES.items() - {("by-value", "by-value.csv")}:
        assert render(analyse(results), kind) == (results.paths.report / name).read_text()


@pytest.mark.rare  # .ci/smoke verifies one
@pytest.mark.slow
def test_a_real_report_is_verified_whole_to_the_last_digit_and_byte(real_run, capsys):
    assert main(["--verify", str(real_run.report), "--regrade"]) == 0
    assert "judged again and built anew, nothing differs" in capsys.readouterr().out


@pytest.mark.rare
@pytest.mark.slow
def test_the_gamma_sweep_varies_gamma_and_trains_three_algorithms(tmp_path):
    files = write_report(small_sweep(tmp_path, "gamma", ONE_SEED)).files
    assert [file.name for file in files][len(TEXTS) :] == figures(
        *("differences-countdown", "plane-countdown", "curves-countdown"),
        *("by-focal-gamma-countdown", "losses-countdown", "coverage-countdown"),
        *("training-grpo", "training-dapo", "training-cispo"),
    )


def test_a_sweep_with_nothing_done_has_a_report_that_says_so(tmp_path):
    results = small_sweep(tmp_path, "smoke")
    results = forget(results, *(point.point_id for point in results.points))
    report = write_report(results)
    assert [file.name for file in report.files] == TEXTS
    assert "INCOMPLETE: 0 of 2 runs and 0 of 1 base model have results." in report.text
    assert "No two cells that the question compares have results yet." in report.text


@pytest.mark.slow
def test_a_sweep_that_is_only_trained_shows_its_training(tmp_path):
    results = small_sweep(tmp_path, "smoke")
    ids = [point.point_id for point in results.points]
    report = write_report(forget(results, *ids, training=False))
    assert [file.name for file in report.files] == [*TEXTS, *figures("training-grpo")]


def test_a_single_base_model_can_be_reported(finished, tmp_path):
    results = copy(finished, tmp_path)
    keep = ("base-s11", "grpo-n2-g0-s12")
    results = forget(results, *(p.point_id for p in results.points if p.point_id not in keep))
    with drawing_plainly():
        assert "INCOMPLETE: 1 of 21 runs and 1 of 3 base models" in write_report(results).text


def entry(day, family, sha256, *, trained, question="Does it?"):
    return {
        "declared": f"2026-01-{day:02d}T00:00:00+00:00",
        "family": family,
        "question": question,
        "comparisons": len(sha256),
        "sha256": sha256,
        "trained": trained,
    }


ALL, LESS = ("all of it", "abc"), ("less", "a")
FIRST = entry(1, *ALL, trained=0)
LATE = "after a first training had finished"
TO_LESS = "(declared before: all of it; comparisons: 3, now: 1)."
TO_ALL = "(declared before: less; comparisons: 1, now: 3)."
UNKNOWN = "what was declared before is not recorded."
FAMILIES = [
    ([FIRST], None),
    ([FIRST, entry(2, *LESS, trained=0)], None),
    (
        [FIRST, entry(2, *LESS, trained=2)],
        f"The family was changed on 2026-01-02, {LATE} {TO_LESS}",
    ),
    (
        [FIRST, entry(2, *LESS, trained=2), entry(3, *LESS, trained=2, question="?")],
        f"The family was changed on 2026-01-02, {LATE} {TO_LESS}",
    ),
    ([FIRST, entry(2, *LESS, trained=2), entry(3, *ALL, trained=2)], None),
    (
        [FIRST, entry(2, *LESS, trained=0), entry(3, *ALL, trained=1)],
        f"The family was changed on 2026-01-03, {LATE} {TO_ALL}",
    ),
    (
        [FIRST, entry(4, *ALL, trained=1, question="Why?")],
        f"The question was reworded on 2026-01-04, {LATE} (declared before: Does it?).",
    ),
    ([entry(5, *LESS, trained=1)], f"The family was declared on 2026-01-05, {LATE}; {UNKNOWN}"),
]


@pytest.mark.parametrize(("families", "said"), FAMILIES)
def test_a_question_of_after_the_first_training_is_told(analysis, families, said):
    declared = tuple(map(DeclaredFamily.parsed, families))
    record = replace(analysis.results.record, families=declared)
    results = replace(analysis.results, record=record)
    assert redeclared(replace(analysis, results=results)) == ((said,) if said else ())


def test_a_family_that_was_changed_late_is_said_beside_every_verdict(tmp_path):
    results = small_sweep(tmp_path, "smoke", ONE_SEED)
    declared = read_json(results.paths.sweep_json)
    families = [FIRST, entry(2, *LESS, trained=2)]
    write_json(results.paths.sweep_json, with_checksum(declared | {"families": families}))
    with drawing_plainly():
        report = write_report(load_results(results.paths))
    (sentence,) = redeclared(analyse(load_results(results.paths)))
    texts = (file.read_text() for file in report.files[: len(TEXTS)])
    markdown, main, _, page, _, further, _, paper, provenance = texts
    # the answer, the figure of differences, the legend, the tables of methods and of differences
    assert min(markdown.count(sentence), page.count(sentence)) >= 5
    assert sentence in " ".join(report.text.split())
    # the answer as a comment and in words; the notes of tables, each once, and the figure
    assert main.count(sentence) == paper.count(sentence) == 1 and further.count(sentence) >= 3
    assert markdown.index(sentence) < markdown.index("## Question")
    assert json.loads(provenance)["declared"]["now"]["question"]
