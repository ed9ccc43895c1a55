"""The command of the stage evaluate: `python -m evaluators run <folder>`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from fgrpo_bench.paths import StagePaths
from fgrpo_bench.stage import StageRun, run_stage

EXAMPLES = """examples:
  python -m evaluators run runs/groupsize/countdown/v1/grpo-n8-g0-s11/eval/pass256-*/step-00300
  python -m evaluators run <folder> --device cuda

exit code 0: done (or was done before); 75: stopped at a save, run it again; other: failed"""


def main(argv: list[str] | None = None) -> int:
    """Run the stage in a folder to its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluators",
        description="A checkpoint in; draws, grades and pass@k out.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser(
        "run",
        help="run one evaluation stage",
        description="Run one evaluation stage whose folder holds a spec.json.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument("folder", type=Path, help="the stage's folder")
    run.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    run.add_argument("--threads", type=int, default=1, help="threads of torch; default: 1")
    options = parser.parse_args(argv)
    paths = StagePaths(options.folder)
    if not paths.spec.exists():
        parser.error(f"{paths.spec} does not exist: `python -m sweeps run` writes it")
    return run_stage(paths, lambda spec, stage: _work(spec, stage, options))


def _work(spec: dict[str, Any], run: StageRun, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from evaluators.evaluate import evaluate

    if spec["kind"] != "evaluate":
        raise ValueError(
            f"{run.paths.spec} is of kind {spec['kind']!r}: this command runs evaluate; warm-up "
            "and training are run by `python -m fgrpo_bench.training`"
        )
    torch.set_num_threads(options.threads)
    return evaluate(spec, run, options.device)


if __name__ == "__main__":
    sys.exit(main())
