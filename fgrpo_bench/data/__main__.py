"""The command of the stage fetch: `python -m fgrpo_bench.data <folder>`."""

from __future__ import annotations

import sys

from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.stages.stage import StageRun, named_stage, run_stage, stage_parser

EXAMPLES = """\
  python -m fgrpo_bench.data runs/_data/deepscaler-1a2b3c4d
  HF_ENDPOINT=https://mirror.example python -m fgrpo_bench.data runs/_data/deepscaler-1a2b3c4d

`fgrpo-bench data` does it for benchmarks by their names.

Run it where the publisher can be reached; other stages only read what it leaves."""


def main(argv: list[str] | None = None) -> int:
    """Run the stage in a folder to its exit code."""
    description = (
        "Fetch what the spec.json in a folder names: a dataset, which is filtered and "
        "deduplicated, or a published model."
    )
    parser = stage_parser("fgrpo_bench.data", description, EXAMPLES)
    paths = named_stage(parser.error, parser.parse_args(argv).folder)
    return run_stage(paths, work)


def work(spec: StageSpec, run: StageRun) -> Record:
    """Do a fetch stage; returns facts for its completion marker."""
    from fgrpo_bench.data.fetch import fetch_model
    from fgrpo_bench.data.prepare import prepare
    from fgrpo_bench.specs.stored import FetchSpec

    if spec.kind != "fetch":
        raise ValueError(
            f"{run.paths.spec} is of kind {spec.kind!r}: this command runs fetch; training is "
            "run by `python -m fgrpo_bench.engines.embedded`, evaluations by "
            "`fgrpo-bench evaluate run`"
        )
    fetch = spec.as_kind(FetchSpec)
    return fetch_model(fetch, run) if fetch.dataset is None else prepare(fetch, run)


if __name__ == "__main__":
    sys.exit(main())
