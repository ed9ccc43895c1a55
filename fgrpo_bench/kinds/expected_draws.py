"""What evaluations under a design are expected to draw, beside as many draws of every problem.

Success rates of problems are those of stored grades where there are some: a checkpoint's own ones,
from wherever under the run root it was evaluated with the same settings, else those of the base
models. Where nothing is graded they are as of fgrpo_bench.stats.designs.PRIOR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np

from fgrpo_bench.documents.numbers import number
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.documents.terminal import plain_table
from fgrpo_bench.kinds.graded import Graded, Pace
from fgrpo_bench.specs import EvalSpec
from fgrpo_bench.stats.designs import (
    PRIOR,
    Floats,
    beta_rates,
    fixed_design,
    mean_variance,
)
from fgrpo_bench.stats.staged import StagedDesign

_Weighed = tuple[Floats, Floats | None, float]
"""Success rates, mean tokens of a draw (None: not known), and for how many checkpoints they are."""


def expected(
    evaluation: EvalSpec,
    sizes: Mapping[str, int],
    graded: Sequence[Mapping[str, Graded]],
    base: Sequence[Mapping[str, Graded]] = (),
) -> list[dict[str, Any]]:
    """Rows as JSON types, of the design and of n_samples of every problem, for each benchmark.

    sizes: problems of the benchmarks; those of unknown size are left out. graded: by checkpoint and
    benchmark, empty for one that has none. base: of the base models. Nothing for a fixed number of
    draws.
    """
    if evaluation.stopping is None:
        return []
    rows = []
    for name, n_problems in sizes.items():
        own = [each[name] for each in graded if name in each]
        others = [each[name] for each in base if name in each]
        without = len(graded) - len(own)
        weighed: list[_Weighed] = [(each.rates, each.tokens, 1.0) for each in own]
        if others and without:
            weighed += [(each.rates, each.tokens, without / len(others)) for each in others]
        elif without:
            weighed.append((beta_rates(*PRIOR), None, without))
        paces = [each.pace for each in (*own, *others) if each.pace is not None]
        for design in (evaluation.stopping, fixed_design(evaluation.n_samples)):
            rows.append(
                {
                    "benchmark": name,
                    "stages": list(design.stages),
                    "enough": design.enough if len(design.stages) > 1 else None,
                    "problems": n_problems,
                    "checkpoints": len(graded),
                    "graded": len(own),
                    "graded_bases": len(others),
                }
                | _of(design, evaluation.ks, n_problems, weighed, paces)
            )
    return rows


def _of(
    design: StagedDesign,
    ks: Sequence[int],
    n_problems: int,
    weighed: Sequence[_Weighed],
    paces: Sequence[Pace],
) -> dict[str, Any]:
    draws, tokens = 0.0, 0.0
    for rates, lengths, weight in weighed:
        each = design.expected_draws(rates)
        draws += weight * n_problems * float(each.mean())
        tokens += weight * n_problems * float((each * lengths).mean() if lengths is not None else 0)
    known = all(lengths is not None for _, lengths, _ in weighed)
    unit = paces[0].unit if paces else None
    alike = [pace.seconds for pace in paces if pace.unit == unit]
    every = np.concatenate([rates for rates, *_ in weighed])
    weights = np.concatenate(
        [np.full(len(rates), weight / len(rates)) for rates, _, weight in weighed]
    )
    return {
        "draws": round(draws),
        "tokens": round(tokens) if known else None,
        "seconds": round(tokens * median(alike), 1) if known and alike else None,
        "unit": unit if known else None,
        "standard_errors": {
            str(k): float(np.sqrt(mean_variance(design, k, every, weights) / n_problems))
            for k in ks
        },
    }


def words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows as lines of two tables for a person; none without rows."""
    if not rows:
        return []
    names = {
        "benchmark": [row["benchmark"] for row in rows],
        "design": [_design(row) for row in rows],
    }
    costs = {
        "draws each": [number(row["draws"] / row["problems"] / row["checkpoints"]) for row in rows],
        "draws": [number(row["draws"]) for row in rows],
        "tokens": [number(row["tokens"]) for row in rows],
        "hours": [_hours(row) for row in rows],
    }
    errors = {
        f"k={k}": [f"{100 * row['standard_errors'][k]:.2f}" for row in rows]
        for k in rows[0]["standard_errors"]
    }
    return [
        *_lines(f"expected draws of {_checkpoints(rows[0])}", names | costs),
        *_lines(
            "standard error of a checkpoint's mean pass@k by draws alone, points", names | errors
        ),
    ]


def _lines(title: str, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """A table of columns by name, those without a value left out; the first two are words."""
    shown = {name: cells for name, cells in columns.items() if set(cells) != {NONE}}
    rows = tuple(zip(*shown.values(), strict=True))
    return plain_table(Table(title=title, header=tuple(shown), rows=rows, n_words=2))


def _design(row: Mapping[str, Any]) -> str:
    """e.g. `64, 128, 256 until 8 are correct`, or `256`."""
    stages = ", ".join(map(str, row["stages"]))
    return stages if row["enough"] is None else f"{stages} until {row['enough']} are correct"


def _hours(row: Mapping[str, Any]) -> str:
    return NONE if row["seconds"] is None else f"{row['seconds'] / 3600:,.3g} ({row['unit']})"


def _checkpoints(row: Mapping[str, Any]) -> str:
    """How many, and which success rates are taken for them."""
    of, own, bases = row["checkpoints"], row["graded"], row["graded_bases"]
    named = f"{of} checkpoint" + ("" if of == 1 else "s")
    if own == of:
        return f"{named}, by success rates of their own graded draws"
    others = (
        f"of the base models' graded draws ({bases} models; after training they differ)"
        if bases
        else f"as of Beta{PRIOR}, since nothing is graded with these settings yet"
    )
    rates = f"success rates {others}"
    return f"{named}, by " + (
        f"their own graded draws where there are some ({own}), else by {rates}" if own else rates
    )
