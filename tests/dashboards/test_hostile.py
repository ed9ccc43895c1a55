"""Model output that tries to be markup is text on every page, in every chart, and in the export."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from dashboards.export import export
from dashboards.page import VIEWS
from dashboards.text import visible
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json, write_text
from fgrpo_bench.stages.tables import PASSK, read_table, write_table
from tests.dashboards.conftest import client_of
from tests.support.dashboard import HOSTILE, Reader, assert_inert, sweep_with_draws
from tests.support.watched import note

BASE = "/groupsize/countdown/v1"


def test_pages_over_hostile_draws_run_nothing_and_show_the_text(hostile):
    client = client_of(hostile.paths.root)
    for view in VIEWS:
        assert_inert(client.get(f"{BASE}/{view}").text)
    shown = Reader(client.get(f"{BASE}/draws").text).text
    for text in HOSTILE:
        if "$" not in text:
            assert visible(text) in shown, text
    answer = client.get(f"{BASE}/draws", params={"answer": HOSTILE[0]})
    assert answer.status_code == 200
    assert_inert(answer.text)


@pytest.mark.slow
def test_hostile_names_in_the_stored_files_are_text_too(tmp_path):
    results = sweep_with_draws(tmp_path)
    name = HOSTILE[1]
    declared = read_json(results.paths.sweep_json)
    declared["declaration"]["sweep"]["question"] = name
    write_json(results.paths.sweep_json, declared)
    for point in results.points:
        path = point.evaluate.benchmark("countdown").passk
        table = read_table(path, PASSK)
        table = table.with_columns(problem_id=table["problem_id"].replace("p000", name))
        write_table(path, table, PASSK)
        manifest = point.evaluate.benchmark("countdown").manifest
        write_json(manifest, read_json(manifest) | {"engine": {name: name}})
    failed = results.points[-1]
    failed.evaluate.done.unlink()
    failed.train.done.unlink()
    write_text(failed.train.log(1), f"{name}\n")
    note(failed.train, outcome="failed")
    client = client_of(tmp_path)
    for view in VIEWS:
        page = client.get(f"{BASE}/{view}").text
        assert_inert(page)
        if view in ("sweep", "audit", "forgetting"):
            assert name[:30] in Reader(page).text, view
    assert_inert(client.get(f"{BASE}/draws", params={"problem": name}).text)
    export([load_results(results.paths).paths], tmp_path / "out", problems=2)
    for file in (tmp_path / "out").rglob("*.html"):
        assert_inert(file.read_text())


def test_the_data_of_charts_cannot_end_its_script_element(hostile):
    client = client_of(hostile.paths.root)
    for view in VIEWS:
        page = client.get(f"{BASE}/{view}").text
        for block in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page):
            json.loads(block)
            assert "<" not in block


@pytest.mark.slow
def test_an_export_of_hostile_draws_runs_nothing_and_shows_the_text(hostile, tmp_path):
    export([hostile.paths], tmp_path, problems=2)
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 30
    shown = ""
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert_inert(html)
        assert "Content-Security-Policy" in html
        if page.name.startswith("draws"):
            shown += Reader(html).text
    for text in HOSTILE:
        if "$" not in text:
            assert visible(text) in shown, text
    names = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")]
    assert all(re.fullmatch(r"[A-Za-z0-9._/-]+", name) for name in names)


@pytest.mark.parametrize("value", HOSTILE)
def test_an_error_shows_a_hostile_parameter_as_text(client, value):
    answer = client.get(f"{BASE}/compare", params={"k": value})
    assert answer.status_code == 404
    assert_inert(answer.text)
    assert "<script>window" not in answer.text
    assert unescape(answer.text).count("window.hacked") <= 2
