"""Which figures a report has; each is drawn by a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.style import COLUMN, PAGE
from fgrpo_bench.documents.table import in_column
from fgrpo_bench.report.cell_styles import algorithms
from fgrpo_bench.report.figures.curves import (
    ABREAST,
    AXES,
    against_base,
    bars,
    by_axis,
    caption,
    curves,
    has_metrics,
    losses,
    training,
    varied_axis,
)
from fgrpo_bench.report.figures.paths import paths, shown_pairs
from fgrpo_bench.report.figures.plane import forest, in_question, plane, plane_words
from fgrpo_bench.report.footnotes import redeclared


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure that the results allow, drawn on demand."""

    name: str
    """File name without suffix."""
    caption: str
    draw: Callable[..., Figure]
    """Takes `width` in inches."""
    fits_column: bool = True
    """Whether it can be read in one column of two."""

    @property
    def versions(self) -> Mapping[str, Callable[[], Figure]]:
        """By file name: as wide as a page, and where it fits as wide as a column."""
        wide = {self.name: partial(self.draw, width=PAGE)}
        if not self.fits_column:
            return wide
        return wide | {in_column(self.name): partial(self.draw, width=COLUMN)}


def pictures(analysis: Analysis) -> Iterator[Picture]:
    """Every figure that the results allow, of the averages where there are some: a figure a
    benchmark too would be dozens."""
    for column in analysis.headline:
        yield from _of_column(analysis, column)
    for algorithm in algorithms(analysis.by_cell.values()):
        if has_metrics(analysis, algorithm):
            yield Picture(
                name=f"training-{algorithm}",
                caption=f"Training of {caption(analysis, algorithm)}.",
                draw=partial(training, analysis, algorithm),
                fits_column=False,
            )


def _of_column(analysis: Analysis, column: str) -> Iterator[Picture]:
    cells, ks = list(analysis.by_cell.values()), analysis.ks
    axis, name = varied_axis(cells), column.replace(" ", "-")
    ends = " and ".join(f"pass@{k}" for k in analysis.ends)
    has_results = any(analysis.estimate(column, cell, ks[-1]).n_seeds for cell in cells)
    if has_results and algorithms(cells):  # these are drawn by algorithm, which a sweep alone tells
        if len(ks) > 1:
            yield Picture(
                name=f"curves-{name}",
                caption=f"pass@k on {column}: mean over seeds and problems, 95% intervals.",
                draw=partial(curves, analysis, column),
                fits_column=len(algorithms(cells)) <= ABREAST,
            )
        yield Picture(
            name=f"by-{axis.replace('_', '-')}-{name}",
            caption=f"{ends} on {column} against {AXES[axis]}, 95% intervals; dashed: the base "
            "models.",
            draw=partial(by_axis, analysis, column, axis),
        )
        if len(ks) > 1:
            yield Picture(
                name=f"plane-{name}",
                caption=f"pass@{ks[0]} against pass@{ks[-1]} on {column}, 95% intervals; "
                f"{plane_words(analysis, column)}.",
                draw=partial(plane, analysis, column),
            )
    if shown_pairs(analysis, column):
        yield Picture(
            name=f"paths-{name}",
            caption=f"Paths of training in the plane of pass@1 and pass@{ks[-1]} on {column}, mean "
            "over seeds: a point an evaluated checkpoint with its step, from the base models on; "
            "shaded: the difference at equal pass@1 over the range that all seeds reach; in "
            "numbers: at the highest that both reach, with its 95% interval.",
            draw=partial(paths, analysis, column),
        )
    if in_question(analysis, column):
        yield Picture(
            name=f"differences-{name}",
            caption=" ".join(
                (
                    f"Differences on {column} that the question is about, in percentage points: "
                    "mean over problems and seeds with its 95% interval, filled where it is "
                    "robust, hollow otherwise, grey where it is inconclusive; dots: single seeds.",
                    *redeclared(analysis),
                )
            ),
            draw=partial(forest, analysis, column),
        )
    if len(ks) > 1 and against_base(analysis, column):
        yield Picture(
            name=f"losses-{name}",
            caption=f"pass@k on {column} less that of the base models, with a 95% band over all k "
            "at once; the bar on the zero line: where the first loss is, with an arrow where "
            "there may be none.",
            draw=partial(losses, analysis, column),
            fits_column=False,
        )
    if any(analysis.covered(column, cell, ks[-1]) for cell in cells):
        yield Picture(
            name=f"coverage-{name}",
            caption=f"Problems of {column} within reach at k = {ks[-1]}: retained, lost and "
            "gained against the base model; expected numbers, mean over seeds.",
            draw=partial(bars, analysis, column),
        )
