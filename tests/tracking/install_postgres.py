"""Installs PostgreSQL for the tests that need it: `python -m tests.tracking.install_postgres`.

No server is started: the tests start one of their own, as an ordinary user.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.debian import Requirement

PACKAGES = ["postgresql"]


def program_folders() -> list[Path]:
    """Folders with initdb and postgres, the newest version first and that on the PATH last."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parts[-3]),
        reverse=True,
    )
    on_path = shutil.which("initdb")
    return [path.parent for path in [*found, *([Path(on_path)] if on_path else [])]]


def missing_packages() -> list[str]:
    """The package, or nothing where any version is installed."""
    return [] if program_folders() else PACKAGES


POSTGRESQL = Requirement(
    name="PostgreSQL",
    make_target="test-postgres",
    packages=PACKAGES,
    missing=missing_packages,
    starts_services=True,
)


def require_programs() -> Path:
    """The folder of the programs, or RuntimeError that names the package."""
    POSTGRESQL.require()
    return program_folders()[0]


if __name__ == "__main__":
    POSTGRESQL.main()
