"""The figures: pass@k curves, pass@k along the axis that the sweep varies, and training curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fgrpo_bench.documents.colors import ALGORITHMS, BASE, MARKERS
from fgrpo_bench.documents.style import WIDTH, label_ends
from fgrpo_bench.report.bars import bars
from fgrpo_bench.report.covered import has_fates
from fgrpo_bench.report.looks import Look, looks
from fgrpo_bench.report.plane import plane
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.specs import method_name
from fgrpo_bench.stats.intervals import Estimate

TRAINING = {
    "success_rate": "success rate: share of rollouts that are correct",
    "active_fraction": "share of groups that are active",
    "entropy": "entropy, nats a token",
    "focal_weight": "focal weight, mean over active groups",
}
AXES = {"group_size": "group size N", "focal_gamma": "focal exponent gamma"}
SMOOTHED = 30
"""Training curves are averaged over 1 / SMOOTHED of their steps."""
DRAWN = 240
"""Points of a training curve at most: more are no finer on paper and make large files."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure that the results allow, drawn on demand."""

    name: str
    """File name without suffix."""
    caption: str
    draw: Callable[[], Figure]


def pictures(summary: Summary) -> Iterator[Picture]:
    """Every figure that the results allow, of the averages where there are some: a figure a
    benchmark too would be dozens."""
    for column in summary.headline:
        yield from _of_column(summary, column)
    for algorithm in _algorithms(summary.cells):
        if any(summary.metrics[cell] for cell in summary.cells if cell.algorithm == algorithm):
            yield Picture(
                name=f"training-{algorithm}",
                caption=f"Training of {algorithm.upper()}: mean over seeds, band from the lowest "
                f"to the highest seed{_smoothing(_window(summary.train['steps']))}.",
                draw=partial(training, summary, algorithm),
            )


def _of_column(summary: Summary, column: str) -> Iterator[Picture]:
    ks, axis, name = summary.ks, varied_axis(summary.cells), column.replace(" ", "-")
    ends = " and ".join(f"pass@{k}" for k in dict.fromkeys((ks[0], ks[-1])))
    if any(summary.estimates(column, cell)[-1].n_seeds for cell in summary.cells):
        if len(ks) > 1:
            yield Picture(
                name=f"curves-{name}",
                caption=f"pass@k on {column}: mean over seeds and problems, 95% intervals.",
                draw=partial(curves, summary, column),
            )
        yield Picture(
            name=f"by-{axis.replace('_', '-')}-{name}",
            caption=f"{ends} on {column} against {AXES[axis]}, 95% intervals; dashed: the base "
            "models.",
            draw=partial(by_axis, summary, column, axis),
        )
        if len(ks) > 1:
            yield Picture(
                name=f"plane-{name}",
                caption=f"pass@{ks[0]} against pass@{ks[-1]} on {column}, 95% intervals; the line "
                "joins group sizes without focal weight.",
                draw=partial(plane, summary, column),
            )
    if has_fates(summary, column):
        yield Picture(
            name=f"coverage-{name}",
            caption=f"Problems of {column} within reach at k = {ks[-1]}: retained, lost and "
            "gained against the base model; expected numbers, mean over seeds.",
            draw=partial(bars, summary, column),
        )


