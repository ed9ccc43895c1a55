"""`make check-gpu`: runs on this machine's GPUs what they can run, and prints what passed.

From torch and the built-in engine to two steps of OpenRLHF, each killed and gone on with, vLLM over
what they wrote, and two steps at the size of the published models with random weights: their memory
and seconds, which `fgrpo-bench sweep plan` then reckons with. Needs `make setup-openrlhf` for
OpenRLHF and vLLM. What this machine lacks is told and fails nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fgrpo_bench.command.runs import default_root
from tests.gpu import checks, machine, shapes
from tests.gpu.machine import Machine
from tests.gpu.model import CONFIGS


@dataclass(frozen=True, kw_only=True)
class Check:
    """A line of the table."""

    name: str
    run: Callable[[Machine, Path], str]
    """Returns what it measured, or raises."""
    lacks: Callable[[Machine, Path], str]
    """What it lacks here; empty where it can run."""
    decides: bool = True
    """Whether the exit code tells of its failure."""


def of(lacks: Callable[[Machine], str]) -> Callable[[Machine, Path], str]:
    """The same, whatever the folder of the runs."""
    return lambda here, _: lacks(here)


CHECKS = [
    Check(name="torch computes on the GPU", run=checks.computes, lacks=of(machine.lacks_gpu)),
    Check(
        name="built-in engine: killed, gone on with, same weights",
        run=checks.resumes,
        lacks=of(machine.lacks_gpu),
    ),
    Check(
        name="built-in engine: speed against the CPU",
        run=checks.speed,
        lacks=of(machine.lacks_gpu),
    ),
    Check(
        name="OpenRLHF: two steps, killed, gone on with; engine and policy take turns on a GPU",
        run=checks.openrlhf,
        lacks=of(machine.lacks_openrlhf),
    ),
    Check(
        name="vLLM: draws from what OpenRLHF wrote",
        run=checks.evaluates,
        lacks=of(machine.lacks_openrlhf),
    ),
    Check(
        name="OpenRLHF: two ranks of ZeRO 3, an engine on each GPU, as node-8gpu has it",
        run=checks.two_gpus,
        lacks=of(machine.lacks_two_ranks),
    ),
    Check(
        name="OpenRLHF: an engine over two GPUs, which no shipped placement has",
        run=checks.tensor_parallel,
        lacks=of(machine.lacks_two_gpus),
        decides=False,
    ),
]


def of_sizes(models: Sequence[str], *, saves: bool) -> list[Check]:
    """The steps at a published size, from the smallest on."""
    return [
        Check(
            name=f"OpenRLHF: two steps at the size of {model}",
            run=partial(shapes.measure, model, saves=saves),
            lacks=partial(shapes.lacks, model, saves=saves),
        )
        for model in models
    ]


EXAMPLES = """examples:
  make check-gpu
  make check-gpu ARGS='--keep /scratch/check'   # leaves the runs and logs there
  make check-gpu ARGS='--no-state'              # with a disk that is too small for a training state
  make check-gpu ARGS='--size qwen2.5-1.5b'     # two steps at this size and no more
  make check-gpu ARGS='--device cpu'            # the same on processors, with stand-ins for CUDA"""


def main() -> int:
    """Exit code 0 where something was run and all of it passed."""
    parser = argparse.ArgumentParser(
        prog="make check-gpu",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder for the runs")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument(
        "--size", choices=[*CONFIGS], help="measure at this size alone, and check nothing else"
    )
    parser.add_argument(
        "--no-state", action="store_true", help="save no training state: 4 bytes of disk for 18"
    )
    options = parser.parse_args()
    sizes = [*CONFIGS] if options.size is None else [options.size]
    every = [*([] if options.size else CHECKS), *of_sizes(sizes, saves=not options.no_state)]
    here = machine.look(options.device)
    print("\n".join(here.described), flush=True)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return run(here, options.keep.resolve(), every)
    root = default_root().absolute()
    root.mkdir(parents=True, exist_ok=True)  # saves are measured on the disk that runs are saved on
    with tempfile.TemporaryDirectory(prefix=".check-gpu-", dir=root) as folder:
        return run(here, Path(folder), every)


def run(here: Machine, folder: Path, every: Sequence[Check]) -> int:
    """All checks in their order, a line of a Markdown table each."""
    ended = []
    print("\n| check | outcome | seconds | measured |\n| :-- | :-- | --: | :-- |", flush=True)
    for check in every:
        begun = time.monotonic()
        try:
            lacking = check.lacks(here, folder)
            said, outcome = (
                (lacking, "not here") if lacking else (check.run(here, folder), "passed")
            )
        except Exception as error:
            traceback.print_exc()
            said = (str(error).strip() or type(error).__name__).splitlines()[-1][:300]
            outcome = "FAILED" if check.decides else "failed, decides nothing"
        ended.append(outcome)
        seconds = time.monotonic() - begun
        print(f"| {check.name} | {outcome} | {seconds:.0f} | {said} |", flush=True)
    return 0 if "passed" in ended and "FAILED" not in ended else 1


if __name__ == "__main__":
    sys.exit(main())
