"""The stored tables: schemas, and reading and writing them whole.

A row of DRAWS:  ("3256-24", 7, 5183..., "6*3+5+1", 8, "stop", 1)
A row of GRADES: ("3256-24", 7, "incorrect", "6*3+5+1", "digits are not those given", "countdown-1")
A row of PASSK:  ("3256-24", 256, 512, 3, 40, 1, 0, 0.8757..., 0.8757..., 0.8757..., null,
                 "2356")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from fgrpo_bench.files.whole import write_bytes
from fgrpo_bench.stages import watch

DRAWS = pl.Schema(
    {
        "problem_id": pl.String,
        "draw": pl.Int64,  # 0-based within the problem
        "seed": pl.Int64,  # the draw's own seed
        "response": pl.String,
        "n_tokens": pl.Int32,  # sampled tokens, the end token included
        "finish_reason": pl.String,  # stop | length
        "end_token": pl.Int32,  # id of the sampled one; null: cut off, or not known
    }
)
GRADES = pl.Schema(
    {
        "problem_id": pl.String,
        "draw": pl.Int64,
        "outcome": pl.String,  # correct | incorrect | unscored
        "extracted": pl.String,
        "reason": pl.String,
        "grader_version": pl.String,
    }
)
_NUMBERS: Any = pl.List(pl.Int64)
PASSK = pl.Schema(
    {
        "problem_id": pl.String,
        "k": pl.Int64,
        "n_scored": pl.Int64,  # draws that the grader could judge
        "n_correct": pl.Int64,
        # Of the draws up to where the problem stopped. Null where finish_reason is not known of
        # each, likewise the next.
        "n_cut_off": pl.Int64,
        "n_correct_cut_off": pl.Int64,
        "n_by_place": pl.Int64,  # correct draws whose grade's reason ends with BY_PLACE
        "pass_at_k": pl.Float64,  # fraction; null where n_scored < k of a fixed number of draws
        "pass_at_k_low": pl.Float64,  # were all unscored draws incorrect; null with fewer than k
        "pass_at_k_high": pl.Float64,  # were they all correct
        # Draws that were not judged, by the stage that made them, 0 for those after the problem
        # stopped; a fixed number of draws is one stage. Null where the judgements ask for draws
        # that are not there.
        "n_unscored": _NUMBERS,
        "cluster": pl.String,  # what the problem shares with others; null: nothing
    }
)
N_DRAWN = pl.col("n_scored") + pl.col("n_unscored").list.sum()
"""Over rows of PASSK: draws of a problem up to where it stopped, judged or not; null where its
judgements ask for draws that are missing."""
BOUNDS = ("pass_at_k_low", "pass_at_k_high")
CUT_OFF = ("n_cut_off", "n_correct_cut_off")
UNFINISHED = (*CUT_OFF, "n_by_place")
"""Columns of PASSK that count draws which were cut off, or are correct by their place alone."""
TRAJECTORIES = pl.Schema(
    {
        "problem_id": pl.String,
        "draw": pl.Int64,
        "prompt": pl.String,  # of the problem, before any chat template
        "response": pl.String,
        "ended": pl.Boolean,  # by the model itself, so that the end token counts
        "nll": pl.Float64,  # nats per token under the base model, the end token included
        "end_token": pl.Int32,  # as in DRAWS
    }
)
LIKELIHOODS = pl.Schema(
    {
        "problem_id": pl.String,
        "draw": pl.Int64,
        "nll": pl.Float64,  # nats per token under the checkpoint
        "delta_nll": pl.Float64,  # the same less that under the base model
    }
)
PROBLEMS = pl.Schema(
    {
        "problem_id": pl.String,  # dataset and row of the source, e.g. deepscaler-000017
        "prompt": pl.String,  # as published, before any chat template
        "answer": pl.String,  # gold, as published
        "gold_used": pl.String,  # gold as the grader gets it, normalised once
        "cluster": pl.String,  # as the named column has it, or its digest; null: none
    }
)
METRICS = pl.Schema(
    {name: pl.Int64 if metric.whole else pl.Float64 for name, metric in watch.METRICS.items()}
)
ROLLOUTS = pl.Schema(
    {
        "step": pl.Int64,  # that learned from the group; a policy of the step before sampled it
        "group": pl.Int64,  # 0-based within the batch of the step
        "rollout": pl.Int64,  # 0-based within the group
        "prompt": pl.String,  # as the model read it
        "response": pl.String,
        "n_tokens": pl.Int32,  # sampled tokens, the end token included
        "finish_reason": pl.String,  # stop | length
        "outcome": pl.String,  # correct | incorrect | unscored
        "reward": pl.Float64,  # from which the advantage is computed
        "advantage": pl.Float64,  # with the focal weight
        "focal_weight": pl.Float64,  # of the group
        # |advantage| over the sum of it over the whole batch; null where that is 0
        "gradient_share": pl.Float64,
        "log_prob": pl.Float64,  # nats, of the whole response under the policy that sampled it
    }
)
"""The first groups of a batch that a training step learns from."""

_DRAW = ("problem_id", "draw")
SMALL = 1_000
"""Rows up to which a table's keys are sooner counted in Python than asked for in a query."""
_KEYS = {
    tuple(schema): key
    for schema, key in (
        (DRAWS, _DRAW),
        (GRADES, _DRAW),
        (PASSK, ("problem_id", "k")),
        (TRAJECTORIES, _DRAW),
        (LIKELIHOODS, _DRAW),
        (PROBLEMS, ("problem_id",)),
        (METRICS, ("step",)),
        (ROLLOUTS, ("step", "group", "rollout")),
    )
}
"""By columns of a table, those that no two of its rows share."""


