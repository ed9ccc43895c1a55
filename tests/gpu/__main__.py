"""`make check-gpu`: runs on this machine's GPUs what they can run, and prints what passed.

From torch and the built-in engine to two steps of OpenRLHF, each killed and gone on with, and vLLM
over what they wrote. Needs `make setup-openrlhf` for OpenRLHF and vLLM.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from tests.gpu import checks
from tests.gpu.checks import Machine, look

CHECKS: dict[str, tuple[Callable[[Machine, Path], str], Callable[[Machine], str]]] = {
    "torch computes on the GPU": (checks.computes, checks.lacks_gpu),
    "built-in engine: killed, gone on with, same weights": (checks.resumes, checks.lacks_gpu),
    "built-in engine: speed against the CPU": (checks.speed, checks.lacks_gpu),
    "OpenRLHF: two steps, killed, gone on with; engine and policy take turns on a GPU": (
        checks.openrlhf,
        checks.lacks_openrlhf,
    ),
    "vLLM: draws from what OpenRLHF wrote": (
        checks.evaluates,
        checks.lacks_openrlhf,
    ),
    "OpenRLHF: two ranks of ZeRO 3, an engine over two GPUs": (
        checks.two_gpus,
        checks.lacks_two_gpus,
    ),
}
"""What is checked: the check, which returns what it measured, and what it lacks here."""
EXAMPLES = """examples:
  make check-gpu
  make check-gpu ARGS='--keep /scratch/check'   # leaves the runs and logs there
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
    options = parser.parse_args()
    machine = look(options.device)
    print("\n".join(machine.described), flush=True)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return run(machine, options.keep.resolve())
    with tempfile.TemporaryDirectory(prefix="check-gpu-") as folder:
        return run(machine, Path(folder))


def run(machine: Machine, folder: Path) -> int:
    """All checks in their order, a line of a Markdown table each."""
    ended = []
    print("\n| check | outcome | seconds | measured |\n| :-- | :-- | --: | :-- |", flush=True)
    for name, (check, lacks) in CHECKS.items():
        begun, lacking = time.monotonic(), lacks(machine)
        try:
            measured, outcome = (
                (lacking, "not run") if lacking else (check(machine, folder), "passed")
            )
        except Exception as error:
            traceback.print_exc()
            said = str(error).strip() or type(error).__name__
            measured, outcome = said.splitlines()[-1][:300], "FAILED"
        ended.append(outcome)
        seconds = time.monotonic() - begun
        print(f"| {name} | {outcome} | {seconds:.0f} | {measured} |", flush=True)
    return 0 if "passed" in ended and "FAILED" not in ended else 1


if __name__ == "__main__":
    sys.exit(main())
