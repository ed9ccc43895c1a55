"""A real smoke sweep, the dashboard and MLflow's UI over it, and a real browser to look at them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Error, Page, sync_playwright

from fgrpo_bench.command.runs import find_runs
from fgrpo_bench.files.paths import RunPaths
from tests.browser.install import chromium
from tests.support.servers import free_port, listening, stop, wait_for
from tests.support.smoke import smoke_sweep

HERE = Path(__file__).parent
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SHOWN = [
    pytest.param(theme, size, id=f"{theme}-{size['width']}")
    for theme, size in (("light", NARROW), ("dark", WIDE))
]
"""How pages are looked at by axe: each width once and each set of colours once."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs the browser."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    root, _ = smoke_sweep(tmp_path_factory.mktemp("runs"))
    (only,) = find_runs(root)
    return only


@contextmanager
def served(command: str, run: RunPaths, ready: str) -> Iterator[tuple[str, str]]:
    """A server of `python -m dashboards` over a run root, whatever store the environment names: its
    address, and what it said when it was ready. It takes connections of this machine alone, and
    Ctrl-C ends it well."""
    port = free_port()
    words = [sys.executable, "-m", "dashboards", command, "--root", str(run.root)]
    output = run.root / f"{command}.log"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*words, "--port", str(port)],
            stdout=file,
            stderr=file,
            env=ENVIRONMENT | {"MLFLOW_TRACKING_URI": "http://127.0.0.1:9"},
            start_new_session=True,
        )
    try:
        base = f"http://127.0.0.1:{port}"
        wait_for(f"{base}{ready}", process)
        assert listening(port) == {"0100007F"}, "others than this machine can connect"
        yield base, output.read_text()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(600) in (0, 130, -signal.SIGINT)
        assert "Traceback" not in output.read_text() and not listening(port)
    finally:
        stop(process)


@pytest.fixture(scope="session")
def dashboard(run: RunPaths) -> Iterator[str]:
    """Address of the sweep's pages."""
    with served("serve", run, "/") as (base, _):
        yield f"{base}/{run.sweep}/{run.experiment}/{run.version}"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield made
        made.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """open_page(url, size): a page whose charts are drawn; what the console says is an error."""
    said: list[str] = []
    contexts = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "trace"):
            said.append(f"{message.type}: {message.text}")

    def failed(error: Error) -> None:
        said.append(str(error))

    def opened(url: str, size: dict[str, int] = WIDE) -> Page:
        context = browser.new_context(viewport=size)
        contexts.append(context)
        page = context.new_page()
        page.on("console", heard)
        page.on("pageerror", failed)
        page.goto(url)
        drawn(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not said


def drawn(page: Page) -> None:
    """Wait until every chart of a page is drawn."""
    page.locator("[data-chart]:not([data-drawn])").first.wait_for(state="detached")


AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
"""The rules of axe-core, and what runs them."""
VIOLATIONS = "axe.run({resultTypes: ['violations']}).then((result) => result.violations)"
"""All that passed too takes three times as long on its way from the browser."""


def findings(page: Page) -> list[str]:
    """Serious and critical ones, with everything on the page unfolded."""
    page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    page.evaluate(AXE)
    return [
        f"{found['id']} at {node['target']}: {node['failureSummary']}"
        for found in page.evaluate(VIOLATIONS)
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]
