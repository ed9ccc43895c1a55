"""MLflow's own UI over the same sweep: the runs, the pass@k curve and the table."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from fgrpo_bench.files.paths import RunPaths
from tests.browser.conftest import WIDE, served

POINT = "grpo-n4-g1-s11"
WAIT = 60_000
"""Milliseconds that its pages may take on a busy machine."""


@pytest.fixture(scope="module")
def address(run: RunPaths) -> Iterator[str]:
    """The page of the experiment's runs, as `make mlflow-ui` prints it."""
    with served("mlflow", run, "/health") as (base, said):
        yield next(word for word in said.split() if word.startswith(f"{base}/#/experiments/"))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=WIDE)
    made = context.new_page()
    made.set_default_timeout(WAIT)
    yield made
    context.close()


def run_page(address: str, point_id: str = POINT) -> str:
    """The page of a run, whose id MLflow is asked for."""
    base, experiment = address.split("/#/")[0], address.split("/")[5]
    asked = {"experiment_ids": [experiment], "filter": f"tags.point_id = '{point_id}'"}
    request = urllib.request.Request(
        f"{base}/ajax-api/2.0/mlflow/runs/search",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        (found,) = json.loads(answer.read())["runs"]
    return f"{base}/#/experiments/{experiment}/runs/{found['info']['run_id']}"


def test_the_runs_of_the_sweep_are_listed(page: Page, address: str):
    page.goto(address)
    page.get_by_text("GRPO N=4").first.wait_for()


def test_the_curve_of_pass_at_k_is_drawn_over_k(page: Page, address: str):
    page.goto(f"{run_page(address)}/model-metrics")
    page.get_by_text("pass_at_k").first.wait_for()
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()


def test_the_table_of_pass_at_k_opens_in_the_artifact_viewer(page: Page, address: str):
    page.goto(f"{run_page(address)}/artifacts/countdown/pass_at_k.json")
    page.get_by_role("cell", name="16", exact=True).first.wait_for()


def test_a_figure_of_the_report_opens_in_the_artifact_viewer(page: Page, address: str):
    page.goto(f"{run_page(address, 'report')}/artifacts/curves-countdown.svg")
    figure = page.locator("img[alt='curves-countdown.svg']")
    figure.first.wait_for()
    assert figure.first.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
