"""Starting children that neither outlive this process nor die of the signals that let it save."""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
"""Any of these lets a run save after its running step and end with 75."""
SOCKET_BYTES = 107
"""The longest path of a Unix socket on Linux."""
VLLM_SOCKET = "/12345678-1234-1234-1234-123456789abc"
"""As long as any that vLLM makes below VLLM_RPC_BASE_PATH."""
VLLM_ON_CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine runs in this process
    # compiling takes ten seconds, and fails for the ranks of log-probabilities
    "TORCHDYNAMO_DISABLE": "1",
}
"""Defaults of vLLM without a GPU, to be set before it is imported."""
# linux/prctl.h: the signal that a process gets when its parent dies
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def short_folder(longest_socket: str) -> str:
    """That for temporary files, or /tmp where a socket's path below it had no room."""
    usual = tempfile.gettempdir()
    return usual if len(os.fsencode(usual + longest_socket)) <= SOCKET_BYTES else "/tmp"


def shorten_vllm_sockets() -> None:
    """Have vLLM put its sockets where their paths have room, whatever TMPDIR says; before it is
    imported."""
    # a TMPDIR of a job is often longer than a socket may be
    os.environ.setdefault("VLLM_RPC_BASE_PATH", short_folder(VLLM_SOCKET))


@contextmanager
def deaf() -> Iterator[None]:
    """What is started meanwhile, and all that it starts, gets none of STOP_SIGNALS.

    SLURM sends SIGTERM to every process of a job, and Ray's would take the running step down. They
    put handlers of their own in place, so the signals are blocked, which children inherit. What
    comes for this process meanwhile, it gets afterwards.
    """
    resource_tracker.ensure_running()  # started meanwhile it would unblock what is blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def spawn(serve: Callable[..., None], *arguments: Any, daemon: bool) -> tuple[Connection, Any]:
    """A process of its own, deaf, that runs serve(its end of a pipe, *arguments); and our end.

    It is spawned, never forked, so that it shares nothing with an engine in this process.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, *arguments), daemon=daemon)
    with deaf():
        process.start()
    theirs.close()
    return ours, process


def stay_deaf() -> None:
    """Called in each of Ray's workers: keep what `deaf` blocked blocked.

    multiprocessing's resource tracker, which vLLM starts, blocks two signals while it starts and
    then unblocks them, whether they were blocked before or not.
    """
    resource_tracker._IGNORED_SIGNALS = ()  # type: ignore[attr-defined]


def die_with_parent() -> None:
    """Called in a new child: it is killed when the process that started it ends, however it ends.

    Programs that it starts later are not, unless they ask for the same.
    """
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:  # the parent died before this took effect
        os._exit(1)
