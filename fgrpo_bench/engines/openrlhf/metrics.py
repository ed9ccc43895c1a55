"""The metrics file of a run: one JSON line a step, written while the run goes on.

Field names that fgrpo_bench.stages.tables.METRICS has mean the same here. Pure, apart from reading
and writing the file: imports neither Ray nor OpenRLHF. A row (shortened): {"step": 2, "seconds":
1.3, "reward": 0.31, "active_fraction": 0.75, "focal_weight": 0.61, ...}
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.whole import write_text
from fgrpo_bench.objectives.focal import focal_weight
from fgrpo_bench.stats.groups import group_metrics, numbered

PHASES = {
    "generation": "seconds_generation",
    "make_experience": "seconds_experience",
    "ppo_train": "seconds_training",
    "broadcast": "seconds_sync",
}
"""OpenRLHF's names of a step's phases (`timing/...`), and ours."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """A rollout as it was sampled and judged, before any filter or penalty."""

    correct: bool
    unscored: bool
    tokens: int
    """Sampled tokens, the end token included."""
    truncated: bool
    """Whether it reached the length limit."""
    response: int
    """Hash of its tokens: equal for equal responses."""
    solution: str | None
    """As fgrpo_bench.graders.solution_key gives it."""


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Running totals, carried from row to row."""

    rollouts: int
    tokens: int


def sampled_metrics(
    sampled: Sequence[Sampled],
    *,
    group_size: int,
    focal_gamma: float,
    taught_rates: Sequence[float],
) -> dict[str, Any]:
    """Metrics of everything sampled for a step.

    taught_rates: success rates of the groups that have an advantage other than 0, which what
    dynamic filtering drops has not. focal_weight is the mean over these, None where there is none.
    """
    groups, active = len(sampled) // group_size, taught_rates
    in_groups = groups, group_size
    responses = np.array([rollout.response for rollout in sampled]).reshape(in_groups)
    return {
        "success_rate": fmean(rollout.correct for rollout in sampled),
        "active_fraction": len(active) / groups,
        **group_metrics(
            np.array([rollout.correct for rollout in sampled]).reshape(in_groups),
            (responses == responses[:, :1]).all(1),
            numbered(rollout.solution for rollout in sampled).reshape(in_groups),
        ),
        "focal_weight": fmean(focal_weight(r, focal_gamma) for r in active) if active else None,
        "response_tokens": fmean(rollout.tokens for rollout in sampled),
        "truncated_fraction": fmean(rollout.truncated for rollout in sampled),
        "unscored_fraction": fmean(rollout.unscored for rollout in sampled),
        "groups": groups,
    }


def step_row(
    *,
    step: int,
    status: Mapping[str, Any],
    sampled: Sequence[Sampled],
    taught_rates: Sequence[float],
    group_size: int,
    focal_gamma: float,
    gpus: int,
    before: Totals,
) -> dict[str, Any]:
    """The row of a step.

    status: what OpenRLHF logs of a step, with what our policy actor adds. sampled, taught_rates: as
    in sampled_metrics. Values that a step does
    not have (it trained nothing, or nothing was measured) are None.
    """
    tokens = sum(rollout.tokens for rollout in sampled)
    # A phase that OpenRLHF did not time in this step is None, which is not 0.
    seconds = {ours: status.get(f"timing/{theirs}") for theirs, ours in PHASES.items()}
    row = {
        "step": step,
        "time_ms": int(time.time() * 1000),
        "seconds": sum(value for value in seconds.values() if value is not None),
        "reward": status.get("rollout/reward_mean"),
        **sampled_metrics(
            sampled, group_size=group_size, focal_gamma=focal_gamma, taught_rates=taught_rates
        ),
        "entropy": status.get("entropy"),
        "clip_fraction": status.get("clip_fraction"),
        "loss": status.get("policy_loss"),
        "grad_norm": status.get("grad_norm"),
        "learning_rate": (status.get("learning_rates") or [None])[-1],
        "learning_rates": status.get("learning_rates"),
        "rollout_kl": status.get("rollout_kl"),
        "reference_kl": status.get("kl"),
        "optimizer_steps": status.get("optimizer_steps"),
        "rollouts": before.rollouts + len(sampled),
        "step_tokens": tokens,
        "tokens": before.tokens + tokens,
        **seconds,
        "seconds_evaluation": None,
        "gpus": gpus,
        "eval_pass_at_1": None,
        "eval_pass_at_n": None,
    }
    return {name: _finite(value) for name, value in row.items()}


def evaluation_metrics(
    correct: Sequence[bool], *, n_samples: int, seconds: float
) -> dict[str, float]:
    """What a row says of an evaluation; correct [problems * n_samples], problem by problem."""
    problems = [correct[i : i + n_samples] for i in range(0, len(correct), n_samples)]
    return {
        "eval_pass_at_1": fmean(fmean(draws) for draws in problems),
        "eval_pass_at_n": fmean(any(draws) for draws in problems),
        "seconds_evaluation": seconds,
    }


def _finite(value: Any) -> Any:
    """None for a number that JSON cannot hold (nan, infinity)."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rewind(path: Path, step: int) -> Totals:
    """Drop the rows after `step`, which a resumed run makes again; the totals up to it."""
    rows = [row for row in read_lines(path) if row["step"] <= step]
    if path.exists():
        write_text(path, "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows))
    last = rows[-1] if rows else {"rollouts": 0, "tokens": 0}
    return Totals(rollouts=last["rollouts"], tokens=last["tokens"])
