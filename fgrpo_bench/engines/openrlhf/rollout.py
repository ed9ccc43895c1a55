"""OpenRLHF's vLLM actor, one an engine, with what OpenRLHF has no option for.

An async engine that is told nothing draws 128 sequences at once in passes of 2,048 tokens, whatever
the GPU (vLLM 0.29, `EngineArgs.get_batch_defaults` has no entry for its usage context).
"""

from __future__ import annotations

import os
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import ray
from openrlhf.trainer.ray import vllm_engine
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap

from fgrpo_bench.engines.openrlhf.guards import DriverOptions, actor_class
from fgrpo_bench.graders.worker import JUDGES

STOCK = actor_class(vllm_engine.RolloutRayActor)
ENGINE_PROCESSORS = 2
"""Processors that an engine keeps busy by itself: its scheduler, and the actor's event loop."""


def rollout_actor(options: DriverOptions, *, engines: int, nodes: int) -> Any:
    """What takes the place of OpenRLHF's RolloutRayActor; engines: of the whole run."""
    worker = f"{QuietWorker.__module__}.{QuietWorker.__name__}"
    settings = engine_sizes(options) | {"worker_extension_cls": worker}

    class RolloutActor(STOCK):  # type: ignore[misc, valid-type]
        async def __init__(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[misc]
            processors = len(os.sched_getaffinity(0))  # of the job on this node
            judges = judge_count(processors, engines=-(-engines // nodes))
            # before the engine starts its own process, which reads it
            os.environ[JUDGES] = str(judges)
            try:
                await super().__init__(*args, **kwargs | settings)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                if not options.batch_invariant:
                    raise
                raise ValueError(
                    f"vLLM does not start with batch_invariant=true: {error}; set "
                    "experiment.train.batch_invariant=false, or take GPUs and a version of vLLM "
                    "that have it"
                ) from error
            limits = self.llm.vllm_config.scheduler_config
            print(
                f"vLLM draws up to {limits.max_num_seqs} sequences at once in passes of up to "
                f"{limits.max_num_batched_tokens} tokens; processes that judge beside it: {judges}",
                flush=True,
            )

    return ray.remote(RolloutActor)


class QuietWorker(WorkerWrap):  # type: ignore[misc]
    """OpenRLHF's part of vLLM's workers without a printed line a weight and step."""

    def update_weight(self, *args: Any, **kwargs: Any) -> None:
        """OpenRLHF's, of a weight that is broadcast."""
        with redirect_stdout(StringIO()):
            super().update_weight(*args, **kwargs)

    def update_weight_cuda_ipc(self, *args: Any, **kwargs: Any) -> None:
        """OpenRLHF's, of a weight on the same GPU."""
        with redirect_stdout(StringIO()):
            super().update_weight_cuda_ipc(*args, **kwargs)


def engine_sizes(options: DriverOptions) -> dict[str, int]:
    """Arguments of vllm.AsyncEngineArgs beside OpenRLHF's."""
    return {
        "max_num_seqs": options.vllm_max_num_seqs,
        "max_num_batched_tokens": options.vllm_max_num_batched_tokens,
    }


def judge_count(processors: int, *, engines: int) -> int:
    """Processes that judge the responses of one engine of so many on a node: its share of the
    processors, less those that it needs itself; at least one."""
    return max(1, processors // engines - ENGINE_PROCESSORS)
