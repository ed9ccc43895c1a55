"""What an installation of OpenRLHF asks of a machine, said before anything is downloaded.

The Makefile runs this file by its path with whatever Python there is, so it imports the standard
library alone.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

DRIVERS = {12: 525, 13: 580}
"""Oldest driver branch that runs a major version of CUDA (NVIDIA, "CUDA Compatibility", minor
version compatibility, table 1)."""
LEAST_GXX = 10
"""The first g++ that knows -std=c++20, with which DeepSpeed and torch compile their operators."""
HEADERS = ("cuda_runtime.h", "cublas_v2.h", "cusolverDn.h", "cusparse.h", "curand.h")
"""Of the CUDA toolkit: the first four are included by torch's headers, the last stands for the
library that DeepSpeed's optimizer on processors is linked with."""
USUAL_HOME = Path("/usr/local/cuda")
"""Where torch looks for the toolkit last."""
ASK_SECONDS = 30.0
"""How long a program may take to tell its version."""
DRIVER_QUERY = ("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
ARCHITECTURE_QUERY = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
COMMON_ARCHITECTURES = "8.0;9.0"
"""Compute capabilities (A100; H100 and H200) that are compiled for where no GPU is at hand."""
FLASH_ATTN_ARCHITECTURES = {8: "80", 9: "90", 10: "100", 12: "120"}
"""What flash-attn 2.8.3 compiles for, by the major compute capability that runs it."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What programs say of a machine; None where there is no such program or it fails."""

    gxx: str | None
    """g++ -dumpfullversion -dumpversion."""
    nvcc: str | None
    """nvcc --version, of `cuda_home`."""
    driver: str | None
    """DRIVER_QUERY: a line a GPU."""
    cuda_home: Path | None
    """The CUDA toolkit that torch compiles with; None where there is none or none is needed."""
    missing_headers: tuple[str, ...] = ()
    """HEADERS that are not in that toolkit."""
    python_headers: bool = True
    """Whether this Python has its own."""


def _look(cuda: int | None) -> Machine:
    """This machine; of CUDA only what matters where a version is needed."""
    home = cuda_home(os.environ) if cuda is not None else None
    missing_headers = [name for name in HEADERS if home and not (home / "include" / name).exists()]
    return Machine(
        gxx=ask("g++", "-dumpfullversion", "-dumpversion"),
        nvcc=ask(str(home / "bin" / "nvcc"), "--version") if home else None,
        driver=ask(*DRIVER_QUERY) if cuda is not None else None,
        cuda_home=home,
        missing_headers=tuple(missing_headers),
        python_headers=(Path(sysconfig.get_path("include")) / "Python.h").exists(),
    )


def ask(*command: str) -> str | None:
    """What a program prints; None where there is no such program, it fails or does not end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def cuda_home(environment: Mapping[str, str]) -> Path | None:
    """The CUDA toolkit's folder, by the rule of torch.utils.cpp_extension."""
    named = environment.get("CUDA_HOME") or environment.get("CUDA_PATH")
    if named:
        return Path(named)
    nvcc = shutil.which("nvcc", path=environment.get("PATH"))
    if nvcc:
        return Path(nvcc).parents[1]
    return USUAL_HOME if USUAL_HOME.exists() else None


def cuda_major(pins: str) -> int | None:
    """Major version of CUDA that pinned packages run on; None where none is pinned."""
    pinned = re.search(r"^nvidia-cuda-runtime==(\d+)", pins, re.MULTILINE)
    return int(pinned[1]) if pinned else None


def obstacles(machine: Machine, cuda: int | None) -> list[str]:
    """What stands in the way of an installation, each with its remedy.

    cuda: the major version that is needed; None needs none.
    """
    reasons = _compiler_obstacles(machine)
    if cuda is not None:
        reasons += _toolkit_obstacles(machine, cuda)
        try:
            check_driver(machine.driver, cuda)
        except ValueError as error:
            reasons.append(str(error))
    return reasons


def _compiler_obstacles(machine: Machine) -> list[str]:
    reasons = []
    major = re.match(r"\d+", machine.gxx or "")
    if major is None:
        reasons.append(
            "g++ is missing: DeepSpeed compiles its optimizer; install the compiler, e.g. apt-get "
            "install g++"
        )
    elif int(major[0]) < LEAST_GXX:
        reasons.append(
            f"g++ is version {machine.gxx}, and {LEAST_GXX} or newer is needed, for C++20: load a "
            "newer one, e.g. module load gcc"
        )
    if not machine.python_headers:
        reasons.append(
            f"Python.h of {sys.executable} is missing, with which DeepSpeed's optimizer is "
            "compiled: install it, e.g. apt-get install python3-dev, or name another Python with "
            "PYTHON=<path>"
        )
    return reasons


def _toolkit_obstacles(machine: Machine, cuda: int) -> list[str]:
    remedy = (
        f"load CUDA {cuda}, e.g. module load cuda/{cuda}.0, or name its folder with "
        "CUDA_HOME=<folder>; make setup-openrlhf-cpu needs none and installs what runs without GPUs"
    )
    if machine.nvcc is None:
        where = f"in {machine.cuda_home}/bin" if machine.cuda_home else "on the PATH"
        return [
            f"nvcc is missing: there is none that runs {where}, and flash-attn and DeepSpeed's "
            f"optimizer are compiled; {remedy}"
        ]
    release = re.search(r"release (\d+)\.\d+", machine.nvcc)
    if release is None or int(release[1]) != cuda:
        version = release[0] if release else repr(machine.nvcc[:80])
        return [
            f"nvcc in {machine.cuda_home} is {version}, and torch is built for CUDA {cuda}; "
            f"{remedy}"
        ]
    if machine.missing_headers:
        return [
            f"{machine.cuda_home}/include has no {', '.join(machine.missing_headers)}, and the "
            f"whole CUDA toolkit is needed; {remedy}"
        ]
    return []


def architectures(named: str | None, gpus: str | None) -> list[tuple[int, int]]:
    """Compute capabilities to compile for, ascending: those named, else those of the GPUs here,
    else COMMON_ARCHITECTURES.

    named: TORCH_CUDA_ARCH_LIST. gpus: ARCHITECTURE_QUERY's answer. Raises ValueError for what is no
    capability and for one that flash-attn has no code for.
    """
    capabilities = set()
    for text in re.split(r"[;,\s]+", (named or gpus or COMMON_ARCHITECTURES).strip()):
        parts = re.fullmatch(r"(\d+)\.(\d)(\+PTX)?", text)
        if parts is None or int(parts[1]) not in FLASH_ATTN_ARCHITECTURES:
            majors = ", ".join(f"{major}.x" for major in FLASH_ATTN_ARCHITECTURES)
            raise ValueError(
                f"compute capability {text!r}: flash-attn is compiled for {majors}; name those of "
                "the GPUs that will run it, e.g. TORCH_CUDA_ARCH_LIST='8.0;9.0'"
            )
        capabilities.add((int(parts[1]), int(parts[2])))
    return sorted(capabilities)


def check_driver(drivers: str | None, cuda: int | None) -> None:
    """Raises ValueError where a driver is too old for a major version of CUDA.

    drivers: DRIVER_QUERY's answer; None or empty where there is no GPU to judge. cuda: None, or one
    that DRIVERS does not know, takes any.
    """
    least = DRIVERS.get(cuda or 0, 0)
    for driver in (drivers or "").split():
        if driver.split(".")[0].isdigit() and int(driver.split(".")[0]) < least:
            raise ValueError(
                f"the NVIDIA driver here is {driver}, and CUDA {cuda} needs {least} or newer: "
                f"update the driver, or use machines that have {least} or newer"
            )


def check_machine_driver() -> None:
    """Raises ValueError where this machine's driver is too old for the CUDA of this environment;
    passes where either does not say."""
    try:
        cuda = int(version("nvidia-cuda-runtime").split(".")[0])
    except PackageNotFoundError:
        return
    check_driver(ask(*DRIVER_QUERY), cuda)


def main() -> int:
    """Exit code 1 where something is missing, with all of it on stderr."""
    parser = argparse.ArgumentParser(description="Say what is missing to install pinned packages.")
    parser.add_argument("pins", type=Path, help="e.g. requirements/openrlhf.txt")
    cuda = cuda_major(parser.parse_args().pins.read_text(encoding="utf-8"))
    machine = _look(cuda)
    reasons = obstacles(machine, cuda)
    if cuda is not None:
        try:
            architectures(os.environ.get("TORCH_CUDA_ARCH_LIST"), ask(*ARCHITECTURE_QUERY))
        except ValueError as error:
            reasons.append(str(error))
    for reason in reasons:
        print(f"error: {reason}", file=sys.stderr)
    if cuda is not None and not machine.driver and not reasons:
        least = DRIVERS[cuda]
        print(f"note: no GPU here; those that run jobs need an NVIDIA driver {least} or newer")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
