"""Installs the SLURM programs that the tests need: `python -m tests.slurm.install`.

It installs only as root on a system with apt-get; elsewhere it names the packages and fails. No
daemon is started and no configuration written: the tests bring up a cluster of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Each program and the Debian package that it comes from.
PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "slurmdbd": "slurmdbd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "mariadbd": "mariadb-server",
}
# Daemons live in sbin, which an ordinary user's PATH often lacks.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
# Where Debian's packages ask whether they may start their service; exit status 101 says no.
SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")


def missing_packages() -> list[str]:
    """The packages of the programs that this machine lacks."""
    return [p for program, p in PACKAGES.items() if not shutil.which(program, path=SEARCH_PATH)]


def require_programs() -> None:
    """Raises RuntimeError, naming the packages, unless every program is installed."""
    if missing := missing_packages():
        raise RuntimeError(
            f"SLURM's programs are not all installed: this machine lacks {' '.join(missing)}. Run "
            f"`make test-slurm` as root on Debian or Ubuntu, or install these packages: "
            f"{' '.join(PACKAGES.values())}"
        )


@contextmanager
def services_stay_stopped() -> Iterator[None]:
    """While it lasts, a package that is installed starts no service; an existing policy is kept."""
    if SERVICE_POLICY.exists():
        yield
        return
    SERVICE_POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="utf-8")
    SERVICE_POLICY.chmod(0o755)
    try:
        yield
    finally:
        SERVICE_POLICY.unlink()


def install() -> None:
    """Installs what is missing, or raises RuntimeError with the reason that it cannot."""
    if not (missing := missing_packages()):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        require_programs()
    print(f"Installing {' '.join(missing)} ...", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with services_stay_stopped():
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
