"""The simulation's three panels: total right mass and retained mass by step, both at the end
against N."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.documents.colors import ALGORITHMS, BASE
from fgrpo_bench.documents.style import PAGE, in_math
from fgrpo_bench.simulation.report import curves, ends

DASHES = ("-", "--", ":", "-.")
"""By rank of gamma."""
SHOWN = 6
"""Group sizes in the panels by step."""
PANELS = {"total": "total mass of right actions", "retained": "retained share of their first mass"}


def panels(masses: pl.DataFrame) -> Figure:
    """All three, of Adam's runs, or of the literal rule's where there are none else."""
    rule = "adam" if "adam" in masses["rule"] else "literal"
    own = masses.filter(rule=rule).sort("focal_gamma", "group_size", "step", maintain_order=True)
    figure = Figure(figsize=(PAGE, 5.2), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    _by_step([figure.add_subplot(grid[0, i]) for i in range(2)], curves(own))
    at_end = figure.add_subplot(grid[1, :])
    _at_end(at_end, ends(own))
    if rule == "adam":
        literal = ends(masses.filter(rule="literal")).sort("focal_gamma", "group_size")
        for _, cells in _by_gamma(literal)[:1]:
            at_end.plot(cells["group_size"], cells["retained_mean"], color=BASE, ls="none",
                        marker="x", ms=4, label="retained, literal rule")  # fmt: skip
    at_end.legend(loc="upper center", bbox_to_anchor=(0.5, -0.42), ncols=3)
    return figure


def _by_gamma(cells: pl.DataFrame) -> list[tuple[float, pl.DataFrame]]:
    groups = cells.partition_by("focal_gamma", as_dict=True, maintain_order=True)
    return [(float(gamma), own) for (gamma,), own in groups.items()]


def _by_step(axes: Sequence[Axes], cells: pl.DataFrame) -> None:
    sizes = cells["group_size"].unique().sort().to_list()
    chosen = [
        sizes[i] for i in np.unique(np.linspace(0, len(sizes) - 1, SHOWN).round().astype(int))
    ]
    shades = colormaps["viridis"](np.linspace(0.0, 0.88, len(chosen)))
    color = dict(zip(chosen, shades, strict=True))
    for rank, (gamma, own) in enumerate(_by_gamma(cells)):
        dash = DASHES[rank % len(DASHES)]
        shown = own.filter(pl.col("group_size").is_in(chosen))
        for (size,), line in shown.group_by("group_size", maintain_order=True):
            for panel, name in zip(axes, PANELS, strict=True):
                label = in_math(f"N={size:,}") if rank == 0 else None
                panel.plot(line["step"], line[f"{name}_mean"], color=color[size], ls=dash, lw=1.1,
                           label=label)  # fmt: skip
        if rank:
            axes[0].plot([], [], color=BASE, ls=dash, label=in_math(f"gamma={gamma:g}"))
    for panel, title in zip(axes, PANELS.values(), strict=True):
        panel.set_title(title)
        panel.set_xlabel("step")
        panel.set_ylim(0, 1.02)
        panel.margins(x=0)
    axes[0].legend(loc="upper left", bbox_to_anchor=(0, -0.24), ncols=3)


def _at_end(axes: Axes, cells: pl.DataFrame) -> None:
    for rank, (gamma, own) in enumerate(_by_gamma(cells)):
        color = ALGORITHMS[rank % len(ALGORITHMS)]
        for name, marker, dash in (("retained", "o", "-"), ("total", "s", ":")):
            axes.fill_between(own["group_size"], own[f"{name}_low"], own[f"{name}_high"],
                              color=color, alpha=0.13, lw=0)  # fmt: skip
            axes.plot(own["group_size"], own[f"{name}_mean"], color=color, ls=dash, marker=marker,
                      ms=3.5, label=in_math(f"{name}, gamma={gamma:g}"))  # fmt: skip
    sizes = cells["group_size"].unique().sort().to_list()
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=40, ha="right")
    axes.minorticks_off()
    axes.set_xlabel(in_math("group size N"))
    axes.set_title("after the last step: mean over seeds, band from the lowest to the highest")
    axes.set_ylim(0, 1.04)
