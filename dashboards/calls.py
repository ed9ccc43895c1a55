"""The library calls that give a chart's numbers, as text to copy into a notebook.

Each defines `result`; the tests run them and compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.stages.paths import RunPaths

OPEN = """\
from fgrpo_bench.analysis import load

analysis = load({sweep!r}, experiment={experiment!r}, version={version!r})
"""
DIFFERENCES = """\
from fgrpo_bench.analysis.rows import Comparison, to_frame

rows = analysis.against({column!r}, {k}, {old!r})
result = to_frame(Comparison, rows).drop("seeds", "by_seed")
"""
PAIRS = """\
from fgrpo_bench.analysis.rows import Comparison, to_frame

rows = [
    analysis.comparison({column!r}, k, new, old)
    for k in reversed({ks})
    for new, old in {pairs}
]
result = to_frame(Comparison, [row for row in rows if row]).drop("seeds", "by_seed")
"""
RUNS = """\
result = {{
    point.point_id: point.metrics(){selected}
    for point in analysis.results.points
    if point.cell is not None
}}
"""
FATES = """\
from fgrpo_bench.analysis.coverage import fates

result = fates(analysis.problems, {benchmark!r}, {k}){chosen}.select({columns})
"""


def call(template: str, run: RunPaths, **values: object) -> str:
    """A template over the analysis of a run."""
    names = {"sweep": run.sweep, "experiment": run.experiment, "version": run.version}
    return OPEN.format(**names) + template.format(**values)


def selected(
    analysis: Analysis,
    frame: str,
    columns: Sequence[str],
    *,
    beside: str | None = None,
    known: Sequence[str] = (),
    **where: object,
) -> tuple[pl.DataFrame, str]:
    """Rows of a frame, and the call that gives them.

    beside: a frame of cells and steps that is joined. known: columns that are not null. where:
    what a column is; a tuple is one of several.
    """
    single = {name: value for name, value in where.items() if not isinstance(value, tuple)}
    several = {name: value for name, value in where.items() if isinstance(value, tuple)}
    rows = getattr(analysis, frame).filter(**single)
    lines = [f"analysis.{frame}.filter({_written(single)})"]
    for name, values in several.items():
        rows = rows.filter(pl.col(name).is_in(values))
        lines.append(f".filter(pl.col({name!r}).is_in({list(values)}))")
    if beside is not None:
        rows = rows.join(getattr(analysis, beside), on=["cell", "step"], maintain_order="left")
        lines.append(f'.join(analysis.{beside}, on=["cell", "step"], maintain_order="left")')
    if known:
        rows = rows.drop_nulls(known)
        lines.append(f".drop_nulls({list(known)})")
    lines.append(f".select({', '.join(map(repr, columns))})")
    expression = "\n    ".join(lines)
    imports = "import polars as pl\n\n" if several else ""
    text = f"{imports}result = (\n    {expression}\n)\n"
    return rows.select(columns), call("{text}", analysis.results.paths, text=text)


def _written(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())
