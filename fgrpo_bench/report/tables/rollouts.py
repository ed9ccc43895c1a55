"""The groups of a training run's rollouts, and where each method would have put its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields

from fgrpo_bench.analysis.rollouts import GradientOfMethod, GroupCounts, RolloutSummary
from fgrpo_bench.documents.table import (
    NONE,
    Block,
    Paragraph,
    Table,
    conjoined,
    grouped_number,
    percent,
)

ROWS = 20
"""Of the table of steps; more steps are put together in a row."""


def heading(summary: RolloutSummary) -> str:
    """What was read, in a line."""
    known = [*summary.group_sizes]
    sizes = conjoined(known) if len(known) < 4 else f"{known[0]} to {known[-1]}"
    return f"{summary.source}: {summary.total.n_groups:,} groups of {sizes} rollouts"


def blocks(summary: RolloutSummary, figures: Sequence[Block] = ()) -> list[Block]:
    """All that is shown, figures behind the table that they draw."""
    return [
        Paragraph(text=" ".join(summary_sentences(summary))),
        outcomes(summary.total),
        gradients(summary),
        *(Paragraph(text=sentence) for sentence in against_dump(summary)),
        *figures,
        *([by_step(summary)] if len(summary.steps) > 1 else []),
    ]


def summary_sentences(summary: RolloutSummary) -> Iterator[str]:
    """What is to be known before the tables."""
    rate = summary.total.n_correct / summary.total.n_rollouts
    yield f"{rate:.1%} of {summary.total.n_rollouts:,} rollouts are right."
    yield from summary.remarks


def outcomes(total: GroupCounts) -> Table:
    """How many groups are all wrong, mixed and all right."""
    mixed = total.n_groups - total.all_wrong - total.all_right
    rows = {
        "all wrong": total.all_wrong,
        "  one response, repeated": total.wrong_repeated,
        "  different responses": total.wrong_different,
        "some right": mixed,
        "all right": total.all_right,
        "  one response, repeated ": total.right_repeated,
        "  different responses ": total.right_different,
        "all rewards equal": total.without_gradient,
    }
    return Table(
        title="Groups",
        header=("", "groups", "percent"),
        rows=tuple((name, f"{n:,}", percent(n / total.n_groups)) for name, n in rows.items()),
        notes=(
            "Repeated: every response of the group is the same text. Where all rewards are equal, "
            "GRPO has no gradient.",
        ),
    )


def gradients(summary: RolloutSummary) -> Table:
    """Shares of the sum of |A| by success rate of the group, a row a method."""
    n_groups = summary.total.n_groups
    groups = (
        "groups of the dump",
        *(percent(n / n_groups) for n in summary.in_bins),
        "100.0",
        NONE,
    )
    return Table(
        title="Share of each method's gradient, the sum of |A|, by success rate of the group, in "
        "percent",
        header=("method", *summary.bins, "groups", "mean |A|"),
        rows=(groups, *(_gradient_row(method, n_groups) for method in summary.methods)),
        notes=(
            "Groups: with an advantage that is not 0, in percent of all. Mean |A|: over the "
            "rollouts that the method trains on; a constant factor of it is taken out by the "
            "learning rate. Advantages alone: lengths, clipping and what the policy does next are "
            "not in it.",
        ),
    )


def _gradient_row(method: GradientOfMethod, n_groups: int) -> tuple[str, ...]:
    shares = method.shares
    mean = method.total / method.n_rollouts if method.n_rollouts else None
    return (
        method.label,
        *([NONE] * len(method.by_bin) if shares is None else map(percent, shares)),
        percent(method.with_gradient / n_groups),
        grouped_number(mean, digits=3),
    )


def against_dump(summary: RolloutSummary) -> Iterator[str]:
    """How near the dump's own advantages are to those of a method, where it has some."""
    if (nearest := summary.nearest) is not None:
        yield (
            f"The advantages in the dump are nearest to those of {conjoined(nearest.labels)}: "
            f"largest difference {nearest.largest_difference:.2g}, of advantages up to "
            f"{nearest.largest_advantage:.2g}."
        )


def by_step(summary: RolloutSummary) -> Table:
    """Uniform groups over training, at most ROWS rows."""
    length = -(-len(summary.steps) // ROWS)
    parts = [summary.steps[i : i + length] for i in range(0, len(summary.steps), length)]
    return Table(
        title="By step, in percent of the groups"
        if length == 1
        else f"By {length} steps, in percent of the groups",
        header=("step", "groups", "success rate", "all wrong", "all right", "all rewards equal"),
        rows=tuple(map(_step_row, parts)),
    )


def _step_row(part: Sequence[GroupCounts]) -> tuple[str, ...]:
    total = summed(part)
    ends = dict.fromkeys((part[0].step, part[-1].step))
    shares = (total.all_wrong, total.all_right, total.without_gradient)
    return (
        " to ".join(map(str, ends)),
        f"{total.n_groups:,}",
        percent(total.n_correct / total.n_rollouts),
        *(percent(n / total.n_groups) for n in shares),
    )


def summed(parts: Sequence[GroupCounts]) -> GroupCounts:
    """The counts of several steps, added."""
    names = [field.name for field in fields(GroupCounts) if field.name not in ("step", "further")]
    sums = {name: sum(getattr(part, name) for part in parts) for name in names}
    return GroupCounts(step=None, **sums)