def write_table(path: Path, frame: pl.DataFrame, schema: pl.Schema) -> None:
    """Write Parquet whole or not at all; raises where the columns are not the schema's, or two rows
    stand for the same thing."""
    if frame.schema != schema:
        raise TypeError(f"{path.name}: columns {dict(frame.schema)} are not {dict(schema)}")
    if (fault := _repeated(frame)) is not None:
        raise ValueError(f"{path} is not written: {fault}; run the same command again")
    buffer = BytesIO()  # so that a full disk shows as the OSError that it is
    frame.write_parquet(buffer)
    write_bytes(path, buffer.getbuffer())


def metrics_table(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """METRICS of rows that have its columns among others; what a row lacks is null."""
    return pl.DataFrame([{name: row.get(name) for name in METRICS} for row in rows], METRICS)


def read_table(path: Path, schema: pl.Schema) -> pl.DataFrame:
    """Read Parquet; ValueError that names the file where it is damaged or another table."""
    return _checked(path, _read(path), schema)


def scan_table(path: Path, schema: pl.Schema) -> pl.LazyFrame:
    """A stored table, of which only what is asked for is read; collect it within `reading`."""
    return pl.scan_parquet(path, schema=schema, glob=False)


@contextmanager
def reading(*paths: Path) -> Iterator[None]:
    """Around a query over stored tables: ValueError that names the damaged one, as `read_table`."""
    try:
        yield
    except pl.exceptions.PolarsError as error:
        for path in paths:
            _read(path)
        raise ValueError(_unreadable(" or ".join(map(str, paths)), error)) from error


def _read(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path, glob=False)
    except pl.exceptions.PolarsError as error:
        raise ValueError(_unreadable(str(path), error)) from error


def _unreadable(named: str, error: Exception) -> str:
    return (
        f"{named} is no readable Parquet file ({str(error).splitlines()[0]}): it is damaged; "
        "delete it and run the sweep again, which makes only what is missing"
    )


def _checked(path: Path, frame: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
    if frame.schema != schema:
        raise ValueError(
            f"{path} {_differences(frame.schema, schema)}: it was written by another version; move "
            "it away and run the sweep again"
        )
    if (fault := _repeated(frame)) is not None:
        raise ValueError(
            f"{path} is damaged: {fault}; delete it and run the sweep again, which makes only what "
            "is missing"
        )
    return frame


def _differences(stored: pl.Schema, read: pl.Schema) -> str:
    """In which columns a table is not as this version reads it, in words."""
    lacking = [name for name in read if name not in stored]
    further = [name for name in stored if name not in read]
    other = [
        f"{name} ({stored[name]}, not {read[name]})"
        for name in read
        if name in stored and stored[name] != read[name]
    ]
    named = {"lacks columns": lacking, "has further columns": further, "has other types of": other}
    parts = [f"{word} {', '.join(names)}" for word, names in named.items() if names]
    return " and ".join(parts) or f"has its columns in another order, {', '.join(stored)}"


def _n_unique(frame: pl.DataFrame, key: Sequence[str]) -> int:
    if len(frame) > SMALL:
        return int(frame.select(pl.struct(key).n_unique()).item())
    return len(set(zip(*(frame[name].to_list() for name in key), strict=True)))


def _repeated(frame: pl.DataFrame) -> str | None:
    """The first row that a table has twice, in words; None where each stands for itself."""
    key = _KEYS.get(tuple(frame.columns))
    if key is None or _n_unique(frame, key) == len(frame):
        return None
    twice = frame.filter(pl.struct(key).is_duplicated()).row(0, named=True)
    return "more than one row has " + " and ".join(f"{name} {twice[name]!r}" for name in key)
