"""Stored analyses: read while they fit, computed anew where something changed."""

from __future__ import annotations

import io

import polars as pl
import pytest

from fgrpo_bench.analysis import analysed, load, stored
from fgrpo_bench.analysis.__main__ import main
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.rows import FRAMES, from_frame, schema, to_frame
from fgrpo_bench.files.whole import read_record
from tests.support.report import forget, rewrite_passk, small_sweep


@pytest.fixture
def results(tmp_path):
    return small_sweep(tmp_path, "smoke", "sweep.grid.seed=[11,12]")


@pytest.fixture
def computed(monkeypatch):
    """How often an analysis was computed: a list that grows."""
    calls, analyse = [], stored.analyse

    def counting(*arguments):
        calls.append(arguments[1])
        return analyse(*arguments)

    monkeypatch.setattr(stored, "analyse", counting)
    return calls


def same(one, other):
    return all(getattr(one, name).equals(getattr(other, name)) for name in FRAMES)


def test_the_frames_are_stored_and_read_back(results, computed):
    first = analysed(results)
    assert sorted(path.name for path in results.paths.analysis.iterdir()) == sorted(
        ["analysis.json", *(f"{name}.parquet" for name in stored.STORED)]
    )
    again = load("smoke", root=results.paths.root)
    assert same(first, again) and computed == ["last"]
    assert (again.rule, again.family) == (first.rule, first.family)
    facts = read_record(results.paths.analysis / "analysis.json", stored.AnalysisRecord)
    assert (facts.version, facts.rule) == (stored.VERSION, "last")


def test_every_row_survives_its_frame(analysis):
    for name, row in FRAMES.items():
        assert name in dir(analysis), "a notebook completes it"
        frame = getattr(analysis, name)
        assert frame.schema == schema(row)
        assert to_frame(row, from_frame(row, frame)).equals(frame), name


@pytest.mark.slow
def test_an_edited_frame_and_those_of_another_version_are_computed_anew(
    results, computed, monkeypatch
):
    first = analysed(results)
    n_computed = 1
    for name in ("estimates", "comparisons"):
        path = results.paths.analysis / f"{name}.parquet"
        edited = pl.read_parquet(path).with_columns(k=pl.col("k") + 1)
        for damage in (
            lambda path=path, edited=edited: edited.write_parquet(path),
            lambda path=path: path.write_bytes(b"garbage"),
            path.unlink,
        ):
            damage()
            n_computed += 1
            assert same(first, analysed(results)) and len(computed) == n_computed
    monkeypatch.setattr(stored, "VERSION", stored.VERSION + 1)
    assert same(first, analysed(results)) and len(computed) == n_computed + 1


@pytest.mark.slow
def test_changed_results_are_analysed_anew(results, computed):
    first = analysed(results)
    fewer = forget(results, "grpo-n4-g1-s11")
    second = analysed(fewer)
    assert len(computed) == 2 and not first.estimates.equals(second.estimates)
    rewrite_passk(results.points[0], lambda table: table.with_columns(pass_at_k=pl.lit(1.0)))
    analysed(load_results(results.paths))
    assert len(computed) == 3, "markers without digests: the tables themselves count"


def test_a_rule_has_its_own_frames(results, computed):
    analysed(results)
    at_end = analysed(results, "step=20")
    assert at_end.rule == "step=20" and len(computed) == 2
    assert analysed(results, "step=20").rule == "step=20" and len(computed) == 2
    assert (results.paths.analysis / "step=20" / "cells.parquet").exists()
    with pytest.raises(ValueError, match="--select best is no rule"):
        analysed(results, "best")


def test_nothing_is_stored_where_nothing_is_kept(results, computed):
    analysed(results, is_kept=False)
    assert not results.paths.analysis.exists() and computed == ["last"]


def test_the_command_lists_the_frames_with_their_columns_and_prints_one_as_csv(results, capsys):
    asked = ["smoke", "--root", str(results.paths.root)]
    assert main(asked) == 0
    folder, *lines = capsys.readouterr().out.splitlines()
    assert folder.endswith("smoke/countdown-tiny/v1/analysis")
    assert [line.split()[0] for line in lines] == list(FRAMES)
    comparisons = analysed(results).comparisons
    assert f"{len(comparisons)} rows: column, k, group, name, new" in lines[2]
    assert main([*asked, "--frame", "comparisons"]) == 0
    frame = pl.read_csv(io.StringIO(capsys.readouterr().out))
    assert frame.columns == comparisons.columns
    assert frame["difference"].to_list() == pytest.approx(comparisons["difference"].to_list())
    assert main([*asked, "--frame", "estimates"]) == 0
    estimates = pl.read_csv(io.StringIO(capsys.readouterr().out)).filter(pl.col("cell") == "base")
    assert estimates["seeds"].unique().to_list() == ["11 12"], "a list stands in one column"


def test_what_cannot_be_analysed_is_one_line(results, capsys):
    root = ["--root", str(results.paths.root)]
    for asked, said in (
        (["nope"], "error: no run of nope under "),
        (["smoke", "--select", "best"], "error: --select best is no rule: choose last"),
    ):
        assert main([*asked, *root]) == 1
        assert capsys.readouterr().err.startswith(said)
