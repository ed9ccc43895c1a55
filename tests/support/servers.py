"""Servers of the tests' own: loopback ports, when they answer and to whom, and their end."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

LOWEST, HIGHEST = 10_000, 20_000
"""Below what Linux gives outgoing connections, one of which could take a port before its server
listens, and below the ports of a training's Ray."""


_CLAIMS: list[socket.socket] = []
"""UDP sockets on the numbers that were given out: a server takes a while to listen on its TCP port,
and until this process ends no other test process is given the same one."""


def free_port(in_a_row: int = 1) -> int:
    """A loopback port, the first of so many, that nobody holds and no other test was given."""
    for _ in range(100):
        first = LOWEST + secrets.randbelow(HIGHEST - LOWEST)
        claims = [socket.socket(type=socket.SOCK_DGRAM) for _ in range(in_a_row)]
        probes = [socket.socket() for _ in range(in_a_row)]
        try:
            for sockets in (claims, probes):
                for port, each in enumerate(sockets, start=first):
                    each.bind(("127.0.0.1", port))
        except OSError:
            for claim in claims:
                claim.close()
            continue
        finally:
            for probe in probes:
                probe.close()
        _CLAIMS.extend(claims)
        return first
    raise RuntimeError(f"no {in_a_row} free ports in a row from {LOWEST} to {HIGHEST}: free some")


def listening(port: int) -> set[str]:
    """Local addresses on which somebody listens at a port, as the kernel writes them."""
    tables = [Path("/proc/net/tcp"), Path("/proc/net/tcp6")]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()[1:]]
    return {
        row[1].split(":")[0] for row in rows if row[3] == "0A" and row[1].endswith(f"{port:04X}")
    }


def wait_for(url: str, process: subprocess.Popen[Any]) -> None:
    """Until the page answers; AssertionError where the process ends first."""
    while True:
        assert process.poll() is None, f"the server ended with {process.returncode}"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.1)


def stop(process: subprocess.Popen[Any]) -> None:
    """End a server and its workers at once, as a power cut would."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
