"""Draws of an identical evaluation that is finished, taken over instead of made again.

In: what the draws on a benchmark follow from (`identity`). Out: draws.parquet as another name of
the file of the evaluation that made it (`take_over`), and a link to one's own for others (`offer`):
<run root>/draws/<identity> leads to the evaluation that finished last.

Nothing is locked. An evaluation that is gone, at work or damaged is passed over, and draws are
made. Nobody writes into a stored file, but another one in its place: what becomes of an evaluation
changes nothing for those that took its draws over.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.fetch import patterns
from fgrpo_bench.files.paths import BenchmarkPaths, StagePaths, finished_draws
from fgrpo_bench.files.whole import link_whole, point_to, read_record, write_json
from fgrpo_bench.specs import to_dict
from fgrpo_bench.specs.fingerprint import defining, fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.markers import read_marker

from .records import SamplingTarget


def identity(target: SamplingTarget, benchmark: str, problems: Sequence[Problem]) -> str:
    """Digest of what draws on a benchmark follow from: the checkpoint's files, how it is sampled,
    the ids and prompts of the problems, and how many draws there are. Where it ran is not in it,
    nor who asked."""
    evaluation = target.evaluation
    of_benchmark = evaluation.benchmark_prompt(benchmark)  # else it has the one of all
    settings = {name: value for name, value in target.settings.items() if name != "benchmarks"}
    further = patterns(trusted=target.trust_remote_code)[1:]
    files = {file for pattern in further for file in target.folder.glob(pattern)}
    return fingerprint(
        {
            "sampling": settings
            | ({} if of_benchmark is None else {"prompt": defining(of_benchmark)}),
            "weights_sha256": target.sha256,
            "checkpoint": {file.name: sha256_file(file) for file in sorted(files)},
            "problems": fingerprint([[problem.problem_id, problem.prompt] for problem in problems]),
            "n_samples": evaluation.n_samples,
            "design": evaluation.design and to_dict(evaluation.design),
        }
    )


def take_over(
    paths: BenchmarkPaths, manifest: DrawsRecord, identity: str, *, root: Path
) -> DrawsRecord:
    """Let a benchmark without draws have those of a finished evaluation; returns its manifest with
    what there is to say of them, the same where it gets none. root: folder of all runs."""
    if paths.draws.exists() or paths.shards.exists():
        return manifest
    try:
        folder = Path(os.path.realpath(finished_draws(root, identity), strict=True))
        donor, stage = BenchmarkPaths(folder), StagePaths(folder.parent)
        if folder == paths.folder.resolve():
            return manifest
        listed = read_marker(stage).outputs

        def check(file: Path, original: Path) -> None:
            output = listed.get(original.relative_to(stage.folder).as_posix())
            if output is None or sha256_file(file) != output.sha256:
                raise ValueError(f"{original} is not the file that {stage.done} lists")

        check(donor.manifest, donor.manifest)
        donated = read_record(donor.manifest, DrawsRecord)
        if donated.identity != identity:  # it was asked for other draws since
            return manifest
        name = os.path.relpath(stage.folder, root.resolve())
        taken = replace(manifest, engines=donated.engines, plugins=donated.plugins, taken_from=name)
        # before the draws: without any it says nothing, and they are never without their origin
        write_json(paths.manifest, taken.as_json())
        link_whole(paths.draws, donor.draws, check=lambda file: check(file, donor.draws))
    except FileNotFoundError:  # nobody has finished, or it was deleted meanwhile
        return manifest
    except (OSError, ValueError) as error:
        print(f"{error}: its draws are not taken over, and made again", flush=True)
        return manifest
    print(f"{paths.folder.name}: the draws are taken over from {stage.folder}", flush=True)
    return taken


def offer(paths: BenchmarkPaths, identity: str, *, root: Path) -> None:
    """Let others take over the draws of an evaluation, from when its completion marker stands."""
    try:
        point_to(finished_draws(root, identity), paths.folder)
    except OSError as error:
        print(f"the draws are stored, but no other evaluation finds them: {error}", flush=True)
