"""The command of a training stage by OpenRLHF: `python -m fgrpo_bench.training.openrlhf <folder>`.

Runs in the OpenRLHF environment (`make setup-openrlhf`).
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from fgrpo_bench.specs import Placement, from_dict
from fgrpo_bench.stage import StageRun, add_stage_arguments, named_stage, run_stage

EXAMPLES = """examples:
  python -m sweeps run rehearsal        writes the folder and starts this command with its placement

exit code 0: done (or was done before); 75: stopped at a save, run it again; other: failed"""


def main(argv: list[str] | None = None) -> int:
    """Run the stage in a folder to its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m fgrpo_bench.training.openrlhf",
        description="Run one training stage by OpenRLHF whose folder holds a spec.json.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_stage_arguments(parser)
    parser.add_argument("--placement", required=True, help="profile.openrlhf as JSON")
    options = parser.parse_args(argv)
    paths = named_stage(parser, options)
    return run_stage(paths, lambda spec, run: _work(spec, run, options))


def _work(spec: dict[str, Any], run: StageRun, options: argparse.Namespace) -> dict[str, Any]:
    import json

    from fgrpo_bench.training.openrlhf.stage import train

    if options.device == "cpu":
        os.environ["FGRPO_OPENRLHF_DEVICE"] = "cpu"
    placement = from_dict(Placement, json.loads(options.placement))
    nodes = int(os.environ.get("SLURM_NNODES", "1"))
    return train(spec, run, placement, device=options.device, nodes=nodes)


if __name__ == "__main__":
    sys.exit(main())
