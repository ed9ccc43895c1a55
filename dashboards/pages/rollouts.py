"""Rollouts: what a training step learned from one prompt, the whole group side by side; opens on
the last checkpoint of the first run and on the group with the largest share of the gradient.

In: rollouts.parquet of the runs, which the built-in engine stores with each checkpoint. Out: a
Page. Next: fgrpo_bench.stages.tables.ROLLOUTS has the columns, embedded.reinforce writes them.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from dashboards.page import Form, Given, Page, choices
from dashboards.pages.draws import checkpoint_label
from dashboards.text import shortened
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.documents.table import percent
from fgrpo_bench.stages.tables import ROLLOUTS, read_table

NEXT = ("step", "group")
"""Parameters that mean nothing for another run."""


def build(loaded: Results, given: Given) -> Page:
    """The page; parameters: run, step, group."""
    results = loaded.require_sweep()
    form = Form(results.address, "rollouts", given)
    runs = {point.point_id: point for point in results.points if point.train.rollouts.exists()}
    if not runs:
        return _nothing(form)
    run = form.named("run", runs, next(iter(runs)))
    table = read_table(runs[run].train.rollouts, ROLLOUTS)
    steps = sorted(set(table["step"].to_list()))
    if not steps:
        return _nothing(form)
    step = form.named("step", steps, str(steps[-1]))
    groups = _groups(table.filter(step=int(step)))
    largest = max(groups, key=lambda number: (groups[number]["share"] or 0.0, -int(number)))
    group = form.named("group", groups, largest)
    shown = groups[group]
    return Page(
        address=form.address(),
        title=f"Step {step} of {checkpoint_label(runs[run])}",
        lead=_lead(shown),
        controls=choices(
            form.control(
                "run", "Run", {name: checkpoint_label(runs[name]) for name in runs},
                long=True, forgotten=NEXT,
            ),
            form.control("step", "Step", long=len(steps) > 12, forgotten=["group"]),
            form.control(
                "group", "Prompt", {name: groups[name]["label"] for name in groups}, long=True
            ),
        ),
        context=shown,
    )  # fmt: skip


def _nothing(form: Form) -> Page:
    return Page(
        address=form.address(),
        title="No rollouts are stored",
        lead="The built-in engine stores some groups with each checkpoint, as many as "
        "experiment.train.stored_groups says; no run of this sweep has left any yet.",
        context={"rollouts": []},
    )


def _groups(step_rows: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """What the page shows of every stored group of a step, by its number: prompt, label, share of
    the gradient (None where the step has none), rollouts, the largest advantages first."""
    groups = {}
    for (number,), rows in step_rows.group_by("group", maintain_order=True):
        shares = rows["gradient_share"]
        share = None if shares.is_null().any() else float(shares.sum())
        n_correct = rows.filter(outcome="correct").height
        prompt = rows["prompt"][0]
        rollouts = rows.sort(["advantage", "rollout"], descending=[True, False]).to_dicts()
        most = max((rollout["gradient_share"] or 0.0 for rollout in rollouts), default=0.0)
        for rollout in rollouts:
            rollout["bar"] = (rollout["gradient_share"] or 0.0) / most if most else 0.0
            rollout["numbers"] = _numbers(rollout)
        groups[str(number)] = {
            "prompt": prompt,
            "label": f"{shortened(prompt, 60)} ({n_correct} of {len(rows)} correct)",
            "share": share,
            "n_correct": n_correct,
            "focal_weight": rows["focal_weight"][0],
            "rollouts": rollouts,
        }
    return groups


def _numbers(rollout: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value."""
    share = rollout["gradient_share"]
    return [
        ("reward", f"{rollout['reward']:g}"),
        ("advantage", f"{rollout['advantage']:+.3f}"),
        ("focal weight", f"{rollout['focal_weight']:.3f}"),
        ("share of the gradient", "none" if share is None else f"{percent(share)}%"),
        ("log-probability, nats", f"{rollout['log_prob']:.2f}"),
        ("tokens", str(rollout["n_tokens"])),
    ]


def _lead(group: dict[str, Any]) -> str:
    share = group["share"]
    taken = "the step has no gradient" if share is None else (
        f"the group has {percent(share)}% of the step's gradient"
    )  # fmt: skip
    return (
        f"{group['n_correct']} of {len(group['rollouts'])} rollouts are correct, so the focal "
        f"weight is {group['focal_weight']:.3f}; {taken}."
    )
