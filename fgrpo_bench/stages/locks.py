"""Locks on files, which name their holder and die with its process."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TextIO

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import FULL, now

LOOK_SECONDS = 0.2
"""Between two tries of a process that waits."""


@contextmanager
def locked(
    path: Path, *, wait: bool, what: str, waiting: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Hold an exclusive lock on `path`, which then names the holder; freed when the process dies.
    OSError that names the remedy where its file system keeps no locks.

    wait: False refuses at once where somebody holds it, with BlockingIOError that names the holder.
    waiting: called again and again while somebody does; it may raise to give up.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        if not _taken(file, tries=4):
            if not wait:
                raise BlockingIOError(
                    f"{what} is already being run by {describe_holder(path)}; wait for it, or stop "
                    "it with `cancel`"
                )
            print(f"waiting for {describe_holder(path)}, which has {what} in hand", flush=True)
            while not _taken(file):
                waiting()
                time.sleep(LOOK_SECONDS)
        _name_holder(file.fileno())
        os.close(os.open(path.parent, os.O_RDONLY))  # else NFS may hide what the last holder made
        yield


def driving(
    paths: RunPaths, waiting: Callable[[], None] | None = None
) -> AbstractContextManager[None]:
    """Be the one driver of a sweep; BlockingIOError where another is at work, PermissionError that
    names the owner where the sweep is another user's.

    waiting: as of `locked`, called while another is at work; None does not wait.
    """
    for path in (paths.driver_lock, paths.submissions):
        _check_owner(path)
    name = f"sweep {paths.sweep} experiment={paths.experiment} version={paths.version}"
    wait = waiting is not None
    return locked(paths.driver_lock, wait=wait, what=name, waiting=waiting or (lambda: None))


def _check_owner(path: Path) -> None:
    """What is nobody's yet, or cannot be written for another reason, is for the writer to tell."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except PermissionError as error:
        owner = _owner(path)
        raise PermissionError(
            error.errno,
            f"{path} is {owner}'s and cannot be written by you: the sweep and its jobs are "
            f"{owner}'s, who alone can go on with it or cancel it; `status` shows it to everybody. "
            "For a sweep of your own name a folder of your own, with run_root=<folder> or "
            "FGRPO_RUN_ROOT=<folder>",
        ) from error
    except OSError:
        pass


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:  # the machine knows no such user
        return f"user {path.stat().st_uid}"


def describe_holder(path: Path) -> str:
    """e.g. `process 12 on node3 since 2026-01-01T00:00:00+00:00`."""
    holder = lock_holder(path)
    if not holder:
        return "another process"
    return f"process {holder.get('pid')} on {holder.get('host')} since {holder.get('since')}"


def _name_holder(handle: int) -> None:
    """On a full disk the lock holds without a name, so that jobs can be cancelled even then.

    fsync: else NFS keeps the name on this machine until the lock is given back.
    """
    holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now()}
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(holder).encode(), 0)
        # others read who holds it, on other nodes too
        os.fsync(handle)
    except OSError as error:
        if error.errno not in FULL:
            raise


def _taken(file: TextIO, *, tries: int = 1) -> bool:
    """Whether it could be locked; some tries outlast `is_locked`, which holds it an instant."""
    for pause in (0.01, 0.05, 0.2, 0.0)[-tries:]:
        if _flock(file, fcntl.LOCK_EX):
            return True
        time.sleep(pause)
    return False


def _flock(file: TextIO, kind: int) -> bool:
    """Whether it could be locked at once, as a `kind` of fcntl."""
    try:
        # flock: the kernel releases it with the process, however that ends, SIGKILL included
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: it cannot be locked, which needs a file system with flock (a mount "
            "with the option flock on Lustre, without nolock on NFS); mount it so, or take a run "
            "root on another one",
            file.name,
        ) from error
    return True


def lock_holder(path: Path) -> dict[str, Any]:
    """What the lock file says of its holder; empty where it says nothing."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if not path.exists():
        return False
    with path.open("r", encoding="utf-8") as file:
        return not _flock(file, fcntl.LOCK_SH)
