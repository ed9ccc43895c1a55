"""The command of a training stage by OpenRLHF: `python -m fgrpo_bench.engines.openrlhf <folder>`.

Runs in the OpenRLHF environment (`make setup-openrlhf`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping

from fgrpo_bench.engines.openrlhf.cluster import Meeting, SlurmStep, node_names, slurm_step
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.specs import Placement, from_dict
from fgrpo_bench.stages.stage import (
    EXIT_FAILED,
    StageRun,
    add_machine_arguments,
    named_stage,
    run_stage,
    stage_parser,
)

EXAMPLES = (
    "  fgrpo-bench sweep run rehearsal        writes the folder and starts this command with its "
    "placement"
)


def main(argv: list[str] | None = None) -> int:
    """Run the stage in a folder to its exit code."""
    description = "Run one training stage by OpenRLHF whose folder holds a spec.json."
    parser = stage_parser("fgrpo_bench.engines.openrlhf", description, EXAMPLES)
    add_machine_arguments(parser)
    parser.add_argument("--placement", required=True, help="profile.placement as JSON")
    options = parser.parse_args(argv)
    paths = named_stage(parser.error, options.folder)
    if options.device == "cpu":
        # the rehearsal takes the place of CUDA as soon as a process of the run starts Python
        os.environ["FGRPO_OPENRLHF_DEVICE"] = "cpu"
    step = slurm_step(os.environ, node_names)
    if step is None:
        return run_stage(paths, lambda spec, run: _work(spec, run, options, None))
    from fgrpo_bench.engines.openrlhf import cluster, driver

    driver.prepare_environment()  # Ray's processes have that of the one that starts them
    meeting = Meeting.from_step(paths.folder, step)
    if step.rank:
        return cluster.join(step, meeting)
    exit_code = EXIT_FAILED
    try:
        exit_code = run_stage(paths, lambda spec, run: _work(spec, run, options, step))
    finally:
        meeting.tell("over", exit_code=exit_code)
    return exit_code


def _work(
    spec: StageSpec, run: StageRun, options: argparse.Namespace, step: SlurmStep | None
) -> Record:
    import json

    from fgrpo_bench.engines.openrlhf.stage import train

    placement = from_dict(Placement, json.loads(options.placement))
    if placement.adam_offload:
        threads = offload_threads(placement, os.environ, processors=len(os.sched_getaffinity(0)))
        # DeepSpeed's optimizer on processors takes as many threads as OpenMP says, else one
        os.environ["OMP_NUM_THREADS"] = str(threads)
    return train(spec, run, placement, device=options.device, step=step)


def offload_threads(
    placement: Placement, environment: Mapping[str, str], *, processors: int
) -> int:
    """Threads of each rank of the policy where its optimizer runs on processors: its share of the
    job's on a node.

    processors: that this process may use, which is the whole node where SLURM does not bind tasks.
    """
    granted = int(environment.get("SLURM_CPUS_PER_TASK", processors))
    return max(1, min(processors, granted) // placement.actor_gpus_per_node)


if __name__ == "__main__":
    sys.exit(main())
