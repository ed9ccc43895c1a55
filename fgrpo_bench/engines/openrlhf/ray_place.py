"""Where the Ray of a run is: in a folder and at an address of its own.

Left to itself Ray takes part in whatever cluster the node's temporary folder names, be it somebody
else's or long dead, and puts its sockets below that folder however long its path is.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fgrpo_bench.engines.processes import short_folder
from fgrpo_bench.stages.stage import Stopped

HOST = "FGRPO_RAY_HOST"
"""Environment variable: the first node's address for the others, where Ray does not find it."""
FIRST_PORT, PAIRS = 20_000, 5_000
"""Ports of heads, two each: below those that outgoing connections are given."""
LONGEST_SOCKET = "/ray-12345678/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store.9"
"""As long as any that Ray makes below the folder for temporary files; process ids have up to seven
digits."""


@contextmanager
def ray_folder() -> Iterator[Path]:
    """A new folder for Ray's sockets and logs, removed at the end.

    Where an exception other than Stopped and SystemExit ends it, the folder stays for its logs and
    is named.
    """
    folder = Path(tempfile.mkdtemp(prefix="ray-", dir=short_folder(LONGEST_SOCKET)))
    keep = False
    try:
        yield folder
    except Exception as error:
        keep = not isinstance(error, Stopped)
        raise
    finally:
        if keep:
            print(f"Ray's logs are in {folder} on each node of the run", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def own_host() -> str:
    """The address of this node for others: FGRPO_RAY_HOST, else that of its default route.

    ValueError where the variable names no address of this node.
    """
    named = os.environ.get(HOST)
    if not named:
        import ray

        return str(ray.util.get_node_ip_address())
    with socket.socket() as probe:
        try:
            probe.bind((named, 0))
        except OSError as error:
            raise ValueError(
                f"{HOST}={named!r} is no address of {socket.gethostname()}, the first node: take "
                "one that `hostname -I` lists there"
            ) from error
        return str(probe.getsockname()[0])


def free_address(host: str, job: int) -> str:
    """Where the head of a job can listen, at two ports in a row; RuntimeError where none is free.

    host: an address of this machine.
    """
    for turn in range(PAIRS):
        port = FIRST_PORT + 2 * ((job + turn) % PAIRS)
        if is_free(host, port) and is_free(host, port + 1):
            return f"{host}:{port}"
    raise RuntimeError(
        f"no port for Ray's head is free on {host} between {FIRST_PORT} and "
        f"{FIRST_PORT + 2 * PAIRS}: free some"
    )


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def answers(address: str) -> bool:
    """Whether a server listens there."""
    host, _, port = address.rpartition(":")
    with suppress(OSError), socket.create_connection((host, int(port)), timeout=2):
        return True
    return False
