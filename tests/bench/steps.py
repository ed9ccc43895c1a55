"""Where the time of a training step of the embedded engine goes: by part, and by kind of work.

The shipped experiment `countdown` at N = 2, 8 and 32 and `maze-small` at N = 8, each after a short
warm-up. Parts are timed as they stand; kinds are the profiler's shares of a step, which counts what
runs between operations, Python above all, as `between`.
"""

import json
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from fgrpo_bench.engines.embedded import checkpoint, reinforce, session, warmup
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.kinds import warmup as warmup_stage
from fgrpo_bench.specs import config
from fgrpo_bench.stages.stage import StageRun
from sweeps.plan import make_plan

CASES = (("groupsize", 2), ("groupsize", 8), ("groupsize", 32), ("maze", 8))
WARMUP_STEPS, WARM, STEPS, PROFILED = 120, 3, 12, 5
KINDS = {
    "products": ("mm", "addmm", "bmm", "baddbmm"),
    "copies": ("copy_", "cat", "index_select", "index_copy_", "index", "_index_put_impl_", "fill_"),
}
"""Names of torch's operations; all others are `elementwise`."""


def main() -> None:
    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False
    bases = {sweep: warmed_up(sweep) for sweep, _ in CASES}
    for sweep, group_size in CASES:
        measure(sweep, group_size, bases[sweep])


def point_of(sweep: str, group_size: int):
    overrides = [f"sweep.grid.group_size=[{group_size}]", "sweep.grid.seed=[1]"]
    return make_plan(
        config.load(sweep, [*overrides, "sweep.cells=[]", "sweep.family=null"])
    ).points[0]


def warmed_up(sweep: str) -> Path:
    point = point_of(sweep, 8)
    short = replace(point.train.warmup, steps=WARMUP_STEPS)
    stage = StagePaths(Path(tempfile.mkdtemp()))
    point = replace(point, train=replace(point.train, warmup=short))
    warmup.warm_up(warmup_stage.stage(point).spec, StageRun(stage), "cpu")
    return stage.checkpoint(0)


def measure(sweep: str, group_size: int, base: Path) -> None:
    point = point_of(sweep, group_size)
    policy, tokenizer = checkpoint.load_checkpoint(base, "cpu", None)
    run = StageRun(StagePaths(Path(tempfile.mkdtemp())), save_seconds=0.0)
    own = session.Session(
        policy,
        run=run,
        fingerprint="bench",
        betas=(point.train.beta1, point.train.beta2),
        weight_decay=point.train.weight_decay,
        grad_clip=point.train.grad_clip,
        has_metrics=True,
    )
    learning = reinforce.Learner(point, own, tokenizer)
    seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def timed(part):
        begun = time.process_time()
        yield
        seconds[part] += time.process_time() - begun

    def step(number: int) -> None:
        with timed("sampling and grading"):
            batch, sampled = learning.rollouts(number)
        with timed("update"):
            learning.learn(batch)
        with timed("metrics"):
            reinforce.measure(sampled, learning.advantages(sampled), point.focal_gamma)

    grader = reinforce.get_grader
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

    reinforce.get_grader = timed_grader
    seconds.clear()
    learning.rollouts(WARM + STEPS + 1)
    reinforce.get_grader = grader
    parts["of it grading"] = 1e3 * seconds["grading"]
    own.counters = replace(own.counters, step=1)
    with timed("a save of the state"):
        own.save()
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
