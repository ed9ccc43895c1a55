"""Draws that another program made: read by `evaluators.responses`, stored and scored like our own.

Nothing is marked done before it is graded and scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evaluators.responses import read_rows, responses
from evaluators.standalone import data_folder
from evaluators.stored import Stored, benchmark_spec
from fgrpo_bench.benchmarks import graders_of, load_problems
from fgrpo_bench.graders import grader_version
from fgrpo_bench.kinds.evaluate import EvaluationSpec, versions
from fgrpo_bench.records import Problem
from fgrpo_bench.specs import check_name, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.draws import DrawsRecord
from fgrpo_bench.stages.files import now, write_json
from fgrpo_bench.stages.markers import Marker, described, write_marker
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.tables import DRAWS, write_table


def import_file(
    path: Path, *, benchmark: str, name: str, root: Path, subset: bool, keys: Sequence[str]
) -> Stored:
    """Store the draws of a file under evals/<name>; they are graded by `regrade` and then marked as
    done by `conclude`.

    subset: whether the file may leave problems out. keys: as they were given to fetch. Raises
    ValueError for a name that is none, ids that are unknown, draws that are doubled and problems of
    unequal n.
    """
    check_name("--name", name)
    spec, dataset = benchmark_spec(benchmark, keys)
    data = data_folder(root, benchmark, dataset)
    problems = load_problems(spec, None, data)
    draws = table(list(responses(path, read_rows(path), problems)))
    n_samples = check_numbers(path, draws, problems, subset=subset)
    sha256 = sha256_file(path)
    identity = {"import": sha256, "benchmark": to_dict(spec)}
    mark = fingerprint(identity)
    stage = StagePaths(root / "evals" / name / "eval" / f"imported-{mark[:8]}" / "step-00000")
    target = {
        "n_samples": n_samples,
        "ks": [2**i for i in range(n_samples.bit_length())],
        "graders": versions({benchmark: spec}),
    }
    stored = Stored(
        stage=stage,
        paths=stage.benchmark(benchmark),
        benchmark=spec,
        spec=EvaluationSpec(
            stage=stage,
            kind="import",
            fingerprint=mark,
            target=target,
            identity=identity,
            evaluation={
                "name": "imported",
                "sampler": "imported",
                "benchmarks": {benchmark: to_dict(spec)},
                "n_samples": n_samples,
                "ks": target["ks"],
            },
            data={benchmark: str(data.absolute())},
        ),
    )
    write_json(stage.spec, stored.spec.as_json())
    write_table(stored.paths.draws, draws, DRAWS)
    engine = {"engine": "imported", "file": path.name, "sha256": sha256}
    prompts = fingerprint([[p.problem_id, p.prompt] for p in problems])
    manifest = DrawsRecord(
        fingerprint=mark, weights_sha256=None, prompts_sha256=prompts, engine=engine
    )
    write_json(stored.paths.manifest, manifest.as_json())
    return stored


def conclude(stored: Stored) -> None:
    """Mark imported draws as done, once they are graded and scored."""
    paths, benchmark = stored.paths, stored.benchmark
    files = [paths.draws, paths.manifest]
    for grader in graders_of(benchmark):
        version = grader_version(grader)
        own = grader == benchmark.grader
        files += [paths.grades(version), paths.passk if own else paths.also_passk(version)]
    marker = Marker(
        fingerprint=stored.spec.fingerprint,
        target=stored.spec.target,
        finished=now(),
        outputs=described(stored.stage, files),
    )
    write_marker(stored.stage, marker)


def table(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """tables.DRAWS; seed and what follows the response are null where nobody knows them."""
    return pl.DataFrame(rows, schema=DRAWS, orient="row").sort("problem_id", "draw")


def check_numbers(
    path: Path, draws: pl.DataFrame, problems: Sequence[Problem], *, subset: bool
) -> int:
    """Draws a problem; ValueError where they differ or problems are missing."""
    counts = draws.group_by("problem_id").len().sort("len", "problem_id")
    fewest, most = counts.row(0), counts.row(-1)
    if fewest[1] != most[1]:
        raise ValueError(
            f"{path}: problem {fewest[0]} has {fewest[1]} draws and problem {most[0]} has "
            f"{most[1]}: what another program drew is scored as a fixed number of draws, the same "
            "for every problem, and pass@k is too high where problems stopped at correct ones; "
            "draw what is missing, or keep the first ones of every problem, as many as each was "
            "sure to make before any was judged"
        )
    if len(counts) < len(problems) and not subset:
        raise ValueError(
            f"{path} has {len(counts)} of the benchmark's {len(problems)} problems: add the "
            "others, or score these alone with --subset"
        )
    return int(most[1])
