"""Programs from Debian's packages that tests need: installed where that is allowed, else asked for.

Each kind of test has an installer with a Requirement of its own. It installs only as root on a
system with apt-get; elsewhere the error names the packages and the remedy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

# Where Debian's packages ask whether they may start their service; exit status 101 says no.
SERVICE_POLICY = Path("/usr/sbin/policy-rc.d")


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """What one kind of test needs from Debian."""

    name: str
    """As messages call it."""
    make_target: str
    """What installs it and runs its tests."""
    packages: Sequence[str]
    """All of Debian's packages that it takes."""
    missing: Callable[[], Sequence[str]]
    """Tells which of the packages this machine lacks."""
    starts_services: bool = False
    """Whether a package starts a service when it is installed; it is kept from that."""

    def require(self) -> None:
        """Raises RuntimeError with the packages and the remedy, unless nothing is missing."""
        if missing := self.missing():
            raise RuntimeError(
                f"{self.name} is not all installed: this machine lacks {' '.join(missing)}. Run "
                f"`make {self.make_target}` as root on Debian or Ubuntu, or install these "
                f"packages: {' '.join(self.packages)}"
            )

    def install(self) -> None:
        """Installs what is missing, or raises RuntimeError with the reason that it cannot."""
        if not (missing := self.missing()):
            return
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            self.require()
        print(f"Installing {' '.join(missing)} ...", flush=True)
        with services_stay_stopped() if self.starts_services else nullcontext():
            _apt_get("update")
            _apt_get("install", "-y", "--no-install-recommends", *missing)
        self.require()

    def main(self) -> None:
        """An installer's command: the reason that it cannot install ends it with status 1."""
        try:
            self.install()
        except RuntimeError as error:
            sys.exit(str(error))


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


def _apt_get(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", "-q", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"apt-get {' '.join(arguments)} failed:\n{done.stderr}")
