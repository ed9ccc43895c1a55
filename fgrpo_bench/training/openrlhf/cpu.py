"""Stand-ins that let OpenRLHF run where there is no CUDA, for tests and rehearsals.

Off unless FGRPO_OPENRLHF_DEVICE=cpu. Real Ray, DeepSpeed and vLLM run, slowly, with what OpenRLHF
takes for granted of CUDA replaced: the device, flash-attn's imports, NCCL's broadcast, and the
update of vLLM's weights in place. No computation of the algorithm is touched. `set_up` runs in
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

from fgrpo_bench.training.openrlhf.hooks import after_import

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
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
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
        os.environ.setdefault(name, value)
    programs = str(
        Path(sys.prefix) / "bin"
    )  # DeepSpeed compiles with the ninja of this environment
    paths = [programs, *os.environ.get("PATH", "").split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join(dict.fromkeys(paths))


def set_up() -> None:
    """Replace what needs CUDA in this process, as soon as it is imported."""
    if not is_on():
        return
    if importlib.util.find_spec("flash_attn") is None:
        _put_flash_attn()
    after_import("torch.cuda", _patch_torch_cuda)
    after_import("openrlhf.utils.deepspeed.deepspeed", _patch_device_mesh)
    after_import("openrlhf.utils.distributed_util", _patch_weight_group)
    after_import("openrlhf.trainer.ray.vllm_worker_wrap", _patch_weight_update)
    after_import("vllm.v1.worker.gpu_model_runner", _patch_generators)
    after_import("deepspeed.comm.torch", _patch_gathers)
    after_import("deepspeed.ops.adam.fused_adam", _patch_adam)
    after_import("torch.utils.file_baton", _patch_baton)


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
        setattr(cuda, name, lambda *_: None)


def _patch_device_mesh(module: Any) -> None:
    init = module.init_device_mesh
    module.init_device_mesh = lambda _device, *args, **kwargs: init("cpu", *args, **kwargs)


class StoreGroup:
    """Broadcasts weights through vLLM's own TCP store, in place of NCCL."""

    def __init__(self, group: Any) -> None:
        self.group = group

    def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
        """Fill `tensor` with that of rank `src`."""
        mine = self.group.rank == src
        sent = self.group.broadcast_obj(tensor.detach().cpu() if mine else None, src)
        if not mine:
            tensor.copy_(sent)


def _patch_weight_group(module: Any) -> None:
    def create(address: str, port: int, rank: int, world_size: int, device: Any) -> StoreGroup:
        from vllm.distributed.utils import StatelessProcessGroup

        return StoreGroup(
            StatelessProcessGroup.create(host=address, port=port, rank=rank, world_size=world_size)
        )

    module.stateless_init_process_group = create


def _patch_weight_update(module: Any) -> None:
    """vLLM on CPU repacks its linear layers as it loads them, so one parameter cannot be loaded by
    itself: collect them all, then load the model anew as vLLM does. Its reload leaves an output
    layer that shares the embedding's weights packed as it was: pack it anew."""

    def update_weight(
        self: Any, name: str, dtype: Any, shape: Any, empty_cache: bool = False
    ) -> None:
        import torch

        weight = torch.empty(shape, dtype=dtype, device=self.device)
        self._model_update_group.broadcast(weight, src=0)
        self.__dict__.setdefault("_received", []).append((name, weight))
        if empty_cache:  # said with the last parameter
            weights = self.__dict__.pop("_received")
            self.model_runner.reload_weights(weights_iterator=iter(weights))
            model = self.model_runner.get_model()
            head = getattr(model, "lm_head", None)
            if self.model_config.hf_config.tie_word_embeddings and head is not None:
                head.quant_method.process_weights_after_loading(head)

    module.WorkerWrap.update_weight = update_weight


def _patch_generators(module: Any) -> None:
    """vLLM rewinds the generator of a seeded request whose prompt is read in two steps; on CPU a
    generator cannot be rewound. Where this step drew from it, its state is put back instead."""
    import torch

    class Rewindable(torch.Generator):
        def get_offset(self) -> int:
            return 4

        def set_offset(self, offset: int) -> None:  # type: ignore[override]
            self.manual_seed(self.initial_seed())  # no token of the response is drawn yet

    class Torch(ModuleType):
        def __getattr__(self, name: str) -> Any:
            return Rewindable if name == "Generator" else getattr(torch, name)

    module.torch = Torch("torch")


def _patch_gathers(module: Any) -> None:
    """DeepSpeed gathers parameters of ZeRO 3 together and waits for the last. On NCCL's stream the
    others have arrived by then; gloo's threads keep no order, and now and then one was used before
    it was whole. Wait for each."""
    gather = module.TorchBackend.all_gather_into_tensor

    def gather_and_wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        work = gather(self, *args, **kwargs)
        if work is not None:
            work.wait()
        return work

    module.TorchBackend.all_gather_into_tensor = gather_and_wait


def _patch_adam(module: Any) -> None:
    """DeepSpeed's Adam for processors multiplies the betas up step by step, but takes their power
    in a process that resumes, which may differ in the last bit. Where the betas have changed it
    takes the power too: make it believe so before each step."""
    import torch

    init = module.FusedAdam.__init__

    def init_exact(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        step, flag = self.multi_tensor_adam, self._dummy_overflow_buf
        mode = self.adam_w_mode

        def step_with_powers(*values: Any) -> None:
            nothing = [[torch.zeros(1)] for _ in range(4)]
            step(0, flag, nothing, 0.0, 0.0, 0.0, 1.0, 0, mode, 0, 0.0)
            step(*values)

        self.multi_tensor_adam = step_with_powers

    module.FusedAdam.__init__ = init_exact


def _patch_baton(module: Any) -> None:
    """torch locks an extension by a file while it compiles it, and waits without a word, for ever
    where a killed run has left the lock."""

    def wait(self: Any) -> None:
        lock, said = Path(self.lock_file_path), False
        with suppress(FileNotFoundError):
            while time.time() - lock.stat().st_mtime < STALE_SECONDS:
                if not said:
                    print(f"waiting for a compilation; if none runs, delete {lock}", flush=True)
                said = True
                time.sleep(self.wait_seconds)
            lock.unlink()
            print(f"removed {lock}, which a killed run had left", flush=True)

    module.FileBaton.wait = wait


def _put_flash_attn() -> None:
    """OpenRLHF imports flash-attn for packing and ring attention, neither of which runs on CPU."""

    def missing(*_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "flash-attn does not run on CPU: leave out --ds.packing_samples, "
            "--train.dynamic_batch_enable and ring attention"
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
            setattr(module, function, missing)
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def compile_ops() -> None:
    """Compile what DeepSpeed would compile in the first run; `make setup-openrlhf-cpu` does."""
    set_environment()
    from deepspeed.accelerator import get_accelerator

    for name in ("FusedAdamBuilder", "ShareMemCommBuilder"):
        get_accelerator().create_op_builder(name).load(verbose=False)


if __name__ == "__main__":
    compile_ops()
