"""Compile flash-attn and DeepSpeed's optimizers for the GPUs that will run them.

`python -m fgrpo_bench.engines.openrlhf.compilation <program> ...` runs a command, a pip of the
environment that is installed, with what their set-up scripts read from the environment.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from fgrpo_bench.engines.openrlhf.installation import (
    ARCHITECTURE_QUERY,
    FLASH_ATTN_ARCHITECTURES,
    architectures,
    ask,
    cuda_home,
)

FLASH_ATTN_GIB = 9
"""Memory of one of flash-attn's compilations, as its setup.py has it."""


def build_environment(
    capabilities: Sequence[tuple[int, int]],
    home: Path | None,
    *,
    processors: int,
    memory_gib: float,
    jobs: str | None,
) -> dict[str, str]:
    """What the set-up scripts of flash-attn 2.8.3 and DeepSpeed 0.19.6 read.

    capabilities: ascending. processors: that this process may use, of which os.cpu_count, with
    which flash-attn would count, knows nothing. jobs: MAX_JOBS where it is set; it stays.
    """
    names = [f"{major}.{minor}" for major, minor in capabilities]
    majors = dict.fromkeys(major for major, _ in capabilities)
    most = max(1, min(processors // 2, int(memory_gib // FLASH_ATTN_GIB)))
    return {
        **({"CUDA_HOME": str(home)} if home else {}),
        "DS_ACCELERATOR": "cuda",  # a login node has no GPU to find it by
        "DS_BUILD_OPS": "0",
        "DS_BUILD_FUSED_ADAM": "1",
        "DS_BUILD_CPU_ADAM": "1",  # with adam_offload
        "DS_SKIP_CUDA_CHECK": "1",  # it wants torch's minor version of CUDA too
        "TORCH_CUDA_ARCH_LIST": ";".join(names) + "+PTX",
        "FLASH_ATTENTION_FORCE_BUILD": "TRUE",  # else it fetches a wheel that is named cu12
        "FLASH_ATTN_CUDA_ARCHS": ";".join(FLASH_ATTN_ARCHITECTURES[major] for major in majors),
        "MAX_JOBS": jobs or str(most),
    }


def available_gib(
    environment: Mapping[str, str], *, processors: int, root: Path = Path("/")
) -> float:
    """Memory that new processes can have: what the machine has left, or less where a control group
    or SLURM grants this one less.

    root: above proc/ and sys/.
    """
    meminfo = (root / "proc/meminfo").read_text()
    match = re.search(r"^MemAvailable:\s*(\d+) kB", meminfo, re.MULTILINE)
    machine = int(match[1]) / 2**20 if match else 0.0
    return min([machine, *_group_limits(root), *_job_limits(environment, processors)])


def _group_limits(root: Path) -> list[float]:
    """Memory limits in GiB of this process' control group and all above it, of either version."""
    limits = []
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _, controllers, place = line.split(":", 2)
        if controllers == "":
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath(place.lstrip("/"))  # may lie above what a container sees of the mount
        for path in (mount / parent / name for parent in (group, *group.parents)):
            text = path.read_text().strip() if path.exists() else "max"
            limits += [] if text == "max" else [int(text) / 2**30]
    return limits


def _job_limits(environment: Mapping[str, str], processors: int) -> list[float]:
    """What SLURM grants a job on this node, in GiB; nothing where it names no limit."""
    node, processor = (
        _gib(environment.get(name) or "0") for name in ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU")
    )
    granted = int(environment.get("SLURM_CPUS_ON_NODE", processors))
    return [limit for limit in (node, processor * granted) if limit]  # 0 is all of the node


def _gib(text: str) -> float:
    """GiB of a memory as SLURM writes it: MiB, or with a unit, e.g. 64G; ValueError else."""
    units = {"K": 2**-20, "M": 2**-10, "G": 1.0, "T": 2.0**10}
    return float(text.rstrip("KMGT")) * units[text[-1] if text[-1] in units else "M"]


def main(argv: Sequence[str] | None = None) -> int:
    """The command's exit code; 2 for a compute capability that cannot be compiled for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--setuptools", type=Path, help="the folder of another one for this")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    try:
        capabilities = architectures(
            os.environ.get("TORCH_CUDA_ARCH_LIST"), ask(*ARCHITECTURE_QUERY)
        )
    except ValueError as error:
        parser.error(str(error))
    processors = len(os.sched_getaffinity(0))
    variables = build_environment(
        capabilities,
        cuda_home(os.environ),
        processors=processors,
        memory_gib=available_gib(os.environ, processors=processors),
        jobs=os.environ.get("MAX_JOBS"),
    )
    print(
        f"Compiling for GPUs of compute capability {variables['TORCH_CUDA_ARCH_LIST']}, "
        f"{variables['MAX_JOBS']} files at once (TORCH_CUDA_ARCH_LIST and MAX_JOBS name others)",
        flush=True,
    )
    environment = {
        name: text for name, text in os.environ.items() if name != "PYTHONPATH"
    } | variables
    if options.setuptools is not None:
        environment["PYTHONPATH"] = str(options.setuptools.resolve())
    ninja = Path(options.program[0]).absolute().parent  # beside the Python that compiles
    environment["PATH"] = os.pathsep.join([str(ninja), os.environ.get("PATH", os.defpath)])
    return subprocess.run(options.program, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
