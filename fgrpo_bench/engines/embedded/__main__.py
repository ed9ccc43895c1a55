"""The command of the stages warmup and train: `python -m fgrpo_bench.engines.embedded <folder>`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from fgrpo_bench.engines.embedded import keep_freed_memory
from fgrpo_bench.engines.embedded.kernels import choose_kernels
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.stages.stage import (
    SAVE_SECONDS,
    StageRun,
    add_machine_arguments,
    named_stage,
    run_stage,
    stage_parser,
)

PROGRAM = "fgrpo_bench.engines.embedded"
EXAMPLES = f"""\
  python -m {PROGRAM} runs/groupsize/countdown/v1/_warmup/s11
  python -m {PROGRAM} runs/groupsize/countdown/v1/grpo-n8-g0.5-s11 --device cuda"""


def main(argv: list[str] | None = None) -> int:
    """Run the stage in a folder to its exit code."""
    description = "Run one warm-up or training stage whose folder holds a spec.json."
    parser = stage_parser(PROGRAM, description, EXAMPLES)
    add_machine_arguments(parser)
    parser.add_argument(
        "--save-seconds",
        type=float,
        default=SAVE_SECONDS,
        help=f"between saves of the whole state; default: {SAVE_SECONDS:g}",
    )
    options = parser.parse_args(argv)
    paths = named_stage(parser.error, options.folder)
    return run_stage(
        paths,
        lambda spec, run: _work(spec, run, options.device, options.threads),
        save_seconds=options.save_seconds,
    )


def _work(spec: StageSpec, run: StageRun, device: str, threads: int) -> Record:
    choose_kernels()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for deterministic CUDA products
    import torch

    from fgrpo_bench.engines.embedded.reinforce import reinforce
    from fgrpo_bench.engines.embedded.warmup import warm_up

    keep_freed_memory()
    torch.set_num_threads(threads)
    # What torch.use_deterministic_algorithms does, which imports torch's compilers for a second.
    torch.set_deterministic_debug_mode("warn" if device == "cuda" else "error")
    # It would fill all new memory with NaN first; the engine writes what it allocates before it
    # reads it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    stages: dict[str, Callable[[StageSpec, StageRun, str], Record]]
    stages = {"warmup": warm_up, "train": reinforce}
    if spec.kind not in stages:
        raise ValueError(
            f"{run.paths.spec} is of kind {spec.kind!r}: this command runs warmup and train; "
            "evaluations are run by `fgrpo-bench evaluate run`"
        )
    return stages[spec.kind](spec, run, device)


if __name__ == "__main__":
    sys.exit(main())
