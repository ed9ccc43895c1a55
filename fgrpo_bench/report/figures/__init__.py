"""Which figures a report has; each is drawn by a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from matplotlib.figure import Figure

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.documents.style import COLUMN, PAGE
from fgrpo_bench.documents.table import in_column, raised
from fgrpo_bench.report.captions import caption, ends_text, ks_text, means
from fgrpo_bench.report.cell_styles import algorithms
from fgrpo_bench.report.figures.curves import (
    ABREAST,
    AXES,
    against_base,
    bars,
    by_axis,
    curves,
    has_metrics,
    losses,
    training,
    training_caption,
    varied_axis,
    with_bands,
)
from fgrpo_bench.report.figures.paths import paths, shown_pairs
from fgrpo_bench.report.figures.plane import forest, in_question, plane, plane_legend
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
        yield from _column_pictures(analysis, column)
    for algorithm in algorithms(analysis.by_cell.values()):
        if has_metrics(analysis, algorithm):
            yield Picture(
                name=f"training-{algorithm}",
                caption=f"Training of {training_caption(analysis, algorithm)}.",
                draw=partial(training, analysis, algorithm),
                fits_column=False,
            )


def _column_pictures(analysis: Analysis, column: str) -> Iterator[Picture]:
    cells, ks = list(analysis.by_cell.values()), analysis.ks
    axis, name = varied_axis(cells), column.replace(" ", "-")
    over = means(analysis, column)
    has_results = any(analysis.estimate(column, cell, ks[-1]).n_seeds for cell in cells)
    if has_results and algorithms(cells):  # these are drawn by algorithm, which a sweep alone tells
        if len(ks) > 1:
            yield Picture(
                name=f"curves-{name}",
                caption=caption(
                    analysis,
                    f"pass@k on {column} for k from {ks[0]} to {ks[-1]}",
                    column,
                    intervals=bool(with_bands(analysis, column)),
                    more=" (bands, of the settings that the question compares)"
                    if with_bands(analysis, column)
                    else "",
                ),
                draw=partial(curves, analysis, column),
                fits_column=len(algorithms(cells)) <= ABREAST,
            )
        yield Picture(
            name=f"by-{axis.replace('_', '-')}-{name}",
            caption=caption(
                analysis,
                f"{ends_text(analysis)} on {column} against {AXES[axis]}",
                column,
                intervals=True,
                more="; dashed: the base models",
            ),
            draw=partial(by_axis, analysis, column, axis),
        )
        if len(ks) > 1:
            yield Picture(
                name=f"plane-{name}",
                caption=caption(
                    analysis,
                    f"pass@{ks[0]} against pass@{ks[-1]} on {column}",
                    column,
                    intervals=True,
                    more=f"; {plane_legend(analysis, column)}",
                ),
                draw=partial(plane, analysis, column),
            )
    if shown_pairs(analysis, column):
        yield Picture(
            name=f"paths-{name}",
            caption=f"Paths of training in the plane of pass@1 and pass@{ks[-1]} on {column}, a "
            f"point per evaluated checkpoint with its step: {over}. Shaded: the difference at "
            "equal pass@1; in numbers: at the highest pass@1 that both reach, with its 95% "
            "interval.",
            draw=partial(paths, analysis, column),
        )
    if compared := in_question(analysis, column):
        at = ks_text(sorted({row.k for row in compared}))
        which = " that the question asks about" * (analysis.results.sweep is not None)
        lead = f"Differences on {column}{which}, in percentage points at {at}"
        marks = "; filled: significant, hollow: not, grey: inconclusive, dots: single seeds"
        words = caption(analysis, lead, column, intervals=True, more=marks)
        yield Picture(
            name=f"differences-{name}",
            caption=" ".join((words, *redeclared(analysis))),
            draw=partial(forest, analysis, column),
        )
    if len(ks) > 1 and against_base(analysis, column):
        yield Picture(
            name=f"losses-{name}",
            caption=f"Pass@k on {column} minus that of the base models, in percentage points: "
            f"{over}, with 95% bands over all k at once. The bar on the zero line is where the "
            "first loss is, an arrow where there may be none.",
            draw=partial(losses, analysis, column),
            fits_column=False,
        )
    if any(analysis.covered(column, cell, ks[-1]) for cell in cells):
        yield Picture(
            name=f"coverage-{name}",
            caption=f"Problems of {column} within reach at k = {ks[-1]}, expected numbers: "
            f"retained, lost and gained against the base models. {raised(over)}.",
            draw=partial(bars, analysis, column),
        )
