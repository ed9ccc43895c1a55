"""Groups: what a training run of another program taught, and where each advantage would have put
its gradient on the same groups.

In: a summary that `fgrpo-bench groups --name` stored. Out: a GroupsPage, for templates/groups.html.
Next: fgrpo_bench.analysis.rollouts, which has every number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, urlencode

import polars as pl

from dashboards import charts
from dashboards.page import CSV, Chart
from fgrpo_bench.analysis.rollouts import RolloutSummary, load_groups
from fgrpo_bench.documents.colors import BASE, FOCAL, PLAIN, SUCCESS_RATES
from fgrpo_bench.documents.table import Table
from fgrpo_bench.report.tables import rollouts as tables

CALL = """\
from fgrpo_bench.analysis.rollouts import load_groups

result = load_groups({name!r}).{frame}()
"""
LINES = {
    "all_wrong": ("all wrong", FOCAL[1], "solid"),
    "all_right": ("all right", PLAIN[2], "solid"),
    "all_rewards_equal": ("all rewards equal", BASE, "dot"),
}
"""By column of `RolloutSummary.by_step`: name, colour and dash."""


@dataclass(frozen=True, kw_only=True)
class GroupsPage:
    """A stored summary as a page of its own."""

    name: str
    title: str
    lead: str
    charts: tuple[Chart, ...] = field(repr=False)
    tables: tuple[Table, ...] = field(repr=False)

    def data(self, chart: Chart) -> str:
        """The link to a chart's data as CSV."""
        return f"{href(self.name)}?{urlencode({CSV: chart.name})}"


@dataclass(frozen=True, kw_only=True)
class GroupsEntry:
    """A stored summary on the first page."""

    name: str
    href: str
    sentence: str = ""
    trouble: str = ""
    """Why its file cannot be read; empty where it can."""


def href(name: str) -> str:
    """The link to the page of a summary."""
    return f"/_groups/{quote(name, safe='')}"


def groups_entry(root: Path, name: str) -> GroupsEntry:
    """What the first page says of a summary; what cannot be read is said instead."""
    try:
        summary = load_groups(name, root=root)
    except (OSError, ValueError) as error:
        return GroupsEntry(name=name, href=href(name), trouble=str(error))
    total = summary.total
    return GroupsEntry(
        name=name,
        href=href(name),
        sentence=f"{tables.heading(summary)}; all wrong {total.all_wrong / total.n_groups:.1%}, "
        f"all right {total.all_right / total.n_groups:.1%}",
    )


def build(root: Path, name: str) -> GroupsPage:
    """The page; raises as `load_groups`."""
    summary = load_groups(name, root=root)
    steps = (tables.by_step(summary),) if len(summary.steps) > 1 else ()
    return GroupsPage(
        name=name,
        title=tables.heading(summary),
        lead=" ".join([*tables.summary_sentences(summary), *tables.against_dump(summary)]),
        charts=tuple(_charts(summary, name)),
        tables=(tables.gradients(summary), tables.outcomes(summary.total), *steps),
    )


def _charts(summary: RolloutSummary, name: str) -> Iterator[Chart]:
    rows = summary.gradients()
    methods = [charts.label(method.label) for method in summary.methods if method.total]
    names = ["groups of the dump", *methods]
    traces = []
    for place, bin_name in enumerate(summary.bins):
        bin_rows = rows.filter(pl.col("share").is_not_null(), success_rate=bin_name)
        shares = [summary.in_bins[place] / summary.total.n_groups, *bin_rows["share"].to_list()]
        label = charts.label(bin_name)
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "y": names,
                "x": charts.percent(shares),
                "marker": {"color": SUCCESS_RATES[place]},
            }
            | charts.hover(
                [
                    f"{name}: {share:.1%} on {label}"
                    for name, share in zip(names, shares, strict=True)
                ]
            )
        )
    yield Chart(
        name="gradient",
        title="Share of each method's gradient by success rate of the group",
        figure=charts.figure(
            traces, x="percent", y="", barmode="stack", yaxis=charts.CATEGORIES,
            xaxis={"range": [0, 100]}, legend={"traceorder": "normal"},
        ),
        data=rows,
        call=CALL.format(name=name, frame="gradients"),
        note="The gradient is the sum of |A|, the advantages' absolute values.",
        height=60 + 26 * len(names),
    )  # fmt: skip
    if len(summary.steps) > 1:
        steps = summary.by_step()
        yield Chart(
            name="steps",
            title="Groups by step",
            figure=charts.figure(
                [
                    {
                        "type": "scatter",
                        "mode": "lines",
                        "name": label,
                        "x": steps["step"].to_list(),
                        "y": charts.percent(steps[column].to_list()),
                        "line": {"color": color, "dash": dash, "width": 2},
                    }
                    for column, (label, color, dash) in LINES.items()
                ],
                x="step",
                y="groups (%)",
                yaxis={"range": [0, 100]},
            ),
            data=steps,
            call=CALL.format(name=name, frame="by_step"),
        )
