"""Where the time of a training step of the embedded engine goes: by part, and by kind of work.

The shipped experiment `countdown` at N = 2, 8 and 32 and `maze-small` at N = 8, each after a short
warm-up. Parts are timed as they stand; kinds are the profiler's shares of a step, which counts what
runs between operations, Python above all, as `between`.
"""

import json
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from fgrpo_bench.engines.embedded import reinforce
from tests.bench.model import learning, point_of, warmed_up

CASES = (("groupsize", 2), ("groupsize", 8), ("groupsize", 32), ("maze", 8))
WARM, STEPS, PROFILED = 3, 12, 5
KINDS = {
    "products": ("mm", "addmm", "bmm", "baddbmm"),
    "copies": ("copy_", "cat", "index_select", "index_copy_", "index", "_index_put_impl_", "fill_"),
}
"""Names of torch's operations; all others are `elementwise`."""


def main() -> None:
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    bases = {
        sweep: warmed_up(point_of(sweep, 8))[0].warmup(1).checkpoint(0)
        for sweep in ("groupsize", "maze")
    }
    for sweep, group_size in CASES:
        measure(sweep, group_size, bases[sweep])


def measure(sweep: str, group_size: int, base: Path) -> None:
    learner, session = learning(point_of(sweep, group_size), base)
    seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def timed(part):
        begun = time.process_time()
        yield
        seconds[part] += time.process_time() - begun

    def step(number: int) -> None:
        with timed("sampling and grading"):
            batch, sampled = learner.rollouts(number)
        with timed("update"):
            learner.learn(batch)
        with timed("metrics"):
            reinforce.measure(sampled, learner.advantages(sampled), learner.point.focal_gamma)

    grader = reinforce.get_grader  # type: ignore[attr-defined]
    for number in range(1, WARM + 1):
        step(number)
    seconds.clear()
    for number in range(WARM + 1, WARM + STEPS + 1):
        step(number)
    parts = {name: 1e3 * took / STEPS for name, took in seconds.items()}

    def timed_grader(name):
        def grade(*arguments):
            with timed("grading"):
                return grader(name)(*arguments)

        return grade

    reinforce.get_grader = timed_grader  # type: ignore[attr-defined]
    seconds.clear()
    learner.rollouts(WARM + STEPS + 1)
    reinforce.get_grader = grader  # type: ignore[attr-defined]
    parts["of it grading"] = 1e3 * seconds["grading"]
    session.counters = replace(session.counters, step=1)
    with timed("a save of the state"):
        session.save()
    parts["a save of the state"] = 1e3 * seconds["a save of the state"]
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        begun = time.process_time()
        for number in range(100, 100 + PROFILED):
            step(number)
        whole = time.process_time() - begun
    shares: defaultdict[str, float] = defaultdict(float)
    for event in seen.key_averages():
        name = event.key.removeprefix("aten::")
        if name != event.key:
            kind = next((k for k, names in KINDS.items() if name in names), "elementwise")
            shares[kind] += event.self_cpu_time_total / 1e6 / whole
    shares["between"] = 1 - sum(shares.values())
    print(json.dumps({"case": f"{sweep}, N = {group_size}, ms", **parts}))
    print(json.dumps({"case": f"{sweep}, N = {group_size}, share", **shares}))


if __name__ == "__main__":
    main()
