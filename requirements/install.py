"""`python requirements/install.py <log> <pip's arguments>`: pip with one line that moves in a
terminal, and none in a log. What pip says goes to the file; its end is shown where pip fails.

It needs Python alone: it runs before anything is installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TextIO

NAMED = re.compile(
    r"^(Collecting|Requirement already satisfied:|Downloading|Installing) ?([\w.-]*)"
)
CELLS = 24
"""Width of the bar."""
SHOWN = 15
"""Last lines of what pip said, where it failed."""


def main(arguments: list[str]) -> int:
    """Run pip of this interpreter; its exit code."""
    log, *options = arguments
    wanted = max(1, _pins(options))
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *options]
    moves = sys.stdout.isatty()
    with Path(log).open("w", encoding="utf-8") as kept:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )
        assert process.stdout is not None
        for line in shown(_kept(process.stdout, kept), wanted):
            if moves:
                width = shutil.get_terminal_size().columns - 1
                print(f"\r{line[:width].ljust(width)}", end="", flush=True)
        exit_code = process.wait()
    if moves:
        print("\r\033[K", end="", flush=True)
    if exit_code:
        lines = Path(log).read_text(encoding="utf-8").splitlines()[-SHOWN:]
        print("\n".join([*lines, f"pip failed; all that it said: {log}"]), file=sys.stderr)
    return exit_code


def shown(said: Iterator[str], wanted: int) -> Iterator[str]:
    """The line after each line of pip's that changes it. wanted: packages to be looked at."""
    looked_at: set[str] = set()
    for line in said:
        named = NAMED.match(line)
        if named is None:
            continue
        verb, name = named[1], named[2]
        if verb in ("Collecting", "Requirement already satisfied:"):
            looked_at.add(name)
        done = min(len(looked_at), wanted)
        bar = "#" * (CELLS * done // wanted)
        what = f"installing {wanted} packages" if verb == "Installing" else name
        yield f"[{bar.ljust(CELLS)}] {done}/{wanted}  {what}"


def _kept(said: Iterator[str], log: TextIO) -> Iterator[str]:
    for line in said:
        log.write(line)
        log.flush()
        yield line.strip()


def _pins(options: list[str]) -> int:
    """Packages that the options name, by themselves or in files of requirements."""
    n = sum("==" in option for option in options)
    for flag, file in pairwise(options):
        if flag == "-r":
            lines = Path(file).read_text(encoding="utf-8").splitlines()
            n += sum("==" in line for line in lines if not line.startswith("#"))
    return n


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
