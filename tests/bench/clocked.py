"""Clocks around the hooks of the OpenRLHF engine and around what of OpenRLHF they call.

Imported in every process of a measured run: the subclasses below live here, so a Ray process that
makes one of them imports this module. A hook's own time is its clock less the one of OpenRLHF's
method under it, `<hook>/stock`.
"""

from __future__ import annotations

import functools
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import ray
from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from openrlhf.trainer.ray.ppo_actor import ActorPPOTrainer

from fgrpo_bench.engines.openrlhf import metrics, trainer
from fgrpo_bench.engines.openrlhf.experience import FocalExperienceMaker, OrderedSamples
from fgrpo_bench.engines.openrlhf.policy import PolicyActor, UpdateTrainer
from fgrpo_bench.engines.openrlhf.trainer import FocalTrainer

FLUSH_SECONDS = 0.2
_noted: list[tuple[str, float, float]] = []


def note(clock: str, seconds: float) -> None:
    """Keep a reading; it is written a moment later, outside of what is timed."""
    _noted.append((clock, time.time(), seconds))


def _write_for_ever(path: Path) -> None:
    while True:
        time.sleep(FLUSH_SECONDS)
        count = len(_noted)
        if not count:
            continue
        with path.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in _noted[:count])
        del _noted[:count]


def timed(owner: Any, attribute: str, clock: str) -> None:
    """Put a clock around a function of a module or around a method, where it is defined."""
    if isinstance(owner, type):
        owner = next(base for base in owner.__mro__ if attribute in vars(base))
    function = vars(owner)[attribute]

    @functools.wraps(function)
    def clocked(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            note(clock, time.perf_counter() - begun)

    setattr(owner, attribute, clocked)


def hook(ours: type, theirs: type, attribute: str, clock: str) -> None:
    """Clocks around a method of ours and around the one of OpenRLHF that it calls."""
    timed(ours, attribute, clock)
    timed(theirs, attribute, f"{clock}/stock")


hook(FocalExperienceMaker, RemoteExperienceMaker, "compute_advantages_and_returns", "advantages")
for _method in (
    "generate_samples",
    "_generate_vllm",
    "_dispatch_prompts_to_vllm",
    "_process_response_into_experience",
):
    hook(OrderedSamples, SamplesGenerator, _method, "samples")
timed(metrics, "step_row", "row")
timed(trainer, "append_line", "row")
hook(FocalTrainer, FocalTrainer.__mro__[1], "ppo_train", "seeding of updates")
hook(UpdateTrainer, ActorPPOTrainer, "training_step", "updates")
hook(UpdateTrainer, ActorPPOTrainer, "ppo_train", "updates")


class SentTokenizer:
    """A tokenizer on its way to the engines, with clocks around its pickling and unpickling."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        begun = time.perf_counter()
        pickled = ray.cloudpickle.dumps(self.tokenizer)
        note("sending the tokenizer", time.perf_counter() - begun)
        return unpickled, (pickled,)


def unpickled(pickled: bytes) -> Any:
    begun = time.perf_counter()
    try:
        return ray.cloudpickle.loads(pickled)
    finally:
        note("sending the tokenizer", time.perf_counter() - begun)


class ClockedTrainer(FocalTrainer):
    """Brings the clocks into the controller's process, and the shortest response that is asked
    for, which OpenRLHF's command line cannot say."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sampler = self.samples_generator
        is_stock = os.environ["FGRPO_BENCH_STOCK_TOKENIZER"] == "1"
        sampler.tokenizer = SentTokenizer(self.tokenizer if is_stock else sampler.tokenizer)
        self.generate_kwargs["min_new_tokens"] = int(os.environ["FGRPO_BENCH_SHORTEST"])


class ClockedPolicy(PolicyActor):
    """Brings the clocks into the policy's process."""


ClockedTrainerActor = ray.remote(ClockedTrainer)
ClockedPolicyActor = ray.remote(num_gpus=1)(ClockedPolicy)

threading.Thread(
    target=_write_for_ever,
    args=(Path(os.environ["FGRPO_BENCH_CLOCKS"]) / f"{os.getpid()}.jsonl",),
    daemon=True,
).start()
