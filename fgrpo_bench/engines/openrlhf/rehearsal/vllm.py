"""Stand-ins for what vLLM needs of CUDA; the package says when they are on.

NCCL's broadcast of new weights, their update in place, and generators that can be rewound.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from fgrpo_bench.engines.openrlhf.rehearsal.hooks import after_import


def set_up() -> None:
    """Put them in place in this process, as soon as their modules are imported."""
    after_import("openrlhf.utils.distributed_util", _patch_weight_group)
    after_import("openrlhf.trainer.ray.vllm_worker_wrap", _patch_weight_update)
    after_import("vllm.v1.worker.gpu_model_runner", _patch_generators)


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
