"""Datasets and published models: fetched once, where there is a network; stages only read them.

`python -m fgrpo_bench.data --help`
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import DataPaths, StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record
from fgrpo_bench.specs import DatasetSpec
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.markers import Marker
from fgrpo_bench.stages.tables import PROBLEMS, read_table, reading


@dataclass(frozen=True, kw_only=True)
class DatasetSource(Record):
    """Where a dataset's file came from."""

    publisher: str | None = None
    """Address that it was fetched from; None, like the next two, of a file on this machine."""
    repository: str | None = None
    revision: str | None = None
    path: str
    """In the repository, or on this machine."""
    sha256: str


@dataclass(frozen=True, kw_only=True)
class TokenizerSource(Record):
    """Which tokenizer counted the tokens of a length limit."""

    name: str
    publisher: str | None = None
    """None, like revision, of a folder on this machine."""
    revision: str | None = None
    sha256: str
    """Of its tokenizer.json."""


@dataclass(frozen=True, kw_only=True)
class Rule(Record):
    """What a rule left of the rows."""

    rule: str
    """In words."""
    rows_before: int
    rows_after: int


@dataclass(frozen=True, kw_only=True)
class Prepared(Record):
    """The table that was made."""

    rows: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class DatasetLock(Record):
    """data.lock.json: where every byte of a dataset came from, and what each rule left."""

    fingerprint: str
    source: DatasetSource | None = None
    """None before it is fetched."""
    tokenizer: TokenizerSource | None = None
    """None without a length limit."""
    rules: tuple[Rule, ...] | None = None
    """None, like the next two, before the table is made."""
    result: Prepared | None = None
    remark: str | None = None
    """The count for a person, and by which rules where another one was expected."""
    columns_sha256: str | None = None
    """Of the columns beside the problems; None, likewise, before they are kept."""
    answers: str | None = None
    """Where the golds stood in the column of answers, for a person; None: they are all as they
    stand there."""


@dataclass(frozen=True, kw_only=True)
class DatasetFacts(Record):
    """What a fetched dataset says in its marker beside what all stages say."""

    rows: int
    sha256: str
    """Of the table."""
    source_sha256: str
    remark: str


@dataclass(frozen=True, kw_only=True)
class DatasetMarker(DatasetFacts, Marker):
    """DONE.json of a fetched dataset."""


def problem_columns(folder: Path) -> pl.DataFrame:
    """problem_id, and the short columns of the file beside problem, answer and options, as text and
    null where there is nothing, of a dataset whose stage, in this folder, is done.

    FileNotFoundError where they are not here, ValueError where they are not those that were kept.
    """
    paths = DataPaths(folder)
    again = (
        f"delete {StagePaths(folder).done} and prepare it again (`fgrpo-bench data <benchmark>`, "
        "the sweep's data stage, or the command that evaluated on a file of your own)"
    )
    if not paths.columns.exists():
        raise FileNotFoundError(
            f"{paths.columns}: the columns beside these problems are not here; {again}"
        )
    if paths.lock.exists():
        recorded = read_record(paths.lock, DatasetLock).columns_sha256
        if (sha256 := sha256_file(paths.columns)) != recorded:
            raise ValueError(
                f"{paths.columns} has sha256 {sha256}, but {paths.lock} records {recorded}: it was "
                f"changed or damaged since it was prepared; {again}"
            )
    with reading(paths.columns):
        return pl.read_parquet(paths.columns, glob=False)


def dataset_problems(folder: Path, spec: DatasetSpec, *, n_problems: int | None) -> list[Problem]:
    """The first problems of a dataset whose stage, in this folder, is done; None gives all.

    ValueError where there are fewer than asked for, or the table is not the one that was prepared.
    """
    paths = DataPaths(folder)
    result = read_record(paths.lock, DatasetLock).result
    prepared = None if result is None else result.sha256
    sha256 = sha256_file(paths.problems)
    if sha256 != prepared:
        raise ValueError(
            f"{paths.problems} has sha256 {sha256}, but {paths.lock} records {prepared}: it was "
            f"changed or damaged since it was prepared; delete {StagePaths(folder).done} and "
            "prepare it again (`fgrpo-bench data <benchmark>`, or the sweep's data stage)"
        )
    table = read_table(paths.problems, PROBLEMS)
    if n_problems is not None and len(table) < n_problems:
        raise ValueError(
            f"n_problems={n_problems}, but dataset {spec.name} has {len(table)}: ask for "
            "fewer (--limit)"
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
