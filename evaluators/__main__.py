"""The command of the stage evaluate: `python -m evaluators run <folder>`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from evaluators.fetch import add_fetch_arguments, fetch_command
from fgrpo_bench.stage import StageRun, add_stage_arguments, named_stage, run_stage

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
    add_stage_arguments(run)
    run.add_argument("--placement", help="profile.openrlhf as JSON; needed for sampler=vllm")
    add_fetch_arguments(commands.add_parser("fetch", help="fetch benchmarks, once"))
    options = parser.parse_args(argv)
    if options.command == "fetch":
        return fetch_command(options)
    paths = named_stage(parser, options)
    return run_stage(paths, lambda spec, stage: _work(spec, stage, options))


def _work(spec: dict[str, Any], run: StageRun, options: argparse.Namespace) -> dict[str, Any]:
    import torch

    from evaluators.evaluate import evaluate
    from fgrpo_bench.specs import Placement, from_dict

    if spec["kind"] != "evaluate":
        raise ValueError(
            f"{run.paths.spec} is of kind {spec['kind']!r}: this command runs evaluate; warm-up "
            "and training are run by `python -m fgrpo_bench.training`"
        )
    torch.set_num_threads(options.threads)
    given = options.placement
    placement = None if given is None else from_dict(Placement, json.loads(given))
    return evaluate(spec, run, device=options.device, placement=placement)


if __name__ == "__main__":
    sys.exit(main())
