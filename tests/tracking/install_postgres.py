"""Installs PostgreSQL for the tests that need it: `python -m tests.tracking.install_postgres`.

It installs only as root on a system with apt-get; elsewhere it names the package and fails. No
server is started: the tests start one of their own, as an ordinary user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.slurm.install import services_stay_stopped

PACKAGE = "postgresql"


def programs() -> Path | None:
    """Folder of initdb and postgres, the newest version first; None where there is none."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"),
        key=lambda path: int(path.parts[-3]),
        reverse=True,
    )
    on_path = shutil.which("initdb")
    return next((path.parent for path in found), (on_path and Path(on_path).parent) or None)


def require_programs() -> Path:
    """The folder of the programs, or RuntimeError that names the package."""
    if (found := programs()) is None:
        raise RuntimeError(
            "PostgreSQL is not installed: run `make test-postgres` as root on Debian or Ubuntu, or "
            f"install this package: {PACKAGE}"
        )
    return found


def install() -> None:
    """Installs what is missing, or raises RuntimeError with the reason that it cannot."""
    if programs() is not None:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        require_programs()
    print(f"Installing {PACKAGE} ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with services_stay_stopped():
        for arguments in (["update"], ["install", "-y", "--no-install-recommends", PACKAGE]):
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
