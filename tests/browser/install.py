"""Chromium for the browser tests, Debian's own: `python -m tests.browser.install`."""

from __future__ import annotations

import shutil

from tests.support.debian import Requirement

# The browser, and letters for it to draw.
PACKAGES = ["chromium", "fonts-dejavu-core"]
NAMES = ("chromium", "chromium-browser")


def missing_packages() -> list[str]:
    """All of them, or none where there is a browser: its letters are then taken to be there."""
    return [] if any(map(shutil.which, NAMES)) else PACKAGES


CHROMIUM = Requirement(
    name="Chromium", make_target="test-browser", packages=PACKAGES, missing=missing_packages
)


def chromium() -> str:
    """The browser's path; RuntimeError that names the packages where there is none."""
    CHROMIUM.require()
    return next(filter(None, map(shutil.which, NAMES)))


if __name__ == "__main__":
    CHROMIUM.main()
