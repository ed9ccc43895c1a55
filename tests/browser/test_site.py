"""The documentation as `make docs` built it, in a real browser."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from subprocess import DEVNULL, Popen

import pytest
from playwright.sync_api import Browser

from sweeps import REPOSITORY
from tests.browser.conftest import SHOWN, findings
from tests.support.servers import free_port, stop, wait_for

SITE = REPOSITORY / "build/docs"
PAGES = (
    "404.html",
    "index.html",
    "start/first-sweep.html",
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
