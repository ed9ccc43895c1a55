"""The simulation's three panels: total right mass and retained mass by step, both at the end
against N."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fgrpo_bench.documents.colors import ALGORITHMS, BASE
from fgrpo_bench.documents.style import WIDTH
from fgrpo_bench.simulation.results import Cell, Simulation
from fgrpo_bench.simulation.settings import Rule

DASHES = ("-", "--", ":", "-.")
"""By rank of gamma."""
SHOWN = 6
"""Group sizes in the panels by step."""
LEFT, RIGHT = "total mass of right actions", "retained share of their first mass"


def panels(simulation: Simulation) -> Figure:
    """All three, of Adam's runs, or of the literal rule's where there are none else."""
    rule: Rule = "adam" if simulation.gammas("adam") else "literal"
    lines = {gamma: simulation.of(rule, gamma) for gamma in simulation.gammas(rule)}
    figure = Figure(figsize=(WIDTH, 6.6), layout="constrained")
    grid = figure.add_gridspec(2, 2)
    by_step = [figure.add_subplot(grid[0, i]) for i in range(2)]
    _by_step(by_step, lines)
    at_end = figure.add_subplot(grid[1, :])
    _at_end(at_end, lines)
    if rule == "adam":
        _literally(at_end, simulation)
    handles, names = at_end.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(3, len(names)))
    return figure


def _by_step(axes: Sequence[Axes], lines: dict[float, list[Cell]]) -> None:
    sizes = sorted({cell.group_size for cells in lines.values() for cell in cells})
    chosen = [
        sizes[i] for i in np.unique(np.linspace(0, len(sizes) - 1, SHOWN).round().astype(int))
    ]
    shades = colormaps["viridis"](np.linspace(0.0, 0.88, len(chosen)))
    color = dict(zip(chosen, shades, strict=True))
    for rank, (gamma, cells) in enumerate(lines.items()):
        for cell in cells:
            if cell.group_size not in color:
                continue
            for panel, values in zip(axes, (cell.total, cell.retained), strict=True):
                label = f"N={cell.group_size:,}" if rank == 0 else None
                panel.plot(cell.steps, values.mean(axis=0), color=color[cell.group_size],
                           ls=DASHES[rank % len(DASHES)], lw=1.5, label=label)  # fmt: skip
        if rank:
            axes[0].plot(
                [], [], color=BASE, ls=DASHES[rank % len(DASHES)], label=f"gamma={gamma:g}"
            )
    for panel, title in zip(axes, (LEFT, RIGHT), strict=True):
        panel.set_title(title)
        panel.set_xlabel("step")
        panel.set_ylim(0, 1.02)
        panel.margins(x=0)
    axes[0].legend(loc="lower right", ncols=2, fontsize=8)


def _at_end(axes: Axes, lines: dict[float, list[Cell]]) -> None:
    for rank, (gamma, cells) in enumerate(lines.items()):
        sizes = [cell.group_size for cell in cells]
        color = ALGORITHMS[rank % len(ALGORITHMS)]
        for name, marker, dash, ends in (
            ("retained", "o", "-", [cell.retained[:, -1] for cell in cells]),
            ("total", "s", ":", [cell.total[:, -1] for cell in cells]),
        ):
            axes.fill_between(sizes, [e.min() for e in ends], [e.max() for e in ends], color=color,
                              alpha=0.13, lw=0)  # fmt: skip
            axes.plot(sizes, [e.mean() for e in ends], color=color, ls=dash, marker=marker, ms=4.5,
                      label=f"{name}, gamma={gamma:g}")  # fmt: skip
    sizes = sorted({cell.group_size for cells in lines.values() for cell in cells})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=40, ha="right")
    axes.minorticks_off()
    axes.set_xlabel("group size N")
    axes.set_title("after the last step: mean over seeds, band from the lowest to the highest")
    axes.set_ylim(0, 1.04)


def _literally(axes: Axes, simulation: Simulation) -> None:
    for gamma in simulation.gammas("literal")[:1]:
        cells = simulation.of("literal", gamma)
        kept = [cell.retained[:, -1].mean() for cell in cells]
        axes.plot([cell.group_size for cell in cells], kept, color=BASE, ls="none", marker="x",
                  ms=5, label="retained, literal rule")  # fmt: skip
