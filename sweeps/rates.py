"""How fast a model draws and trains on a GPU: assumed until `make check-gpu` or the sweep's own
training runs have measured it.

<run root>/_measured/<model>.<gpu>.json, as check-gpu leaves it:
    {"model": "qwen3-4b-base", "gpu": "NVIDIA H100 80GB HBM3", "date": "2026-07-01",
     "generate_tokens_per_second_per_gpu": 4100.0, "train_tokens_per_second_per_gpu": 7700.0,
     "save_gb_per_second": 1.9, ...}
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record
from sweeps.text import counted

PROMPT_TOKENS = 200
"""Of a training prompt with its chat template, assumed."""
MOST_TOKENS = 50_000.0
"""A second and GPU, whatever a small model's size would allow: starting kernels takes its time."""
RESPONSE_SHARE = 0.2
"""Of the longest response, the mean of a model that the table below does not have."""
ON_H100 = "assumed of an H100 80GB"
BY_SIZE = f"{ON_H100} by its parameters"


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Of one model on one kind of GPU."""

    generate: float
    """Tokens that a GPU draws in a second, the slow end of a batch included."""
    train: float
    """Tokens of prompts and responses that a GPU takes in a second through everything between
    drawing them and drawing again."""
    response: float
    """Tokens of a response, the mean."""
    save: float = 1.0
    """GB (10^9 bytes) of a training state that a run writes in a second."""
    source: str = ON_H100
    """Of the tokens drawn, as the next three are of the others."""
    train_source: str = ON_H100
    save_source: str = "assumed"
    response_source: str = "assumed"

    def __str__(self) -> str:
        return (
            f"{self.generate:,.0f} tokens drawn a second and GPU ({self.source}), "
            f"{self.train:,.0f} trained ({self.train_source}), {self.response:,.0f} a response "
            f"({self.response_source}), {self.save:g} GB saved a second ({self.save_source})"
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredRates(Record):
    """What check-gpu measured of a model on a GPU."""

    model: str
    gpu: str
    placement: str
    adam_offload: bool | None = None
    """Whether the optimizer lived in the host's memory; None where that is not told."""
    n_gpus: int
    source: str
    """The command that measured."""
    date: str
    generate_tokens_per_second_per_gpu: float
    train_tokens_per_second_per_gpu: float
    save_gb_per_second: float
    """Of a training state, in 10^9 bytes."""
    peak_memory_gib: float | None
    """Of a GPU; None where it is not known."""
    seconds: dict[str, float]
    """Of the phases of a step, by their names."""


REFERENCE = 7_615_616_512
"""Parameters of qwen2.5-7b, from whose speeds others follow."""
TABLE = {
    "qwen2.5-7b": Rates(generate=3000.0, train=4500.0, response=1500.0),
    "llama3.2-3b": Rates(generate=6000.0, train=9000.0, response=1500.0),
    "qwen3-4b-base": Rates(generate=4500.0, train=8000.0, response=2000.0),
}
"""By pretrained.name: what one would expect, measured by nobody here."""


def assumed(model: str, *, parameters: int, longest: int) -> Rates:
    """Those of the table, or in inverse proportion to a model's parameters.

    longest: tokens of a response at most.
    """
    known = TABLE.get(model)
    if known is not None:
        return replace(known, response=min(known.response, longest))
    large, factor = TABLE["qwen2.5-7b"], REFERENCE / parameters
    return replace(
        large,
        generate=min(large.generate * factor, MOST_TOKENS),
        train=min(large.train * factor, MOST_TOKENS),
        response=RESPONSE_SHARE * longest,
        source=BY_SIZE,
        train_source=BY_SIZE,
    )


def by_check_gpu(rates: Rates, root: Path, model: str, *, offloads: bool) -> Rates:
    """With what check-gpu measured under a run root last; ValueError for a file of it that holds
    something else.

    offloads: whether the optimizer is to live in the host's memory; a speed of training that was
    measured with the other choice tells nothing.
    """
    files = sorted((root / "_measured").glob("*.json"))
    records = {path: read_record(path, MeasuredRates) for path in files}
    of_model = {path: item for path, item in records.items() if item.model == model}
    if not of_model:
        return rates
    path, last = max(of_model.items(), key=lambda item: item[1].date)
    source = f"measured by make check-gpu on {last.gpu}, {last.date}"
    known = replace(
        rates,
        generate=_positive(path, last, "generate_tokens_per_second_per_gpu"),
        save=_positive(path, last, "save_gb_per_second"),
        source=source,
        save_source=source,
    )
    if last.adam_offload not in (None, offloads):
        return known
    train = _positive(path, last, "train_tokens_per_second_per_gpu")
    return replace(known, train=train, train_source=source)


def _positive(path: Path, rates: MeasuredRates, name: str) -> float:
    value: float = getattr(rates, name)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(
            f"{path} has {name}={value}, which is no rate above 0: delete it, and `make check-gpu` "
            "measures it again"
        )
    return float(value)


def by_training(
    rates: Rates, runs: Iterable[StagePaths], *, drawing: float, training: float
) -> Rates:
    """With what training runs on GPUs measured, those at work included.

    drawing, training: shares of a run's GPUs that do the one and the other.
    """
    rows = [row for run in runs for row in read_lines(run.step_rows) if _tells(row)]
    if not rows:
        return rates
    tokens = sum(row["step_tokens"] for row in rows)
    rollouts = sum(row["step_tokens"] / row["response_tokens"] for row in rows)
    drew = sum(row["gpus"] * row["seconds_generation"] for row in rows)
    rest = sum(row["gpus"] * (row["seconds"] - row["seconds_generation"]) for row in rows)
    steps = f"measured in {counted(len(rows), 'step')} here"
    return replace(
        rates,
        generate=tokens / (drew * drawing),
        train=(tokens + PROMPT_TOKENS * rollouts) / (rest * training),
        response=tokens / rollouts,
        source=steps,
        train_source=steps,
        response_source=steps,
    )


def _tells(row: dict[str, Any]) -> bool:
    """Whether a step's row has speeds: it ran on GPUs, drew and trained."""
    numbers = [
        row.get(name) or 0
        for name in ("gpus", "step_tokens", "response_tokens", "seconds_generation", "seconds")
    ]
    return min(numbers) > 0 and row["seconds"] > row["seconds_generation"]