def curves(summary: Summary, column: str) -> Figure:
    """pass@k against k, a panel an algorithm; labels at the lines where there is one panel."""
    algorithms = _algorithms(summary.cells)
    figure = Figure(figsize=(WIDTH, 4.6 if len(algorithms) == 1 else 3.6), layout="constrained")
    panels = figure.subplots(1, len(algorithms), sharey=True, squeeze=False)[0]
    look = looks(summary.cells)
    for axes, algorithm in zip(panels, algorithms, strict=True):
        labels = []
        for cell in _with_base(summary.cells, algorithm):
            estimates = summary.estimates(column, cell)
            mean, low, high = _columns(estimates)
            if np.isnan(mean).all():
                continue
            style = look[cell]
            axes.fill_between(summary.ks, low, high, color=style.color, alpha=0.11, lw=0)
            axes.plot(
                summary.ks,
                mean,
                color=style.color,
                ls=style.linestyle,
                marker=style.marker,
                ms=4,
                clip_on=False,
                label=_short(cell),
            )
            labels.append((float(mean[~np.isnan(mean)][-1]), cell.label, style.color))
        axes.set_xscale("log", base=2)
        every = 1 if len(algorithms) == 1 or len(summary.ks) < 7 else 2
        names = [str(k) if i % every == 0 else "" for i, k in enumerate(summary.ks)]
        axes.set_xticks(summary.ks, names)
        axes.set_xlim(summary.ks[0], summary.ks[-1])
        axes.minorticks_off()
        axes.set_xlabel("k")
        axes.set_ylim(0, 100)
        if len(algorithms) == 1:
            label_ends(axes, labels, gap=0.052)
        else:
            axes.set_title(algorithm.upper())
            axes.legend(loc="lower right", handlelength=1.6)
    panels[0].set_ylabel(f"pass@k on {column} (%)")
    return figure


def varied_axis(cells: Sequence[Cell]) -> str:
    """What the second figure has along x: N where the sweep has several, else gamma."""
    sizes = {cell.group_size for cell in cells if not cell.is_base}
    return "group_size" if len(sizes) > 1 else "focal_gamma"


def by_axis(summary: Summary, column: str, axis: str) -> Figure:
    """pass@k at the smallest and at the largest k along one axis of the grid."""
    ends = sorted({0, len(summary.ks) - 1})
    figure = Figure(figsize=(WIDTH, 3.7), layout="constrained")
    panels = figure.subplots(1, len(ends), squeeze=False)[0]
    trained = [cell for cell in summary.cells if not cell.is_base]
    lines: dict[tuple[str | None, float | int | None], list[Cell]] = {}
    for cell in trained:
        other = cell.focal_gamma if axis == "group_size" else cell.group_size
        lines.setdefault((cell.algorithm, other), []).append(cell)
    ticks = sorted({_at(cell, axis) for cell in trained})
    centre = 0 if axis == "group_size" else (len(lines) - 1) / 2  # the first line is gamma = 0
    for axes, end in zip(panels, ends, strict=True):
        for rank, (key, cells) in enumerate(lines.items()):
            cells = sorted(cells, key=lambda cell: _at(cell, axis))
            style = _line_look(summary.cells, key, axis, rank)
            x = np.array([ticks.index(_at(cell, axis)) for cell in cells])
            offset = min(0.12, 0.6 / len(lines)) * (rank - centre)
            mean, low, high = _columns([summary.estimates(column, cell)[end] for cell in cells])
            axes.errorbar(
                x + offset,
                mean,
                yerr=np.maximum([mean - low, high - mean], 0),  # an end may pass a skewed mean
                color=style.color,
                marker=style.marker,
                ls=style.linestyle,
                capsize=2.5,
                elinewidth=1.2,
                ms=5.5,
                label=_line_name(key, axis),
            )
        for cell in summary.cells:
            if cell.is_base:
                _base_line(axes, summary.estimates(column, cell)[end])
        axes.set_xticks(range(len(ticks)), [f"{tick:g}" for tick in ticks])
        axes.set_xlim(-0.5, len(ticks) - 0.5)
        axes.set_xlabel(AXES[axis])
        axes.set_title(f"pass@{summary.ks[end]} on {column} (%)")
        axes.margins(y=0.12)
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)))
    return figure


