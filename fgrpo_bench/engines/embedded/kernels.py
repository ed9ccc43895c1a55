"""One rounding: the kernels that the engine computes with on a processor.

In: the machine, before torch is loaded. Out: settings for torch and the libraries inside it, what
they then chose, and why digits may be others than on another machine. Sums in another order differ
in their last bits, and a draw that falls the other way makes another run.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

NAME = "avx2"
"""In the identity of what the engine makes; another name where other kernels are chosen."""
SETTINGS = {
    "ATEN_CPU_CAPABILITY": "avx2",  # torch's own kernels
    # MKL has the products and functions; with a branch, sums depend on no size of a cache either
    "MKL_CBWR": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",  # with fewer instructions MKL would pass over the branch
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}
COMMON = "common (AVX2)"
"""In the fingerprint of the engine where torch and MKL compute with these kernels."""
OTHER_KERNELS = "own"
"""How the fingerprint begins where they compute with others."""
CPUINFO = Path("/proc/cpuinfo")
_MKL_SETTINGS = {1: "off", 2: "auto", 3: "compatible", 9: "AVX", 10: "AVX2", 12: "AVX512"}
"""Branches by their number (mkl_types.h); 1 is none."""
_BRANCH = 1
"""What MKL is asked for: the branch that is set, not the best one that there is."""


def choose_kernels() -> None:
    """Set the environment of this process, whatever the shell says; before torch is loaded, which
    reads it once. Nothing where the processor has no AVX2: torch would not look and die of it."""
    if "avx2" in _processor().get("flags", "").split():
        os.environ.update(SETTINGS)


def kernel_names(device: str) -> str:
    """For the fingerprint of the engine, as torch and MKL say themselves: COMMON, or e.g. `own
    (torch AVX2, MKL auto)`, as on a processor of AMD; of a GPU its own."""
    import torch

    if device != "cpu":
        return f"{OTHER_KERNELS} (GPU)"
    torch_kernels, mkl_kernels = (
        torch.backends.cpu.get_cpu_capability(),
        _mkl_branch(Path(torch.__file__)),
    )
    is_common = torch_kernels == mkl_kernels == "AVX2"
    return COMMON if is_common else f"{OTHER_KERNELS} (torch {torch_kernels}, MKL {mkl_kernels})"


def _mkl_branch(torch: Path) -> str:
    """The branch that MKL took; torch has it inside, with names of its own."""
    try:
        library = ctypes.CDLL(str(torch.with_name("lib") / "libtorch_cpu.so"))
        branch = int(library.mkl_serv_cbwr_get(_BRANCH))
    except (OSError, AttributeError):
        return "none"
    return _MKL_SETTINGS.get(branch, str(branch))


def digits_warning() -> str | None:
    """Why what is computed on this machine may have other digits than elsewhere, as a line of a
    plan; None where it has those of every processor of Intel with AVX2. Loads no torch."""
    processor = _processor()
    maker = processor.get("vendor_id")
    if "avx2" not in processor.get("flags", "").split():
        why = "this machine's processor has no AVX2"
    elif maker != "GenuineIntel":
        possessive = {"AuthenticAMD": "AMD's", "HygonGenuine": "Hygon's"}.get(
            str(maker), str(maker)
        )
        why = (
            f"this machine's processor is {possessive}, for which torch's matrix library (MKL) has "
            "kernels of its own"
        )
    else:
        return None
    return f"digits may differ from those of other machines, within their intervals: {why}"


def _processor() -> dict[str, str]:
    """Fields of the first processor, of Linux (/proc/cpuinfo); empty elsewhere."""
    try:
        first = CPUINFO.read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}
