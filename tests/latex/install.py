"""Installs the LaTeX that the tests need: `python -m tests.latex.install`."""

from __future__ import annotations

import shutil
import subprocess

from tests.support.debian import Requirement

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


LATEX = Requirement(
    name="LaTeX",
    make_target="test-latex",
    packages=list(PACKAGES.values()),
    missing=missing_packages,
)

if __name__ == "__main__":
    LATEX.main()
