"""A rank of three updates by DeepSpeed on processors: `<rank> <stage> keep|offload <file>`.

Micro-batches come as OpenRLHF's dynamic batches do: of uneven sizes, one accumulation step in the
configuration. Rank 0 writes the weights after each update as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

MICRO_BATCHES = (
    ((3, 1, 5, 2), (1, 4, 2), (2, 6)),  # rank 0: samples of each micro-batch, update by update
    ((2, 2, 1, 4), (5, 1, 3), (1, 2)),
)
"""Ranks have as many micro-batches in an update, as OpenRLHF sees to."""
RATE = 0.1
SIZES = (6, 5, 1)
"""Of the layers."""


def network():
    """Two layers in float32, the same in every process."""
    import torch

    torch.manual_seed(3)
    first, second = torch.nn.Linear(SIZES[0], SIZES[1]), torch.nn.Linear(SIZES[1], SIZES[2])
    return torch.nn.Sequential(first, torch.nn.Tanh(), second)


def samples(rank: int, update: int, micro_batch: int):
    """Inputs [samples, features] of a micro-batch."""
    import torch

    generator = torch.Generator().manual_seed(100 * rank + 10 * update + micro_batch)
    size = MICRO_BATCHES[rank][update][micro_batch]
    return torch.randn(size, SIZES[0], generator=generator)


def loss(model, rank: int, update: int, micro_batch: int):
    """This micro-batch's share of the mean over all samples of the update, on all ranks."""
    total = sum(sum(sizes[update]) for sizes in MICRO_BATCHES)
    return model(samples(rank, update, micro_batch)).square().sum() / total


def main(rank: int, stage: int, offload: bool, path: Path) -> None:
    from fgrpo_bench.training.openrlhf import cpu

    cpu.set_up()
    import deepspeed
    import torch
    from openrlhf.utils.deepspeed.deepspeed_utils import get_train_ds_config

    from fgrpo_bench.training.openrlhf.policy import mark_boundary

    torch.set_num_threads(1)
    deepspeed.init_distributed("gloo")
    config = get_train_ds_config(
        False, adam_offload=offload, stage=stage, param_dtype="fp32", max_norm=0.0, zpg=1
    )
    config["zero_optimization"] = {
        name: value for name, value in config["zero_optimization"].items() if value != "auto"
    }  # OpenRLHF leaves these to transformers
    config["zero_optimization"]["offload_optimizer"]["pin_memory"] = False
    config |= {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    model = network()
    names = [name for name, _ in model.named_parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    rows = []
    for update, sizes in enumerate(MICRO_BATCHES[rank]):
        for micro_batch in range(len(sizes)):
            mark_boundary(engine, last=micro_batch == len(sizes) - 1)
            # DeepSpeed means gradients over the ranks
            engine.backward(loss(engine, rank, update, micro_batch) * len(MICRO_BATCHES))
        engine.step()
        parameters = list(engine.module.parameters())
        with deepspeed.zero.GatheredParameters(parameters, enabled=stage == 3):
            rows.append({n: p.detach().tolist() for n, p in zip(names, parameters, strict=True)})
    if rank == 0:
        path.write_text(json.dumps(rows))


if __name__ == "__main__":
    own, stage_number, offloaded, target = sys.argv[1:]
    os.environ |= {"RANK": own, "LOCAL_RANK": own, "WORLD_SIZE": str(len(MICRO_BATCHES))}
    main(int(own), int(stage_number), offloaded == "offload", Path(target))
