"""Writing a report: whole, repeatable, and possible at any stage of a sweep."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.build import render, write_report
from fgrpo_bench.report.footnotes import redeclared
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.plan import DeclaredFamily
from tests.support.report import ONE_SEED, copy, forget, small_sweep

TEXTS = ["report.md", "table.tex", "results.csv", "report.html", "provenance.json"]


def figures(*names):
    """Files of figures; those that fit a column have a version for it beside."""
    wide = ("losses-", "training-")
    versions = [
        version
        for name in names
        for version in ([name] if name.startswith(wide) else [name, f"{name}-column"])
    ]
    return [f"{version}.{kind}" for version in versions for kind in ("svg", "pdf")]


@pytest.fixture(scope="module")
def report(finished):
    return write_report(finished)


def test_all_files_lie_in_the_report_folder_and_the_text_names_the_question(finished, report):
    assert [file.name for file in report.files] == [
        *TEXTS,
        *figures(
            *("curves-countdown", "by-group-size-countdown", "plane-countdown"),
            *("differences-countdown", "losses-countdown", "coverage-countdown", "training-grpo"),
        ),
    ]
    assert {file.parent for file in report.files} == {finished.paths.report}
    assert sorted(finished.paths.report.iterdir()) == sorted(report.files)
    assert "\n\nDoes a focal weight at N = 8" in report.text


@pytest.mark.slow
def test_a_second_build_gives_the_same_bytes(finished, report):
    before = {file: file.read_bytes() for file in report.files}
    assert {file: file.read_bytes() for file in write_report(finished).files} == before


@pytest.mark.slow
def test_single_formats_are_what_the_build_writes(finished, report):
    for kind, name in zip(("md", "latex", "csv", "html"), TEXTS, strict=False):
        assert render(analyse(finished), kind) == (finished.paths.report / name).read_text()


def test_the_report_shows_every_figure_that_was_drawn(report):
    text = report.files[0].read_text()
    for file in report.files:
        assert (f"]({file.name})" in text) == (
            file.suffix == ".svg" and not file.stem.endswith("-column")
        )


def test_svg_files_are_well_formed_and_carry_no_date(report):
    for file in report.files:
        if file.suffix == ".svg":
            root = ElementTree.parse(file).getroot()
            assert not list(root.iter("{http://purl.org/dc/elements/1.1/}date"))


@pytest.mark.slow
def test_the_gamma_sweep_varies_gamma_and_trains_three_algorithms(tmp_path):
    files = write_report(small_sweep(tmp_path, "gamma", ONE_SEED)).files
    assert [file.name for file in files][5:] == figures(
        *("curves-countdown", "by-focal-gamma-countdown", "plane-countdown"),
        *("differences-countdown", "losses-countdown", "coverage-countdown"),
        *("training-grpo", "training-dapo", "training-cispo"),
    )


def test_a_sweep_with_nothing_done_has_a_report_that_says_so(tmp_path):
    results = small_sweep(tmp_path, "smoke")
    results = forget(results, *(point.point_id for point in results.points))
    report = write_report(results)
    assert [file.name for file in report.files] == TEXTS
    assert "INCOMPLETE: 0 of 3 points have results." in report.text
    assert "No two cells that the question compares have results yet." in report.text


def test_a_sweep_that_is_only_trained_shows_its_training(tmp_path):
    results = small_sweep(tmp_path, "smoke")
    ids = [point.point_id for point in results.points]
    report = write_report(forget(results, *ids, training=False))
    assert [file.name for file in report.files] == [*TEXTS, *figures("training-grpo")]


def test_a_single_base_model_can_be_reported(finished, tmp_path):
    results = copy(finished, tmp_path)
    keep = ("base-s11", "grpo-n2-g0-s12")
    results = forget(results, *(p.point_id for p in results.points if p.point_id not in keep))
    assert "INCOMPLETE: 2 of 24" in write_report(results).text


def entry(day, family, sha256, *, trained, question="Does it?"):
    return {
        "declared": f"2026-01-{day:02d}T00:00:00+00:00",
        "family": family,
        "question": question,
        "comparisons": len(sha256),
        "sha256": sha256,
        "trained": trained,
    }


FIRST = entry(1, "all of it", "abc", trained=0)
ALL_OF_IT = "(declared before: all of it; comparisons: 3, now: 1)."
LATE = "after a first training had finished"


@pytest.mark.parametrize(
    ("families", "said"),
    [
        ([FIRST], ()),
        ([FIRST, entry(2, "less", "a", trained=0)], ()),
        (
            [FIRST, entry(2, "less", "a", trained=2)],
            (f"The family was changed on 2026-01-02, {LATE} {ALL_OF_IT}",),
        ),
        (
            [
                FIRST,
                entry(2, "less", "a", trained=2),
                entry(3, "less", "a", trained=2, question="?"),
            ],
            (f"The family was changed on 2026-01-02, {LATE} {ALL_OF_IT}",),
        ),
        ([FIRST, entry(2, "less", "a", trained=2), entry(3, "all of it", "abc", trained=2)], ()),
        (
            [FIRST, entry(2, "less", "a", trained=0), entry(3, "all of it", "abc", trained=1)],
            (
                f"The family was changed on 2026-01-03, {LATE} (declared before: less; "
                "comparisons: 1, now: 3).",
            ),
        ),
        (
            [FIRST, entry(4, "all of it", "abc", trained=1, question="Why?")],
            (f"The question was reworded on 2026-01-04, {LATE} (declared before: Does it?).",),
        ),
        (
            [entry(5, "less", "a", trained=1)],
            (
                f"The family was declared on 2026-01-05, {LATE}; what was declared before is not "
                "recorded.",
            ),
        ),
    ],
)
def test_a_question_of_after_the_first_training_is_told(analysis, families, said):
    declared = tuple(map(DeclaredFamily.parsed, families))
    record = replace(analysis.results.record, families=declared)
    results = replace(analysis.results, record=record)
    assert redeclared(replace(analysis, results=results)) == said


def test_a_family_that_was_changed_late_is_said_beside_every_verdict(tmp_path):
    results = small_sweep(tmp_path, "smoke", ONE_SEED)
    declared = read_json(results.paths.sweep_json)
    families = [FIRST, entry(2, "less", "a", trained=2)]
    write_json(results.paths.sweep_json, with_checksum(declared | {"families": families}))
    analysis = analyse(load_results(results.paths))
    (sentence,) = redeclared(analysis)
    markdown, page = render(analysis, "md"), render(analysis, "html")
    tables, text = render(analysis, "latex"), write_report(load_results(results.paths)).text
    # the answer, the figure of differences, the legend, the tables of methods and of differences
    assert min(markdown.count(sentence), page.count(sentence)) >= 6
    assert sentence in " ".join(text.split()) and tables.count(sentence) > 3
    assert markdown.index(sentence) < markdown.index("## Question")
    at = results.paths.report / "provenance.json"
    assert read_json(at)["declared"]["now"]["question"]
