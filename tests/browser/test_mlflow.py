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
def addresses(run: RunPaths) -> Iterator[dict[str, str]]:
    """What `make mlflow-ui` prints, by name; `Open` is the page to begin with."""
    with served("mlflow", run, "/health") as (base, said):
        lines = [line.split() for line in said.splitlines() if f" {base}/#/experiments/" in line]
        yield dict(lines)


@pytest.fixture(scope="module")
def address(addresses: dict[str, str]) -> str:
    """The page of the cells."""
    return addresses["cells"]


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


def test_the_first_page_has_the_answer_and_the_table_and_the_stored_one_is_a_click_away(
    page: Page, addresses: dict[str, str]
):
    page.goto(addresses["Open"])
    written = page.frame_locator("iframe")
    for words in ("Does a focal weight at N = 4", "pass@16", "F-GRPO"):
        last = written.get_by_text(words).last
        last.wait_for()
        box = last.bounding_box()
        assert box is not None and box["y"] + box["height"] < WIDE["height"], words
    page.get_by_text("pass_at_k.json", exact=True).first.click()
    page.get_by_text("pass_at_16", exact=True).first.wait_for()


@pytest.mark.parametrize("name", ["cells", "points"])
def test_the_runs_of_the_sweep_are_listed_with_pass_at_the_largest_k(
    page: Page, addresses: dict[str, str], name: str
):
    page.goto(addresses[name])
    page.get_by_text("GRPO N=4").first.wait_for()
    page.locator(".ag-header-cell", has_text="pass_at_16/countdown").first.wait_for()


@pytest.mark.parametrize(
    ("name", "metric"), [("training", "train/reward"), ("charts", "pass_at_k/countdown")]
)
def test_charts_begin_with_the_curves(
    page: Page, addresses: dict[str, str], name: str, metric: str
):
    page.goto(addresses[name])
    title = page.get_by_text(metric, exact=True).first
    title.wait_for()
    box = title.bounding_box()
    assert box is not None and box["y"] < WIDE["height"] * 0.75


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
