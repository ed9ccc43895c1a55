"""Engines that answer at once: with who they are, or by a plan; for processes that import them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random

from evaluators.engines import start_engines
from evaluators.records import Draw, RequestQueue, SampleRequest, SamplingEngine, make_draw
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
            yield [make_draw(each, said, n_tokens=1, end_token=1)]

    return SamplingEngine(draw, {"engine": "fake", "pid": os.getpid()})


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
        partial(make, what),
        engines=engines,
        gpus_per_engine=gpus_each,
        at_once=at_once,
        check=check,
    )


class Answering:
    """A back end at the process boundary that answers by a function, and keeps what it made."""

    def __init__(
        self,
        answer: Callable[[SampleRequest], str],
        *,
        most: int | None = None,
        part: int | None = None,
        order: int = 0,
        ends: Callable[[SampleRequest], bool] = lambda _: True,
        fails_after: int | None = None,
    ) -> None:
        """most: draws at once; None: all. part: how many of them end together, in an order that
        follows from `order`; None: about half. ends: whether a response has an end token."""
        self.answer, self.most, self.part, self.ends = answer, most, part, ends
        self.fails_after = fails_after
        self.order = Random(order)
        self.made: list[tuple[str, int]] = []

    def __call__(self, wanted: Iterable[SampleRequest | None]) -> Iterator[list[Draw]]:
        waiting, flying = RequestQueue(wanted), list[SampleRequest]()
        while True:
            flying += waiting.take(None if self.most is None else self.most - len(flying))
            if not flying:
                assert waiting.ended
                return
            if self.fails_after is not None and len(self.made) >= self.fails_after:
                raise RuntimeError("the node is gone")
            n = min(self.part or 1 + len(flying) // 2, len(flying))
            ended = [flying.pop(self.order.randrange(len(flying))) for _ in range(n)]
            self.made += [(request.problem.problem_id, request.draw) for request in ended]
            yield [
                make_draw(r, self.answer(r), n_tokens=3, end_token=1 if self.ends(r) else None)
                for r in ended
            ]


def planned(plan: Mapping[str, Sequence[int]]) -> SamplingEngine:
    """One that answers by a plan of right and wrong draws of each problem, out of order."""

    def answer(request: SampleRequest) -> str:
        is_right = plan[request.problem.problem_id][request.draw]
        return "6*4" if is_right else f"1+{request.seed % 7}"

    backend = Answering(answer, most=5, part=1, order=os.getpid())
    return SamplingEngine(backend, {"engine": "fake"})


if __name__ == "__main__":
    engines = started("answer")
    print("started", flush=True)
    time.sleep(float(sys.argv[1]))
