"""Results in a notebook: `fgrpo_bench.load("groupsize")`.

In: the name of a run, of evaluations or of groups that are stored. Out: an object whose shape in a
notebook is the answer and its table, which has the numbers as Polars frames and the report's
figures. It selects what `fgrpo_bench.analysis.load` computed or read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from fgrpo_bench import analysis as computed
from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.rollouts import RolloutSummary, load_groups
from fgrpo_bench.analysis.rows import FRAMES
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.documents.html import fragment
from fgrpo_bench.documents.table import Block
from fgrpo_bench.documents.terminal import terminal
from fgrpo_bench.report.captions import title
from fgrpo_bench.report.narrative import answered
from fgrpo_bench.report.tables import rollouts as of_rollouts
from fgrpo_bench.report.tables.comparisons import comparison_table, question_table
from fgrpo_bench.report.tables.main import interval_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fgrpo_bench.report.figures import Picture

GROUPS = "groups/"
"""Begins the name of a dump's groups that `fgrpo-bench groups DUMP --name` stored."""


def load(
    name: str, *, root: Path | None = None, rule: str = LAST, by: str | None = None
) -> NotebookView:
    """What is stored under a name: `sweep[/experiment[/version]]` or `evals/<name>[+<name>]` as
    `Runs`, `groups/<name>` without a comparison.

    root: None is the usual folder of all runs. rule, by: as of `fgrpo_bench.analysis.load`; not of
    groups. Raises FileNotFoundError where nothing has that name and ValueError where several may be
    meant, or for a rule or column beside groups.
    """
    if not name.startswith(GROUPS):
        return _runs(computed.load(name, root=root, rule=rule, by=by))
    if rule != LAST or by is not None:
        raise ValueError(f"{name}: groups of rollouts have no rule and no column: leave them out")
    return _groups(load_groups(name.removeprefix(GROUPS), root=root))


@dataclass(frozen=True, kw_only=True, repr=False)
class NotebookView:
    """A title, blocks of a document, and the frames and figures behind them."""

    title: str
    blocks: Sequence[Block]
    """Their texts are the stores' own and may be a model's; they are escaped when shown."""
    tables: Mapping[str, Callable[[], pl.DataFrame]]
    pictures: Callable[[], Iterable[Picture]]
    """In their order; the first is what `plot` draws without a name."""

    @property
    def frames(self) -> list[str]:
        """Names that `frame` takes."""
        return list(self.tables)

    def frame(self, name: str) -> pl.DataFrame:
        """Numbers as a frame; ValueError for a name that is none of `frames`."""
        _check("frame", name, self.tables)
        return self.tables[name]()

    @property
    def figures(self) -> list[str]:
        """Names that `plot` takes."""
        return [picture.name for picture in self.pictures()]

    def plot(self, name: str | None = None) -> Figure:
        """A figure of the report. name: one of `figures`, of which None is the first; ValueError
        for another, and where these results allow none."""
        from fgrpo_bench.documents.style import PAGE, styled

        pictures = {picture.name: picture for picture in self.pictures()}
        if not pictures:
            raise ValueError(f"{self.title}: these results allow no figure")
        chosen = next(iter(pictures)) if name is None else name
        _check("figure", chosen, pictures)
        return styled(partial(pictures[chosen].draw, width=PAGE))

    def _repr_html_(self) -> str:
        return fragment(self.title, self.blocks)

    def __repr__(self) -> str:
        return terminal(self.title, self.blocks)


def _check(what: str, name: str, choices: Iterable[str]) -> None:
    names = list(choices)
    if name not in names:
        raise ValueError(
            f"no {what} {name!r}{suggestion(name, names)}: there are {', '.join(names)}"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Runs(NotebookView):
    """A sweep, or evaluations: the answer, and pass@k of every cell with its interval."""

    analysis: Analysis

    def compare(self) -> NotebookView:
        """The differences: those that the question asks for, else of every pair."""
        tables = [
            question_table(self.analysis, column) or comparison_table(self.analysis, column)
            for column in self.analysis.headline
        ]
        return NotebookView(**_view_parts(self.analysis, tables, first="differences-"))


def _runs(analysis: Analysis) -> Runs:
    tables = [interval_table(analysis, column) for column in analysis.headline]
    return Runs(analysis=analysis, **_view_parts(analysis, tables, first="curves-"))


def _view_parts(analysis: Analysis, tables: Sequence[Block], *, first: str) -> dict[str, Any]:
    def pictures() -> list[Picture]:
        from fgrpo_bench.report.figures import pictures as drawn  # matplotlib is slow to import

        return sorted(drawn(analysis), key=lambda picture: not picture.name.startswith(first))

    return {
        "title": title(analysis),
        "blocks": [*answered(analysis), *tables],
        "tables": {name: partial(getattr, analysis, name) for name in FRAMES},
        "pictures": pictures,
    }


def _groups(summary: RolloutSummary) -> NotebookView:
    """The groups of a training run's rollouts, and where each advantage puts its gradient."""

    def pictures() -> Iterable[Picture]:
        from fgrpo_bench.report.figures.rollouts import pictures as drawn

        return drawn(summary)

    return NotebookView(
        title=of_rollouts.heading(summary),
        blocks=of_rollouts.blocks(summary),
        tables={"gradients": summary.gradients, "steps": summary.by_step},
        pictures=pictures,
    )
