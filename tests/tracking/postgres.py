"""A PostgreSQL server of a test's own: an ordinary user's, on a free loopback port."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.servers import free_port
from tests.tracking.install_postgres import require_programs


@dataclass
class Postgres:
    """A server that can be stopped and started again over the same data."""

    folder: Path
    port: int
    user: str | None
    """Whom to become; None where the tests are not run by root, whom PostgreSQL refuses."""
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def uri(self) -> str:
        """Of the database that a fresh server has."""
        return f"postgresql://tester@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Serve, and return when it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(require_programs() / "postgres", "-D", self.folder / "data"),
                    *("-p", str(self.port), "-h", "127.0.0.1", "-k", self.folder),
                    *("-c", "fsync=off"),  # the tests kill processes, never the machine
                ],
                user=self.user,
                stdout=log,
                stderr=log,
            )
        ready = [require_programs() / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(ready).returncode:
            said = (self.folder / "log").read_text()
            assert self.process.poll() is None, f"PostgreSQL ended: {said}"
            time.sleep(0.1)

    def stop(self) -> None:
        """End it at once, clients or not."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A fresh server, which is running."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # a test's own folder is closed to other users
    server = Postgres(folder, free_port(), _ordinary_user())
    try:
        if server.user is not None:
            shutil.chown(folder, server.user)
        initdb = [require_programs() / "initdb", "-U", "tester", "-A", "trust", "-N"]
        made = subprocess.run(
            [*initdb, "-E", "UTF8", "--locale", "C", "-D", folder / "data"],
            user=server.user,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _ordinary_user() -> str | None:
    """Debian's package makes the user postgres; any user without rights would do."""
    if os.geteuid():
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
