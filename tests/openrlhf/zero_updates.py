"""Updates and saves by DeepSpeed on processors; ranks are forked from a process that imported it.

Micro-batches come as OpenRLHF's dynamic batches do: of uneven sizes, one accumulation step in the
configuration.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import traceback
from multiprocessing.connection import wait
from pathlib import Path

from fgrpo_bench.engines.openrlhf import rehearsal

rehearsal.set_up()
import deepspeed  # noqa: E402
import torch  # noqa: E402
from openrlhf.utils.deepspeed.deepspeed import DeepspeedStrategy  # noqa: E402
from openrlhf.utils.deepspeed.deepspeed_utils import get_train_ds_config  # noqa: E402

from fgrpo_bench.engines.openrlhf.policy import mark_boundary  # noqa: E402
from fgrpo_bench.engines.openrlhf.states import Origin, mark_whole, remove_partial  # noqa: E402
from tests.support.servers import free_port  # noqa: E402

MICRO_BATCHES = (
    ((3, 1, 5, 2), (1, 4, 2), (2, 6)),  # rank 0: samples of each micro-batch, update by update
    ((2, 2, 1, 4), (5, 1, 3), (1, 2)),
)
"""Ranks have as many micro-batches in an update, as OpenRLHF sees to."""
RANKS, UPDATES = len(MICRO_BATCHES), len(MICRO_BATCHES[0])
ORIGIN = Origin(ranks=RANKS, base_sha256="b")
RATE = 0.1
SIZES = (6, 5, 1)
"""Of the layers."""


def run_ranks(target, log, *arguments):
    """Exit codes of target(rank, *arguments), a process a rank; where one fails, the others are
    killed, as Ray would. What they say goes into the file `log`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    port = free_port()
    ranks = [
        context.Process(target=_rank, args=(rank, port, log, target, arguments))
        for rank in range(RANKS)
    ]
    for rank in ranks:
        rank.start()
    running = {rank.sentinel: rank for rank in ranks}
    while running:
        for sentinel in wait(running):
            ended = running.pop(sentinel)
            ended.join()
            for other in running.values() if ended.exitcode else ():
                other.kill()
    return [rank.exitcode for rank in ranks]


def _rank(rank, port, log, target, arguments):
    with Path(log).open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
    }
    torch.set_num_threads(1)
    try:
        deepspeed.init_distributed("gloo")
        target(rank, *arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # gloo's threads may be slow to end


def network():
    """Two layers in float32, the same in every process."""
    torch.manual_seed(3)
    first, second = torch.nn.Linear(SIZES[0], SIZES[1]), torch.nn.Linear(SIZES[1], SIZES[2])
    return torch.nn.Sequential(first, torch.nn.Tanh(), second)


def samples(rank, update, micro_batch):
    """Inputs [samples, features] of a micro-batch."""
    generator = torch.Generator().manual_seed(100 * rank + 10 * update + micro_batch)
    return torch.randn(MICRO_BATCHES[rank][update][micro_batch], SIZES[0], generator=generator)


def loss(model, rank, update, micro_batch):
    """This micro-batch's share of the mean over all samples of the update, on all ranks."""
    total = sum(sum(sizes[update]) for sizes in MICRO_BATCHES)
    return model(samples(rank, update, micro_batch)).square().sum() / total


def engine_of(model, *, stage, offload=False, momentum=0.0):
    """DeepSpeed's engine with OpenRLHF's configuration and SGD."""
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
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=momentum)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def take(engine, rank, update):
    """One update of a rank."""
    n_micro_batches = len(MICRO_BATCHES[rank][update])
    for micro_batch in range(n_micro_batches):
        mark_boundary(engine, last=micro_batch == n_micro_batches - 1)
        # DeepSpeed means gradients over the ranks
        engine.backward(loss(engine, rank, update, micro_batch) * RANKS)
    engine.step()


def weights(engine, *, stage):
    """Every parameter by its name, as lists."""
    parameters = dict(engine.module.named_parameters())
    with deepspeed.zero.GatheredParameters(list(parameters.values()), enabled=stage == 3):
        return {name: parameter.detach().tolist() for name, parameter in parameters.items()}


def updates(rank, stage, offload, path):
    """All updates; rank 0 writes the weights after each as JSON."""
    engine, rows = engine_of(network(), stage=stage, offload=offload), []
    for update in range(UPDATES):
        take(engine, rank, update)
        rows.append(weights(engine, stage=stage))
    if rank == 0:
        path.write_text(json.dumps(rows))


def saved_updates(rank, stage, states, kill, path):
    """All updates from the newest whole state on, a state after each; rank 0 writes the last
    weights as JSON.

    kill: (rank, step, file): that rank is killed in the save after that step, when half of its
    file of that number is written, or before the state is marked whole where file is None.
    """
    if rank == 0:
        remove_partial(states, ORIGIN, say=print)
    torch.distributed.barrier()
    strategy, folder = object.__new__(DeepspeedStrategy), str(states / "_actor")
    engine, step = engine_of(network(), stage=stage, momentum=0.9), 0
    if Path(folder).exists():
        step = strategy.load_ckpt(engine, folder)[1]["global_step"]
    if rank == 0:
        print(f"begins after step {step}", flush=True)
    for done in range(step + 1, UPDATES + 1):
        take(engine, rank, done - 1)
        dies = kill is not None and kill[:2] == (rank, done)
        if dies and kill[2] is not None:
            _die_in_file(kill[2])
        tag = f"global_step{done}"
        strategy.save_ckpt(engine, folder, tag, 2, float("inf"), {"global_step": done})
        torch.distributed.barrier()  # as OpenRLHF's actor
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if rank == 0:
            mark_whole(states, done, ORIGIN)
    last = weights(engine, stage=stage)
    if rank == 0:
        path.write_text(json.dumps(last))


def _die_in_file(number):
    save, files = torch.save, []

    def cut(content, path, *args, **kwargs):
        save(content, path, *args, **kwargs)
        files.append(path)
        if len(files) > number:
            os.truncate(path, Path(path).stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    torch.save = cut
