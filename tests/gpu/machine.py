"""The machine under `make check-gpu`: its GPUs, what a check lacks here, and what nvidia-smi says
of memory and processes while one runs.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from fgrpo_bench.engines.openrlhf.engine import home as openrlhf_home
from fgrpo_bench.engines.openrlhf.installation import DRIVER_QUERY, ask

PROCESS_QUERY = ("nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader")
MEMORY_QUERY = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")
"""A line a GPU, MiB."""
SAMPLE_MS = 200
"""Between two looks at the memory in use."""
GONE_S = 60.0
"""How long processes may take to end after the one that started them was killed."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a check may use."""

    device: str
    """cuda, or cpu with stand-ins for it."""
    gpus: tuple[str, ...]
    """Name of each."""
    gpu_memory_gb: float
    """GiB of the smallest; 0 without one."""
    described: tuple[str, ...]
    """Lines about GPUs and programs."""
    has_openrlhf: bool


def look(device: str) -> Machine:
    """This machine, as torch of this environment and nvidia-smi see it."""
    import torch

    n_gpus = torch.cuda.device_count() if device == "cuda" and torch.cuda.is_available() else 0
    properties = [torch.cuda.get_device_properties(i) for i in range(n_gpus)]
    drivers = (ask(*DRIVER_QUERY) or "").split()
    return Machine(
        device=device,
        gpus=tuple(gpu.name for gpu in properties),
        gpu_memory_gb=min((gpu.total_memory / 2**30 for gpu in properties), default=0.0),
        described=(
            f"torch {torch.__version__}, CUDA {torch.version.cuda}, {n_gpus} GPUs",
            *(
                f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB, {gpu.major}.{gpu.minor}"
                for gpu in properties
            ),
            f"driver {drivers[0]}" if drivers else "no driver that answers nvidia-smi",
        ),
        has_openrlhf=(openrlhf_home(device) / "bin" / "python").exists(),
    )


def lacks_gpu(machine: Machine) -> str:
    """Why a check cannot run here; empty where it can. Likewise below."""
    return "" if machine.device == "cpu" or machine.gpus else "torch sees no GPU"


def lacks_openrlhf(machine: Machine) -> str:
    if machine.has_openrlhf:
        return lacks_gpu(machine)
    home = openrlhf_home(machine.device).name
    return f"{home} is missing: `make {home.replace('.venv', 'setup')}` makes it"


def lacks_two_gpus(machine: Machine) -> str:
    return "needs two GPUs" if len(machine.gpus) < 2 else lacks_openrlhf(machine)


def lacks_two_ranks(machine: Machine) -> str:
    """As above, but two processors will do."""
    return lacks_openrlhf(machine) if machine.device == "cpu" else lacks_two_gpus(machine)


def ask_gpus(query: tuple[str, ...]) -> str:
    """nvidia-smi's answer about the GPUs that CUDA_VISIBLE_DEVICES leaves, else all; empty without
    nvidia-smi."""
    return ask(*_visible(query)) or ""


def _visible(query: tuple[str, ...]) -> tuple[str, ...]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return (*query, f"--id={visible}") if visible else query


def processes(answer: str) -> dict[int, str]:
    """Programs by their pid, of PROCESS_QUERY's answer."""
    pairs = (line.split(",", 1) for line in answer.splitlines())
    return {int(pair[0]): pair[1].strip() for pair in pairs if pair[0].strip().isdigit()}


def on_gpus() -> dict[int, str]:
    """What computes on the GPUs now."""
    return processes(ask_gpus(PROCESS_QUERY))


def running() -> dict[int, str]:
    """Every process that has not ended, as far as this one sees them."""
    return {pid: name for pid, (name, _) in _table().items()}


def family(pid: int) -> dict[int, str]:
    """A process and all that it and its own started and that have not ended."""
    table, members = _table(), {pid}
    while more := {own for own, (_, parent) in table.items() if parent in members} - members:
        members |= more
    return {own: table[own][0] for own in members & table.keys()}


def _table() -> dict[int, tuple[str, int]]:
    """(name, parent) by pid; of /proc/<pid>/stat: pid (name) state parent ..."""
    table = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since
            start, _, end = path.read_text(errors="replace").rpartition(")")
            state, parent, *_ = end.split()
            if state != "Z":
                table[int(path.parent.name)] = (start.partition("(")[2], int(parent))
    return table


def check_gone(
    started: Mapping[int, str],
    now: Callable[[], Mapping[int, str]],
    *,
    patience_s: float = GONE_S,
) -> None:
    """AssertionError with pids and names where processes that were there before the one that
    started them was killed are among those of `now` after `patience_s` seconds still."""
    deadline = time.monotonic() + patience_s
    while left := {pid: name for pid, name in started.items() if pid in now()}:
        assert time.monotonic() < deadline, (
            f"{patience_s:.0f} s after the kill these still run, and hold the memory of the GPU "
            "that they had: "
            + ", ".join(f"pid {pid} ({name})" for pid, name in left.items())
            + "; end them with kill"
        )
        time.sleep(0.5)


@dataclass(kw_only=True)
class Memory:
    """Memory in use on the GPUs over a while."""

    before: list[int] = field(default_factory=list)
    """MiB on each GPU before it."""
    answers: str = ""
    """MEMORY_QUERY's, one after the other."""

    @property
    def peak_gib(self) -> float | None:
        """Most on one GPU, over what was in use before; None where nvidia-smi does not tell."""
        used = mebibytes(self.answers)
        if not self.before or len(used) < len(self.before):
            return None
        return max(mib - self.before[i % len(self.before)] for i, mib in enumerate(used)) / 1024


def mebibytes(answer: str) -> list[int]:
    """MEMORY_QUERY's answer; lines without a number, as [N/A], are left out."""
    return [int(line) for line in answer.split("\n") if line.strip().isdigit()]


@contextmanager
def watched_memory() -> Iterator[Memory]:
    """The memory in use while the body runs, whole when it has ended."""
    memory = Memory(before=mebibytes(ask_gpus(MEMORY_QUERY)))
    if not memory.before:
        yield memory
        return
    with tempfile.TemporaryFile("w+") as answers:
        command = [*_visible(MEMORY_QUERY), f"--loop-ms={SAMPLE_MS}"]
        watcher = subprocess.Popen(command, stdout=answers, stderr=subprocess.DEVNULL)
        try:
            yield memory
        finally:
            watcher.terminate()
            watcher.wait()
            answers.seek(0)
            memory.answers = answers.read()
