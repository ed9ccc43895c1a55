"""Where each method would have put its gradient on groups, and uniform groups over training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from fgrpo_bench.analysis.rollouts import RolloutSummary
from fgrpo_bench.documents.colors import BASE, FOCAL, PLAIN, SUCCESS_RATES
from fgrpo_bench.documents.style import PAGE, SMALL, in_math
from fgrpo_bench.report.figures import Picture

DARK = (True, True, False, False, False, True, True)
"""Whether a number on SUCCESS_RATES is white."""
NARROWEST = 0.045
"""Share of a bar that holds a number."""


def pictures(summary: RolloutSummary) -> Iterator[Picture]:
    """Those that a dump allows."""
    yield Picture(
        name="gradient",
        caption="Share of each method's gradient (the sum of |A|) by success rate of the group, "
        "in percent; above: the groups themselves.",
        draw=partial(gradient, summary),
    )
    if len(summary.steps) > 1:
        yield Picture(
            name="steps",
            caption="Groups by step: all wrong, all right, and all rewards equal.",
            draw=partial(steps, summary),
        )


def gradient(summary: RolloutSummary, width: float = PAGE) -> Figure:
    """A bar a method, cut by the bins of the success rate."""
    rows = {"groups of the dump": tuple(n / summary.total.n_groups for n in summary.in_bins)}
    rows |= {method.label: method.shares for method in summary.methods if method.shares is not None}
    figure = Figure(figsize=(width, 0.9 + 0.2 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places, shares = [float(i) for i in range(len(rows))], np.array(list(rows.values()))
    left = np.zeros(len(rows))
    for i, name in enumerate(summary.bins):
        axes.barh(places, 100 * shares[:, i], left=100 * left, color=SUCCESS_RATES[i], height=0.72,
                  label=name)  # fmt: skip
        for place, start, share in zip(places, left, shares[:, i], strict=True):
            if share >= NARROWEST * PAGE / width:
                axes.text(
                    100 * (start + share / 2), place, f"{100 * share:.0f}", ha="center",
                    va="center", color="white" if DARK[i] else "black", fontsize=SMALL,
                )  # fmt: skip
        left = left + shares[:, i]
    axes.set_yticks(places, [in_math(label) for label in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, 100)
    axes.grid(visible=False)
    axes.set_xlabel("percent")
    figure.legend(loc="outside upper center", ncols=len(summary.bins) if width == PAGE else 4)
    return figure


def steps(summary: RolloutSummary, width: float = PAGE) -> Figure:
    """Shares of uniform groups, a point a step."""
    figure = Figure(figsize=(width, 2.2), layout="constrained")
    axes = figure.subplots()
    at = [float(step.step or 0) for step in summary.steps]
    lines = {
        "all wrong": ("all_wrong", FOCAL[1], "-"),
        "all right": ("all_right", PLAIN[2], "-"),
        "all rewards equal": ("without_gradient", BASE, ":"),
    }
    for label, (name, color, style) in lines.items():
        values = [100 * getattr(step, name) / step.n_groups for step in summary.steps]
        axes.plot(at, values, color=color, ls=style, label=label)
    axes.set_ylim(0, 100)
    axes.set_xlabel("step")
    axes.set_ylabel("groups (%)")
    axes.legend()
    return figure