def training(summary: Summary, algorithm: str) -> Figure:
    """Reward, active groups, entropy and focal weight by step, a line a cell."""
    figure = Figure(figsize=(WIDTH, 5.6), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    look = looks(summary.cells)
    cells = [cell for cell in summary.cells if cell.algorithm == algorithm]
    window = _window(summary.train["steps"])
    for axes, (column, title) in zip(panels.flat, TRAINING.items(), strict=True):
        for cell in cells:
            runs = [frame for frame in summary.metrics[cell] if len(frame)]
            if not runs:
                continue
            steps = min((frame["step"].to_numpy() for frame in runs), key=len)
            values = np.stack(
                [
                    _smooth(frame[column].to_numpy().astype(float), window)
                    for frame in (run.head(len(steps)) for run in runs)
                ]
            )
            style = look[cell]
            shown = np.linspace(0, len(steps) - 1, min(len(steps), DRAWN)).round().astype(int)
            steps, values = steps[shown], values[:, shown]
            axes.fill_between(
                steps, values.min(axis=0), values.max(axis=0), color=style.color, alpha=0.11, lw=0
            )
            axes.plot(steps, values.mean(axis=0), color=style.color, lw=1.5, label=cell.label)
        axes.set_title(title)
    for axes in panels[1]:
        axes.set_xlabel("step")
    figure.suptitle(
        f"{algorithm.upper()}: mean over seeds, band from the lowest to the highest seed"
        f"{_smoothing(window)}",
        fontsize=9.5,
    )
    handles, names = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(4, len(names)))
    return figure


def _base_line(axes: Axes, made: Estimate) -> None:
    if made.mean is None:
        return
    axes.axhline(100 * made.mean, color=BASE, ls="--", lw=1.4, label="Base")
    if made.low is not None and made.high is not None:
        axes.axhspan(100 * made.low, 100 * made.high, color=BASE, alpha=0.1, lw=0)


def _line_look(
    cells: Sequence[Cell], key: tuple[str | None, float | int | None], axis: str, rank: int
) -> Look:
    """Along N a line is a gamma (colour) of an algorithm (marker); along gamma the reverse."""
    algorithms = _algorithms(cells)
    number = algorithms.index(str(key[0]))
    marker = MARKERS[number % len(MARKERS)]
    if axis == "focal_gamma":
        return Look(color=ALGORITHMS[number % len(ALGORITHMS)], marker=marker, linestyle="-")
    if not key[1]:
        return Look(color="#16598f", marker=marker, linestyle="-")
    made = looks(cells)
    color = next(made[cell].color for cell in cells if cell.focal_gamma == key[1])
    return Look(color=color, marker=marker, linestyle="-")


def _line_name(key: tuple[str | None, float | int | None], axis: str) -> str:
    algorithm, other = str(key[0]), key[1] or 0
    if axis == "group_size":
        gamma = f" gamma={other:g}" if other else ""
        return f"{method_name(algorithm, other)}{gamma}"
    return f"{algorithm.upper()} N={other}"


def _at(cell: Cell, axis: str) -> float:
    return float((cell.group_size if axis == "group_size" else cell.focal_gamma) or 0)


def _short(cell: Cell) -> str:
    if cell.is_base:
        return cell.method
    return f"N={cell.group_size} gamma={cell.focal_gamma:g}"


def _algorithms(cells: Sequence[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.algorithm for cell in cells if cell.algorithm is not None))


def _with_base(cells: Sequence[Cell], algorithm: str) -> list[Cell]:
    return [cell for cell in cells if cell.is_base or cell.algorithm == algorithm]


def _columns(estimates: Sequence[Estimate]) -> tuple[NDArray[np.float64], ...]:
    """Mean, low and high in percent, float64 [len(estimates)] each, nan where there is none."""
    rows = [(one.mean, one.low, one.high) for one in estimates]
    columns = zip(*rows, strict=True)
    return tuple(np.multiply(100, np.array(column, dtype=np.float64)) for column in columns)


def _window(steps: int) -> int:
    return max(1, steps // SMOOTHED)


def _smoothing(window: int) -> str:
    return f", moving average over {window} steps" if window > 1 else ""


def _smooth(values: NDArray[np.float64], window: int) -> NDArray[np.float64]:
    """Centred moving average that leaves nan out; shorter windows at the ends."""
    known = ~np.isnan(values)
    kernel = np.ones(window)
    totals = np.convolve(np.where(known, values, 0.0), kernel, "same")
    counts = np.convolve(known.astype(float), kernel, "same")
    means: NDArray[np.float64] = np.full(len(values), np.nan)
    np.divide(totals, counts, out=means, where=counts > 0.5)
    return means
