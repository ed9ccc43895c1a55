"""The pictures of the dashboard in README and docs, taken anew from a finished sweep.

    python -m tests.browser.screenshots groupsize countdown v1

It serves the sweep, opens each page in Chromium at 1280x800 and writes
docs/reference/dashboard-<page>.png.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from fgrpo_bench.command.runs import default_root
from fgrpo_bench.files.paths import RunPaths
from sweeps import REPOSITORY
from tests.browser.conftest import drawn, served
from tests.browser.install import chromium

SIZE = {"width": 1280, "height": 800}
VIEWS = ("compare", "forgetting", "draws")
COLOURS = 192
"""Of a picture; more than a page has, except in antialiased edges."""
LARGEST = 150_000
"""Bytes of a picture, so that README loads at once."""


def take(browser: Browser, address: str, file: Path) -> int:
    """Write the top of a page as a picture; its bytes. ValueError where it is larger than it may
    be, or the page is not there."""
    page = browser.new_page(viewport=SIZE)
    answer = page.goto(address)
    if answer is None or not answer.ok:
        raise ValueError(f"{address} gives no page: name a sweep that is there")
    drawn(page)
    picture = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    written = io.BytesIO()
    picture.convert("RGB").quantize(COLOURS).save(written, "PNG", optimize=True)
    if written.tell() > LARGEST:
        raise ValueError(f"{file}: {written.tell():,} bytes, more than {LARGEST:,}")
    return file.write_bytes(written.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.browser.screenshots",
        description="Take the pictures of README and docs from a finished sweep.",
    )
    parser.add_argument("sweep")
    parser.add_argument("experiment")
    parser.add_argument("version")
    parser.add_argument("--root", type=Path, default=default_root(), help="now: %(default)s")
    pages = REPOSITORY / "docs/reference"
    parser.add_argument("--to", type=Path, default=pages, help="now: %(default)s")
    given = parser.parse_args()
    run = RunPaths(
        root=given.root,
        sweep=given.sweep,
        experiment=given.experiment,
        version=given.version,
    )
    with served("serve", run, "/") as (base, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        for view in VIEWS:
            file = given.to / f"dashboard-{view}.png"
            address = f"{base}/{run.sweep}/{run.experiment}/{run.version}/{view}"
            print(f"{file}: {take(browser, address, file):,} bytes")


if __name__ == "__main__":
    main()
