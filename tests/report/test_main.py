"""The command line: which run is meant, what is printed and what is written."""

from __future__ import annotations

import shutil

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.command.runs import choose_run
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import render
from tests.support.html import Seen
from tests.support.report import copy, small_sweep


def plan(root, named):
    sweep, experiment, version = named.split("/")
    paths = RunPaths(root=root, sweep=sweep, experiment=experiment, version=version)
    paths.folder.mkdir(parents=True)
    paths.plan.write_text("{}")
    return paths


DEFAULT, LATER = "groupsize/countdown/v1", "groupsize/countdown/v2"
PROMPTS = "groupsize/countdown-prompts/v1"
THREE = [DEFAULT, PROMPTS, LATER]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "asked", "options", "meant"),
    [
        (["groupsize/some-experiment/v7"], "groupsize", {}, "groupsize/some-experiment/v7"),
        (THREE, "groupsize", {}, DEFAULT),
        (THREE, "groupsize", {"experiment": "countdown-prompts"}, PROMPTS),
        (THREE, "groupsize", {"version": "v2"}, LATER),
        (THREE, "groupsize/countdown-prompts", {}, PROMPTS),
        (THREE, "groupsize/countdown/v2", {}, LATER),
        (["smoke/countdown/v1", "smoke/countdown-tiny/v1"], "smoke", {}, "smoke/countdown-tiny/v1"),
    ],
)
def test_of_several_runs_the_named_one_is_meant_or_the_sweeps_default(
    tmp_path, runs, asked, options, meant
):
    made = {named: plan(tmp_path, named) for named in runs}
    assert choose_run(tmp_path, asked, **options) == made[meant]


@pytest.mark.parametrize(
    ("runs", "asked"),
    [
        (["groupsize/countdown/v2", "groupsize/countdown/v3"], "groupsize"),
        (["removed/a/v1", "removed/b/v1"], "removed"),  # which conf does not know
    ],
)
def test_several_runs_without_the_default_are_listed(tmp_path, runs, asked):
    for named in runs:
        plan(tmp_path, named)
    with pytest.raises(ValueError, match=f"(?s)name one of.*{runs[0]}.*{runs[1]}"):
        choose_run(tmp_path, asked)


def test_no_run_names_the_remedy_and_lists_what_there_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run at all"):
        choose_run(tmp_path, "groupsize")
    plan(tmp_path, DEFAULT)
    with pytest.raises(
        FileNotFoundError, match=r"(?s)fgrpo-bench sweep run gamma.*groupsize/countdown/v1"
    ):
        choose_run(tmp_path, "gamma")


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_one_format_is_printed_and_nothing_is_written(finished, analysis, tmp_path, capsys):
    shutil.copytree(finished.paths.root, tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs/groupsize/countdown/v1/report", ignore_errors=True)
    for kind in ("csv", "latex", "md", "html"):
        assert main(["groupsize", "--root", str(tmp_path / "runs"), "--format", kind]) == 0
        assert capsys.readouterr().out == render(analysis, kind)
    assert not (tmp_path / "runs/groupsize/countdown/v1/report").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_a_page_to_send_has_all_that_the_report_has_in_one_file(finished, tmp_path, capsys):
    results = copy(finished, tmp_path)
    report, file = results.paths.report, tmp_path / "sent.html"
    before = sorted(report.glob("*"))
    assert main(["groupsize", "--root", str(tmp_path), "--html", str(file)]) == 0
    assert capsys.readouterr().out == f"{file}\n" and sorted(report.glob("*")) == before
    page, analysis = Seen(file.read_text()), analyse(results)
    parts = [Seen(render(analysis, kind)) for kind in ("html", "html-appendix")]
    for tag in ("table", "svg", "tr"):
        assert page.tags.count(tag) == sum(part.tags.count(tag) for part in parts) > 5
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    ends = {v for n, v in page.attributes if n in ("src", "href", "xlink:href")}
    assert ends and all(end[1:] in page.ids for end in ends if end[0] == "#")
    assert all(end[0] == "#" for end in ends)


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_several_formats_are_written_and_no_others(tmp_path, capsys):
    results = small_sweep(tmp_path, "smoke")
    assert main(["smoke", "--root", str(tmp_path), "--format", "csv,latex"]) == 0
    texts = {file.name for file in results.paths.report.iterdir() if not file.stem.count("-")}
    papers = {"main.tex", "report.tex", "appendix.tex"}
    assert texts == {"results.csv", "provenance.json"} | papers
    with pytest.raises(SystemExit):
        main(["smoke", "--format", "csv,latx"])
    refusal = "'latx' is no format (did you mean latex?): take some of md, latex, csv, html"
    assert refusal in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_the_build_prints_the_table_and_the_files(tmp_path, capsys):
    results = small_sweep(tmp_path, "smoke")
    assert main(["smoke", "--root", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Focal weight at N = 4 on countdown, one seed\n")
    for file in results.paths.report.iterdir():
        assert str(file) in out


def test_faults_are_one_message_and_exit_code_1(tmp_path, capsys):
    assert main(["groupsize", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("error: no run of groupsize under")


def test_a_damaged_table_is_named_with_the_remedy(tmp_path, capsys):
    results = small_sweep(tmp_path, "smoke")
    path = results.points[0].evaluate.benchmark("countdown").passk()
    path.write_bytes(path.read_bytes()[:50])
    assert main(["smoke", "--root", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert str(path) in error and "delete it and run the sweep again" in error
