"""The wheel of this checkout, built as a package index gets it: from the source distribution."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
FILES += ("CITATION.cff", "CHANGELOG.md")
FOLDERS = ("fgrpo_bench", "evaluators", "conf")
PIP = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]


def build(folder: Path) -> Path:
    """The wheel, in an empty folder. Sources are copied, as setuptools writes beside them."""
    source = folder / "source"
    source.mkdir()
    for name in FILES:
        shutil.copy(REPOSITORY / name, source)
    for name in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / name, source / name, ignore=ignored)
    code = f"from setuptools.build_meta import build_sdist; build_sdist({str(folder)!r})"
    how = {"check": True, "capture_output": True}
    subprocess.run([sys.executable, "-c", code], cwd=source, **how)
    (sdist,) = folder.glob("*.tar.gz")
    here = ["--no-deps", "--no-build-isolation", "-w", str(folder), str(sdist)]
    subprocess.run([*PIP, "wheel", *here], **how)
    (wheel,) = folder.glob("*.whl")
    return wheel
