"""Chromium for the browser tests: Debian's own, installed where it is missing and that is allowed.

`python -m tests.browser.install` (make test-browser runs it) does nothing where it is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = ("chromium", "fonts-dejavu-core")
"""Debian's packages: the browser, and letters for it to draw."""
NAMES = ("chromium", "chromium-browser")


def chromium() -> str:
    """The browser's path; RuntimeError that names the packages where there is none."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise RuntimeError(
        f"Chromium is not installed: run `make test-browser` as root on Debian or Ubuntu, or "
        f"install these packages: {' '.join(PACKAGES)}"
    )


def install() -> None:
    """Installs Chromium where it is missing, or raises RuntimeError with why it cannot."""
    if any(map(shutil.which, NAMES)):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        chromium()
    print(f"Installing {' '.join(PACKAGES)} ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", "-q", *arguments], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"apt-get {' '.join(arguments)} failed:\n{done.stderr}")
    chromium()


if __name__ == "__main__":
    try:
        install()
    except RuntimeError as error:
        sys.exit(str(error))
