"""One damaged marker is one row: everything else is shown and goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dashboards.app import ServerLinks
from dashboards.pages.sweep import build
from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.files.records import Misfit, Record
from fgrpo_bench.report.build import render
from sweeps.cli import main as sweeps
from tests.support.dashboard import Reader
from tests.support.fake_sweep import fake_sweep
from tests.support.report import ONE_SEED, small_sweep

POINT = "grpo-n4-g0-s11"


@pytest.mark.slow
def test_a_run_makes_the_stage_of_a_damaged_marker_again_and_no_other(
    tmp_path: Path, capsys
) -> None:
    sweep = fake_sweep(tmp_path)
    assert sweep.run() == 0
    stage = sweep.paths.point(POINT)
    stage.done.write_bytes(b'{"fingerprint": "\xff')
    assert sweeps(["status", "smoke", f"run_root={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert "5 done" in said and "1 damaged" in said
    assert f"damaged: {POINT}: {stage.done} holds no valid JSON" in said and "delete it" in said
    assert sweep.run() == 0
    assert "5 done before, 1 to run" in sweep.log()
    assert f"damaged: training {POINT}: {stage.done} holds no valid JSON" in sweep.log()
    assert (stage.damaged / "DONE.json").read_bytes().endswith(b"\xff")
    assert sweeps(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert "damaged" not in capsys.readouterr().out


def damaged_sweep(root: Path) -> SweepResults:
    results = small_sweep(root, "smoke", ONE_SEED)
    for point in results.points:
        if point.point_id == POINT:
            point.evaluate.done.write_text("null")
    return load_results(results.paths)


def test_pages_and_report_show_the_other_points_and_name_the_damaged_one(tmp_path: Path) -> None:
    results = damaged_sweep(tmp_path)
    page = build(results, {}, ServerLinks())
    progress = page.context["progress"]
    assert [(stage.kind, stage.point_id) for stage in progress.damaged] == [("evaluate", POINT)]
    assert progress.states["damaged"] == 1 and progress.states["done"] == 5
    marker = next(point for point in results.points if point.point_id == POINT).evaluate.done
    text = render(analyse(results), "md")
    assert f"INCOMPLETE: 2 of 3 points have results. Missing: {POINT} ({marker} is damaged)" in text


def test_the_page_says_the_remedy(tmp_path: Path) -> None:
    from tests.dashboards.conftest import client_of

    results = damaged_sweep(tmp_path)
    run = results.paths
    page = client_of(tmp_path).get(f"/{run.sweep}/{run.experiment}/{run.version}/sweep")
    assert page.status_code == 200
    assert "delete it and run the sweep again" in " ".join(Reader(page.text).text.split())


@dataclass(frozen=True, kw_only=True)
class Part(Record):
    b: int


@dataclass(frozen=True, kw_only=True)
class Whole(Record):
    a: tuple[Part, ...]
    c: str | None = None
    e: bool = False
    f: dict[str, float] | None = None


def test_a_record_says_what_does_not_fit_and_where() -> None:
    for value, fault in {
        "[]": "it is [], not an object",
        "{}": "a is missing",
        "{'a': 1}": "a is 1, not a list",
        "{'a': [{'b': 1}, {'b': '1'}]}": "a[1].b is '1', not a whole number",
        "{'a': [{'b': True}]}": "a[0].b is True, not a whole number",
        "{'a': [], 'c': 1}": "c is 1, not text",
        "{'a': [], 'e': 1}": "e is 1, not true or false",
        "{'a': [], 'f': {'x': '1'}}": "f.x is '1', not a number",
    }.items():
        with pytest.raises(Misfit) as told:
            Whole.parsed(eval_literal(value))
        assert str(told.value) == fault


def test_a_record_is_written_as_it_was_read_with_the_keys_that_it_does_not_know() -> None:
    stored = {"a": [{"b": 1, "z": None}], "f": {"x": 2, "y": 0.5}, "further": 1, "of": {}}
    record = Whole.parsed(stored)
    assert (record.c, record.e, record.a[0].b) == (None, False, 1)
    assert json.dumps(record.as_json()) == json.dumps(stored)
    assert json.dumps(replace(record, e=True).as_json()) == json.dumps(
        {"a": stored["a"], "e": True, "f": stored["f"], "further": 1, "of": {}}
    )


def eval_literal(text: str) -> object:
    import ast

    return ast.literal_eval(text)
