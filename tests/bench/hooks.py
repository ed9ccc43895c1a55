"""The share of a training step of OpenRLHF that is spent inside our hooks.

The real OpenRLHF on the processor: a small model, 32 prompts of 8 rollouts a step, two updates a
step, focal weight on. Step time and clocks come from the same run, the first step left out. With a
model this small and answers this short a step is as short as it gets, and the share as large.

Counted by wall time, as if nothing ran beside anything: focal weights, ordering and counting of
rollouts, labels, seeds and bookkeeping of the reward executor, the metrics row with its fsync, the
seeding of updates, and the metrics that ride on updates. Judging is said apart: every reward
function does it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from fgrpo_bench.files import read_lines
from sweeps.commands import openrlhf_home
from tests.support.openrlhf import Run, make_model, train_problems, write_prompts

STEPS, PROMPTS = 12, 32
OPTIONS = {
    "--fgrpo.steps": str(STEPS),
    "--rollout.batch_size": str(PROMPTS),
    "--rollout.micro_batch_size": "32",
    "--train.batch_size": str(PROMPTS * 8 // 2),
    "--train.micro_batch_size": "32",
    "--train.num_episodes": str(STEPS // 2),
}


def measure(folder: Path, python: Path) -> dict[str, float]:
    """Seconds a step: the step's own under `step`, then by hook."""
    run = Run(
        folder=folder / "run",
        model=make_model(folder / "model"),
        prompts=write_prompts(folder / "prompts.jsonl", train_problems(2 * PROMPTS)),
        options=OPTIONS,
    )
    (folder / "clocks").mkdir()
    further = {
        "FGRPO_OPENRLHF_DEVICE": "cpu",
        "FGRPO_BENCH_CLOCKS": str(folder / "clocks"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [str(python), "-m", "tests.bench.clocked_driver", *run.arguments],
        env=os.environ | further,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"the run failed:\n{done.stdout[-3000:]}")
    ends = [float(row["time_ms"]) / 1000 for row in run.rows()]
    assert len(ends) == STEPS, ends
    total: dict[str, float] = defaultdict(float)
    for path in (folder / "clocks").glob("*.jsonl"):
        for clock, at, seconds in read_lines(path):
            if ends[0] < at <= ends[-1]:
                name, _, stock = clock.partition("/")
                total[name] += -seconds if stock else seconds
    steps = len(ends) - 1
    return {"step": (ends[-1] - ends[0]) / steps} | {k: s / steps for k, s in total.items()}


def main() -> None:
    python = openrlhf_home("cpu") / "bin" / "python"
    if not python.exists():
        sys.exit(f"there is no {python}: run `make setup-openrlhf-cpu`")
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(Path(folder), python)
    step, judging = seconds.pop("step"), seconds.pop("judging")
    hooks = sum(seconds.values())
    print(json.dumps({"steps": STEPS - 1, "s a step": step, "ms in hooks": 1000 * hooks}))
    print(json.dumps({"share of the step, %": 100 * hooks / step, "goal, %": 2.0}))
    print(json.dumps({f"ms in {name}": 1000 * s for name, s in sorted(seconds.items())}))
    print(
        json.dumps({"ms of judging": 1000 * judging, "with it, %": 100 * (hooks + judging) / step})
    )


if __name__ == "__main__":
    main()
