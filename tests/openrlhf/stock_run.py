"""OpenRLHF's command line as it is, on processors: `python -m tests.openrlhf.stock_run <words>`.

None of its classes is replaced; Ray and the stand-ins for CUDA are those of our driver.
"""

from __future__ import annotations

import runpy
import sys

from fgrpo_bench.engines.openrlhf import driver, rehearsal


def main() -> None:
    driver.prepare_environment()
    rehearsal.set_up()
    with driver.connected(None):
        sys.argv[0] = driver.CLI
        runpy.run_module(driver.CLI, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
