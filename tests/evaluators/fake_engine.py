"""Engines that answer at once: with who they are, or by a plan; for processes that import them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random

from evaluators.engines import start_engines
from evaluators.records import Canaries, Draw, RequestQueue, SampleRequest, SamplingEngine, drawn
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.whole import noop


def make(what: str) -> SamplingEngine:
    """what: answer, refuse (does not start), raise or slow (an answer every 50 ms)."""
    if what == "refuse":
        raise ValueError("no such checkpoint")

    def draw(wanted: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        waiting = RequestQueue(wanted)
        while each := next(iter(waiting.take(1)), None):
            if what == "raise":
                raise MemoryError("out of memory")
            if what == "slow":
                time.sleep(0.05)
            said = f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES')}"
            yield [drawn(each, said, n_tokens=1, end_token=1)]

    return SamplingEngine(draw, {"engine": "fake", "pid": os.getpid()}, canaries)


def started(
    what: str,
    *,
    engines: int = 2,
    gpus_each: int = 0,
    at_once: int = 8,
    check: Callable[[Problem], object] = noop,
) -> SamplingEngine:
    """Such engines as an evaluation starts them."""
    return start_engines(
        partial(make, what), engines=engines, gpus_each=gpus_each, at_once=at_once, check=check
    )


def planned(plan: Mapping[str, Sequence[int]]) -> SamplingEngine:
    """One that answers by a plan of right and wrong draws of each problem, out of order."""

    def draw(wanted: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        waiting, flying, order = RequestQueue(wanted), list[SampleRequest](), Random(os.getpid())
        while True:
            flying += waiting.take(5 - len(flying))
            if not flying:
                return
            each = flying.pop(order.randrange(len(flying)))
            said = "6*4" if plan[each.problem.problem_id][each.draw] else f"1+{each.seed % 7}"
            yield [drawn(each, said, n_tokens=3, end_token=1)]

    return SamplingEngine(draw, {"engine": "fake"}, canaries)


def canaries(problems: Sequence[Problem]) -> list[Canaries]:
    """Their names."""
    names = tuple(each.problem_id for each in problems)
    return [Canaries(alone=names, batch=names, tokens=(7,), log_probs=(-0.5,))]


if __name__ == "__main__":
    engines = started("answer")
    print("started", flush=True)
    time.sleep(float(sys.argv[1]))
