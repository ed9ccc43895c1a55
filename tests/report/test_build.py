"""Writing a report: whole, repeatable, and possible at any stage of a sweep."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.report.build import render, write_report
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
