"""Installs the SLURM programs that the tests need: `python -m tests.slurm.install`.

No daemon is started and no configuration written: the tests bring up a cluster of their own.
"""

from __future__ import annotations

import os
import shutil

from tests.support.debian import Requirement

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


def missing_packages() -> list[str]:
    """The packages of the programs that this machine lacks."""
    return [p for program, p in PACKAGES.items() if not shutil.which(program, path=SEARCH_PATH)]


SLURM = Requirement(
    name="SLURM",
    make_target="test-slurm",
    packages=list(PACKAGES.values()),
    missing=missing_packages,
    starts_services=True,
)

if __name__ == "__main__":
    SLURM.main()
