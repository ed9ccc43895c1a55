"""The command line: which run is meant, what is printed and what is written."""

from __future__ import annotations

import shutil

import pytest

from fgrpo_bench.analysis import analyse
from fgrpo_bench.command.runs import choose_run
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.report.__main__ import main
from fgrpo_bench.report.build import render
from tests.support.report import small_sweep


def plan(root, experiment, version, sweep="groupsize"):
    paths = RunPaths(root=root, sweep=sweep, experiment=experiment, version=version)
    paths.folder.mkdir(parents=True)
    paths.plan.write_text("{}")
    return paths


def test_the_only_run_is_meant(tmp_path):
    only = plan(tmp_path, "some-experiment", "v7")
    assert choose_run(tmp_path, "groupsize") == only


def test_of_several_runs_the_sweeps_default_is_meant(tmp_path):
    default = plan(tmp_path, "countdown", "v1")
    other, later = plan(tmp_path, "countdown-prompts", "v1"), plan(tmp_path, "countdown", "v2")
    assert choose_run(tmp_path, "groupsize") == default
    assert choose_run(tmp_path, "groupsize", experiment="countdown-prompts") == other
    assert choose_run(tmp_path, "groupsize", version="v2") == later
    assert choose_run(tmp_path, "groupsize/countdown-prompts") == other
    assert choose_run(tmp_path, "groupsize/countdown/v2") == later


def test_a_sweep_with_its_own_default_experiment_is_found_by_it(tmp_path):
    plan(tmp_path, "countdown", "v1", sweep="smoke")
    tiny = plan(tmp_path, "countdown-tiny", "v1", sweep="smoke")
    assert choose_run(tmp_path, "smoke") == tiny


def test_several_runs_without_the_default_are_listed(tmp_path):
    plan(tmp_path, "countdown", "v2"), plan(tmp_path, "countdown", "v3")
    with pytest.raises(
        ValueError, match=r"(?s)name one of.*groupsize/countdown/v2.*groupsize/countdown/v3"
    ):
        choose_run(tmp_path, "groupsize")


def test_runs_of_a_sweep_that_conf_does_not_know_are_listed(tmp_path):
    plan(tmp_path, "a", "v1", sweep="removed"), plan(tmp_path, "b", "v1", sweep="removed")
    with pytest.raises(ValueError, match="removed/b/v1"):
        choose_run(tmp_path, "removed")


def test_no_run_names_the_remedy_and_lists_what_there_is(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run at all"):
        choose_run(tmp_path, "groupsize")
    plan(tmp_path, "countdown", "v1")
    with pytest.raises(
        FileNotFoundError, match=r"(?s)fgrpo-bench sweep run gamma.*groupsize/countdown/v1"
    ):
        choose_run(tmp_path, "gamma")


@pytest.mark.slow
def test_one_format_is_printed_and_nothing_is_written(finished, tmp_path, capsys):
    shutil.copytree(finished.paths.root, tmp_path / "runs")
    shutil.rmtree(tmp_path / "runs/groupsize/countdown/v1/report", ignore_errors=True)
    for kind in ("csv", "latex", "md", "html"):
        assert main(["groupsize", "--root", str(tmp_path / "runs"), "--format", kind]) == 0
        assert capsys.readouterr().out == render(analyse(finished), kind)
    assert not (tmp_path / "runs/groupsize/countdown/v1/report").exists()


@pytest.mark.slow
def test_several_formats_are_written_and_no_others(tmp_path, capsys):
    results = small_sweep(tmp_path, "smoke")
    assert main(["smoke", "--root", str(tmp_path), "--format", "csv,latex"]) == 0
    texts = {file.name for file in results.paths.report.iterdir() if not file.stem.count("-")}
    assert texts == {"results.csv", "table.tex", "provenance.json"}
    with pytest.raises(SystemExit):
        main(["smoke", "--format", "csv,word"])
    assert "'word' is no format: take some of md, latex, csv, html" in capsys.readouterr().err


@pytest.mark.slow
def test_the_build_prints_the_table_and_the_files(tmp_path, capsys):
    results = small_sweep(tmp_path, "smoke")
    assert main(["smoke", "--root", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("smoke on countdown-tiny v1, constant_rollouts")
    for file in results.paths.report.iterdir():
        assert str(file) in out


def test_faults_are_one_message_and_exit_code_1(tmp_path, capsys):
    assert main(["groupsize", "--root", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("error: no run of groupsize under")


def test_a_damaged_table_is_named_with_the_remedy(tmp_path, capsys):
    results = small_sweep(tmp_path, "smoke")
    path = results.points[0].evaluate.benchmark("countdown").passk
    path.write_bytes(path.read_bytes()[:50])
    assert main(["smoke", "--root", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert str(path) in error and "delete it and run the sweep again" in error
