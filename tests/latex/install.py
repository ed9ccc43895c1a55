"""Installs the LaTeX that the tests need: `python -m tests.latex.install`.

It installs only as root on a system with apt-get; elsewhere it names the packages and fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

# Each program or style file and the Debian package that it comes from.
PACKAGES = {
    "pdflatex": "texlive-latex-base",
    "booktabs.sty": "texlive-latex-recommended",
    "pdftotext": "poppler-utils",
}


def missing_packages() -> list[str]:
    """The packages of what this machine lacks."""
    return [package for name, package in PACKAGES.items() if not _is_there(name)]


def _is_there(name: str) -> bool:
    if not name.endswith(".sty"):
        return shutil.which(name) is not None
    if not shutil.which("kpsewhich"):
        return False
    return subprocess.run(["kpsewhich", name], capture_output=True).returncode == 0


def require_programs() -> None:
    """Raises RuntimeError, naming the packages, unless everything is installed."""
    if missing := missing_packages():
        raise RuntimeError(
            f"LaTeX is not all installed: this machine lacks {' '.join(missing)}. Run `make "
            "test-latex` as root on Debian or Ubuntu, or install these packages: "
            f"{' '.join(PACKAGES.values())}"
        )


def install() -> None:
    """Installs what is missing, or raises RuntimeError with the reason that it cannot."""
    if not (missing := missing_packages()):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        require_programs()
    print(f"Installing {' '.join(missing)} ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(
            ["apt-get", "-q", *arguments], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"apt-get {' '.join(arguments)} failed:\n{done.stderr}")
    require_programs()


if __name__ == "__main__":
    try:
        install()
    except RuntimeError as error:
        sys.exit(str(error))
