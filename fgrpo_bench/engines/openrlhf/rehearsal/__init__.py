"""Stand-ins that let OpenRLHF run where there is no CUDA: `make rehearse`, and most of the tests.

Off unless FGRPO_OPENRLHF_DEVICE=cpu. Real Ray, DeepSpeed and vLLM run, slowly, with what OpenRLHF
takes for granted of CUDA replaced: here the device and flash-attn's imports, in `deepspeed`
and `vllm` what concerns those. No computation of the algorithm is touched. `set_up` runs in
every process (startup/sitecustomize.py) and only waits for the modules to be imported, so that
idle workers stay light.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from fgrpo_bench.engines.openrlhf.rehearsal import deepspeed, vllm
from fgrpo_bench.engines.openrlhf.rehearsal.hooks import after_import
from fgrpo_bench.engines.processes import VLLM_ON_CPU

SWITCH = "FGRPO_OPENRLHF_DEVICE"
STARTUP = Path(__file__).parent / "startup"
FAKE_GPUS = 8
"""GPUs that Ray is told of; OpenRLHF asks for one a model."""
STALE_SECONDS = 900.0
"""Age of a compiler's lock after which whoever took it is dead: DeepSpeed's operators take minutes
on a busy machine."""

ENVIRONMENT = {
    "DS_ACCELERATOR": "cpu",
    "OMP_NUM_THREADS": "1",  # more threads than free processors stall each other in spin locks
    **VLLM_ON_CPU,
    "TORCH_EXTENSIONS_DIR": str(Path(sys.prefix) / "torch_extensions"),
    "RAY_prestart_worker_first_driver": "0",  # each idle worker costs seconds of imports
    "RAY_enable_worker_prestart": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Defaults of a CPU run; what is set already stays."""


def is_on() -> bool:
    """Whether the stand-ins are asked for."""
    return os.environ.get(SWITCH) == "cpu"


def set_environment() -> None:
    """Set what must stand before Ray starts, in this process and for those that it starts."""
    for name, value in ENVIRONMENT.items():
        # setdefault: a user may have named another value
        os.environ.setdefault(name, value)
    programs = str(
        Path(sys.prefix) / "bin"
    )  # DeepSpeed compiles with the ninja of this environment
    paths = [programs, *os.environ.get("PATH", "").split(os.pathsep)]
    # in front, so that no other ninja of the machine is taken
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(paths))


def set_up() -> None:
    """Replace what needs CUDA in this process, as soon as it is imported."""
    if not is_on():
        return
    if importlib.util.find_spec("flash_attn") is None:
        _put_flash_attn()
    after_import("torch.cuda", _patch_torch_cuda)
    after_import("torch.utils.file_baton", _patch_baton)
    after_import("openrlhf.utils", _patch_strategy)
    deepspeed.set_up()
    vllm.set_up()


class CpuDevice(str):
    """What torch.cuda.current_device() returns: a device by itself, an index in f"cuda:{...}"."""

    def __new__(cls) -> CpuDevice:
        return super().__new__(cls, "cpu")

    def __format__(self, spec: str) -> str:
        return "0"


def _patch_torch_cuda(cuda: Any) -> None:
    if cuda.is_available():
        raise RuntimeError(
            f"{SWITCH}=cpu, but this machine has CUDA: unset it to train on the GPU, or hide the "
            "GPU with CUDA_VISIBLE_DEVICES="
        )
    cuda.current_device = CpuDevice
    for name in ("set_device", "synchronize", "empty_cache", "current_stream"):
        setattr(cuda, name, lambda *_: None)  # OpenRLHF calls these without asking for CUDA


def _patch_baton(module: Any) -> None:
    """torch locks an extension by a file while it compiles it, and waits without a word, for ever
    where a killed run has left the lock."""

    def wait(self: Any) -> None:
        lock, is_announced = Path(self.lock_file_path), False
        with suppress(FileNotFoundError):
            while time.time() - lock.stat().st_mtime < STALE_SECONDS:
                if not is_announced:
                    print(f"waiting for a compilation; if none runs, delete {lock}", flush=True)
                is_announced = True
                time.sleep(self.wait_seconds)
            lock.unlink()
            print(f"removed {lock}, which a killed run had left", flush=True)

    module.FileBaton.wait = wait


def _patch_strategy(module: Any) -> None:
    """OpenRLHF's command line packs dynamic batches, with flash attention, whatever it is told;
    padded ones are as good for a rehearsal."""
    get_strategy = module.get_strategy

    def unpacked(args: Any) -> Any:
        if args.train.dynamic_batch_enable:
            args.ds.packing_samples, args.ds.attn_implementation = False, "sdpa"
        return get_strategy(args)

    module.get_strategy = unpacked


def _put_flash_attn() -> None:
    """OpenRLHF imports flash-attn for packing and ring attention, neither of which runs on CPU."""

    def missing(*_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "flash-attn does not run on CPU: leave out --ds.packing_samples and ring attention"
        )

    names = {
        "flash_attn": (),
        "flash_attn.bert_padding": ("index_first_axis", "pad_input", "rearrange", "unpad_input"),
        "flash_attn.utils": (),
        "flash_attn.utils.distributed": ("all_gather",),
    }
    for name, functions in names.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        for function in functions:
            setattr(module, function, missing)  # imported by name; a call is refused
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)  # as the import of a real one does
