"""Steps a second of the categorical simulation, against the plain dense implementation in NumPy."""

import json
import time
from dataclasses import replace

from fgrpo_bench.simulation.run import simulate
from fgrpo_bench.simulation.settings import Run, Settings
from fgrpo_bench.simulation.workers import peak_mb
from tests.support.dense_simulation import Dense

STEPS = {32: 1_000, 8_192: 1_000, 131_072: 200}
"""By N, from the first step on: the steps of a run differ in cost."""


def ours(size: int, steps: int) -> float:
    """CPU seconds a step."""
    settings = replace(Settings(), steps=steps)
    begun = time.process_time()
    simulate(settings, _run(size))
    return (time.process_time() - begun) / steps


def dense(size: int, steps: int) -> float:
    """The same of the plain implementation, which is measured as often."""
    plain = Dense(Settings(), _run(size))
    begun = time.process_time()
    for step in range(1, steps + 1):
        plain.update(plain.draw())
        if step % plain.settings.every == 0:
            plain.masses()
    return (time.process_time() - begun) / steps


def _run(size: int) -> Run:
    return Run(rule="adam", group_size=size, focal_gamma=0.0, seed=0)


def main() -> None:
    own = {size: ours(size, steps) for size, steps in STEPS.items()}
    peak = peak_mb()
    for size, steps in STEPS.items():
        plain = dense(size, steps)
        facts = {"N": size, "steps a CPU s": 1 / own[size], "dense": 1 / plain}
        print(json.dumps(facts | {"ratio": plain / own[size]}))
    print(json.dumps({"peak MB of a worker": peak, "with the dense one": peak_mb()}))


if __name__ == "__main__":
    main()
