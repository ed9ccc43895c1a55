"""The documentation as `make docs` built it, in a real browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from subprocess import DEVNULL, Popen

import pytest
from PIL import Image
from playwright.sync_api import Browser

from sweeps import REPOSITORY
from tests.browser.conftest import NARROW, SHOWN, findings
from tests.support.servers import free_port, stop, wait_for

SITE = REPOSITORY / "build/docs"
PAGES = (
    "404.html",
    "index.html",
    "start/first-sweep.html",
    "start/tutorial.html",
    "results/group-size.html",
    "reference/columns.html",
    "developers/architecture.html",
)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Its address; the 404 page has links that are right at the root of a server alone."""
    assert (SITE / "404.html").exists(), "there is no site: run make docs"
    port = free_port()
    words = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    process = Popen(
        [*words, "--directory", str(SITE)], stdout=DEVNULL, stderr=DEVNULL, start_new_session=True
    )
    try:
        wait_for(f"http://127.0.0.1:{port}/index.html", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


@pytest.mark.parametrize(("theme", "size"), SHOWN)
def test_no_page_of_the_documentation_keeps_anybody_out(browser: Browser, site: str, theme, size):
    context = browser.new_context(viewport=size, color_scheme=theme)
    for name in PAGES:
        page = context.new_page()
        page.goto(f"{site}/{name}")
        assert findings(page) == [], name
        page.close()
    context.close()


@pytest.mark.parametrize(
    ("word", "first"), [("resume", "Troubleshooting"), ("wandb", "From wandb")]
)
def test_the_search_begins_with_the_page_that_answers(browser: Browser, site: str, word, first):
    page = browser.new_page()
    page.goto(f"{site}/index.html")
    page.click("input.md-search__input")
    page.keyboard.type(word)
    page.wait_for_selector(".md-search-result__article h1")
    assert page.locator(".md-search-result__article h1").first.inner_text().strip() == first
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_cut_line_shows_that_it_is_cut_until_its_end_is_seen(browser: Browser, site: str, theme):
    context = browser.new_context(viewport=NARROW, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{site}/guides/evaluate.html")
    (cut,) = page.locator("pre > code").filter(has_text="problems: mine.jsonl").all()

    def edges() -> tuple[bool, bool]:
        """Whether the left and the right edge of the block has another colour than the rest."""
        picture = Image.open(BytesIO(cut.screenshot())).convert("L")
        left, middle, right = (picture.getpixel((x, 4)) for x in (0, 60, picture.width - 1))
        return abs(left - middle) > 25, abs(right - middle) > 25

    assert edges() == (False, True)
    cut.evaluate("code => code.scrollTo(80, 0)")
    assert edges() == (True, True)
    cut.evaluate("code => code.scrollTo(9999, 0)")
    assert edges() == (True, False)
    context.close()
