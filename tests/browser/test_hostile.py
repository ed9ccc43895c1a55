"""Hostile model output in a real browser: it is seen, and it does nothing."""

from __future__ import annotations

from pathlib import Path

from dashboards.page import VIEWS
from dashboards.text import visible
from tests.browser.conftest import drawn, served
from tests.support.dashboard import HOSTILE, sweep_with_draws


def test_hostile_draws_are_shown_and_run_nothing(open_page, tmp_path: Path):
    results = sweep_with_draws(tmp_path / "runs", texts=HOSTILE)
    with served("serve", results.paths, "/") as (base, _):
        page = open_page(base)
        page.click("section.run a")
        for title in VIEWS.values():
            page.click(f"nav >> text={title}")
            drawn(page)
            assert page.evaluate("window.hacked === undefined")
            assert page.locator("main :is(script:not([type]), iframe, img)").count() == 0
        page.click("nav >> text=Draws")
        page.wait_for_load_state()  # a busy machine shows the beginning of a page first
        shown = page.locator(".draw .text").all_inner_texts()
        for text in HOSTILE:
            if "$" not in text:
                assert visible(text) in shown, text
        assert page.locator(".draw math").count() > 0
