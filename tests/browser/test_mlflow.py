"""MLflow's own UI over the same sweep: the runs, the pass@k curve and the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from fgrpo_bench.paths import RunPaths
from tests.browser.conftest import WIDE, served

WAIT = 60_000
"""Milliseconds that its pages may take on a busy machine."""


@pytest.fixture(scope="module")
def address(run: RunPaths) -> Iterator[str]:
    """The page of the experiment, as `make mlflow-ui` prints it."""
    with served("mlflow", run, "/health") as (base, said):
        yield next(word for word in said.split() if word.startswith(f"{base}/#/experiments/"))


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport=WIDE)
    made = context.new_page()
    made.set_default_timeout(WAIT)
    yield made
    context.close()


def test_the_runs_the_curve_and_the_table_are_shown(page: Page, address: str):
    page.goto(address)
    page.get_by_text("grpo-n4-g1-s11", exact=True).first.wait_for()
    assert page.get_by_text("base-s11", exact=True).first.is_visible()
    page.get_by_text("grpo-n4-g1-s11", exact=True).first.click()
    page.get_by_text("countdown/pass_at_k").first.wait_for()
    page.get_by_role("tab", name="Model metrics").or_(
        page.get_by_role("link", name="Model metrics")
    ).first.click()
    page.locator(".js-plotly-plot .scatterlayer .trace").first.wait_for()
    page.get_by_role("tab", name="Artifacts").or_(
        page.get_by_role("link", name="Artifacts")
    ).first.click()
    page.get_by_text("countdown", exact=True).first.click()
    page.get_by_text("pass_at_k.csv").first.click()
    page.get_by_text("pass_at_k").nth(1).wait_for()
