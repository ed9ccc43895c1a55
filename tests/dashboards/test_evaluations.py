"""Evaluations without a sweep have the pages of a sweep, alone and together, and a place on the
first page."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest

from dashboards.page import VIEWS
from dashboards.pages import BUILDERS
from fgrpo_bench.analysis.results import evaluations, together
from fgrpo_bench.stages.tables import PASSK, read_table, write_table
from tests.dashboards.conftest import client_of
from tests.support.dashboard import Reader, assert_inert, snapshot
from tests.support.imported import evaluate_alone

PAIR = "/evals/before+after/together"
SHOWN = ("compare", "forgetting", "draws", "audit")
WORDS = "<script>alert(1)</script> & 1 + 1?"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two evaluations of one file of problems; read it only."""
    folder = tmp_path_factory.mktemp("evaluated")
    return evaluate_alone(
        folder, {"before": [8, 8, 8, 8, 0, 0], "after": [8, 8, 0, 0, 0, 0]}, WORDS
    )


@pytest.mark.slow
def test_the_first_page_lists_them_with_pass_at_k_and_a_form_that_compares(root):
    page = Reader(client_of(root).get("/").text)
    assert {"/evals/before/together/draws", "/evals/after/together/draws"} <= set(page.hrefs())
    assert "pass@1 66.7 [" in page.text and "pass@8 " in page.text
    boxes = [a["value"] for tag, a in page.elements if tag == "input"]
    assert boxes == ["after", "before"]
    ticked = client_of(root).get("/compare?name=before&name=after", follow_redirects=False)
    assert (
        ticked.headers["location"] == f"/{quote('evals')}/{quote('before+after')}/together/compare"
    )
    assert client_of(root).get("/compare?name=before").status_code == 400


@pytest.mark.slow
def test_what_draws_that_could_not_be_judged_leave_open_stands_beside_pass_at_k(root, tmp_path):
    shutil.copytree(root, tmp_path / "runs")
    results = together(tmp_path / "runs", ["after", "before"])
    (benchmark,) = results.benchmarks
    for checkpoint, n_scored in zip(results.checkpoints, (7, 8), strict=True):
        path = checkpoint.evaluate.benchmark(benchmark).passk()
        judged = {
            "n_scored": pl.lit(n_scored),
            "n_correct": pl.col("n_correct").clip(0, n_scored),
            "n_unscored": [8 - n_scored],
        }
        low = pl.col("pass_at_k") * n_scored / 8
        table = read_table(path, PASSK).with_columns(**judged, pass_at_k_low=low).cast(PASSK)
        write_table(path, table, PASSK)
    client = client_of(tmp_path / "runs")
    for view, n in (("/", 2), (f"{PAIR}/compare", 2), (f"{PAIR}/forgetting", 1)):  # at k = 1 and 8
        text = Reader(client.get(view).text).text
        assert text.count("(12.5% unscored: 29.2 to 33.3)") == text.count("unscored:") == n, view
    assert (
        "not known" in Reader(client.get(f"{PAIR}/compare").text).text
    )  # whether they were cut off


@pytest.mark.slow
@pytest.mark.parametrize("view", SHOWN)
def test_every_view_but_the_training_shows_them_and_nothing_of_theirs_runs(root, view):
    before, client = snapshot(root), client_of(root)
    answer = client.get(f"{PAIR}/{view}")
    assert answer.status_code == 200
    assert_inert(answer.text)
    page = Reader(answer.text)
    assert {f"/evals/before%2Bafter/together/{name}" for name in SHOWN} <= set(page.hrefs())
    assert "after against before" in page.text and "Sweep" not in page.text.split("Compare")[0]
    assert "Base" not in page.text and "the question" not in page.text
    assert snapshot(root) == before


def test_the_numbers_are_those_of_the_library_call_beside_each_chart(root, monkeypatch):
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(root))
    results = together(root, ["before", "after"])
    for view in ("compare", "forgetting"):
        for chart in BUILDERS[view](results, {}).charts:
            scope: dict[str, pl.DataFrame] = {}
            exec(chart.call, scope)  # noqa: S102  (what the page says to type)
            assert scope["result"].equals(chart.data), chart.name
    assert set(VIEWS) - {"sweep", "rollouts"} == set(SHOWN)


def test_names_are_looked_up_and_what_is_damaged_is_said(root, tmp_path):
    shutil.copytree(root, tmp_path / "runs")
    client = client_of(tmp_path / "runs")
    for names in ("before+nothing", "..", "before+..%2F..%2Fetc", ""):
        assert client.get(f"/evals/{names or '%20'}/together/compare").status_code == 404
    folder = evaluations(tmp_path / "runs")["after"]
    (folder / "spec.json").write_text("{")
    assert "cannot be read" in Reader(client.get("/").text).text
    assert client.get(f"{PAIR}/compare").status_code == 500
