"""Datasets and published models: fetched once, where there is a network; stages only read them.

`python -m fgrpo_bench.data --help`
"""

from __future__ import annotations

from pathlib import Path

from fgrpo_bench.records import Problem
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import DataPaths, StagePaths
from fgrpo_bench.stages.shapes import LOCK
from fgrpo_bench.tables import PROBLEMS, read_table


def dataset_problems(folder: Path, spec: DatasetSpec, *, n_problems: int | None) -> list[Problem]:
    """The first problems of a dataset whose stage, in this folder, is done; None gives all.

    ValueError where there are fewer than asked for, or the table is not the one that was prepared.
    """
    paths = DataPaths(folder)
    prepared = read_json(paths.lock, LOCK | {"result": LOCK["result?"]})["result"]["sha256"]
    sha256 = sha256_file(paths.problems)
    if sha256 != prepared:
        raise ValueError(
            f"{paths.problems} has sha256 {sha256}, but {paths.lock} records {prepared}: it was "
            f"changed or damaged since it was prepared; delete {StagePaths(folder).done} and "
            "prepare it again (`python -m evaluators fetch <benchmark>`, or the sweep's data stage)"
        )
    table = read_table(paths.problems, PROBLEMS)
    if n_problems is not None and len(table) < n_problems:
        raise ValueError(
            f"n_problems={n_problems}, but dataset {spec.name} has {len(table)}: ask for fewer"
        )
    return [
        Problem(
            benchmark=spec.name,
            problem_id=row["problem_id"],
            prompt=row["prompt"],
            target=row["gold_used"],
            grader=spec.grader,
            cluster=row["cluster"],
        )
        for row in table.head(n_problems or len(table)).iter_rows(named=True)
    ]
