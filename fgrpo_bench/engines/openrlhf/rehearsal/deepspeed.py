"""Stand-ins in DeepSpeed for what it takes for granted of CUDA; when, says the package."""

from __future__ import annotations

from typing import Any

from fgrpo_bench.engines.openrlhf.rehearsal.hooks import after_import


def set_up() -> None:
    """Put them in place in this process, as soon as their modules are imported."""
    after_import("openrlhf.utils.deepspeed.deepspeed", _patch_device_mesh)
    after_import("deepspeed.comm.torch", _patch_gathers)
    after_import("deepspeed.ops.adam.fused_adam", _patch_adam)
    after_import("deepspeed.ops.op_builder.cpu.builder", _patch_builder)


def _patch_device_mesh(module: Any) -> None:
    init = module.init_device_mesh
    module.init_device_mesh = lambda _device, *args, **kwargs: init("cpu", *args, **kwargs)


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


def _patch_builder(module: Any) -> None:
    """Compile without debugging symbols, which take a third of the time."""
    arguments = module.CPUOpBuilder.cxx_args
    module.CPUOpBuilder.cxx_args = lambda self: [word for word in arguments(self) if word != "-g"]
