"""An interactive shell on a terminal of its own, for tests of the Tab key."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from pathlib import Path

PROMPT = "READY> "
KEPT = ("PATH", "FGRPO_RUN_ROOT")


def with_command(folder: Path) -> str:
    """A PATH that has this checkout's fgrpo-bench, which is written into the folder."""
    program = folder / "bin" / "fgrpo-bench"
    program.parent.mkdir()
    checkout = Path(__file__).parents[2]
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={checkout} exec {sys.executable} -m fgrpo_bench "$@"\n'
    )
    program.chmod(0o755)
    return f"{program.parent}:{os.environ['PATH']}"


class Terminal:
    """A shell in a folder, whose variables are those of this process that KEPT names, and others.

    command: the shell and its options, without files of whoever runs this.
    """

    def __init__(self, folder: Path, *command: str, **variables: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(folder)
                kept = {key: os.environ[key] for key in KEPT if key in os.environ}
                terminal = {"PS1": PROMPT, "TERM": "dumb", "COLUMNS": "500"}
                os.execvpe(command[0], command, kept | terminal | variables)
            finally:
                os._exit(127)
        self.until(PROMPT)

    def until(self, words: str, seconds: float = 200.0) -> str:
        """What is printed up to some words."""
        text, end = "", time.monotonic() + seconds
        while words not in text:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"no {words!r} in {text!r}"
            text += os.read(self.fd, 65536).decode(errors="replace")
        return text

    def run(self, line: str) -> str:
        os.write(self.fd, f"{line}\n".encode())
        return self.until(PROMPT)

    def tab(self, line: str, *, becomes: str) -> None:
        """Type a line and Tab, wait for what it becomes, and wipe it."""
        os.write(self.fd, f"{line}\t".encode())
        self.until(becomes)
        os.write(self.fd, b"\x15")  # Ctrl-U

    def close(self) -> None:
        os.close(self.fd)
        os.waitpid(self.pid, 0)
