"""Delta NLL of rare correct answers: columns beside a table of cells, ours and the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from fgrpo_bench.analysis.published import CONTROLS, published
from fgrpo_bench.documents.table import NONE, Table
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.tables import names
from fgrpo_bench.results import SweepResults
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.markers import stands
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.stages.shapes import LIKELIHOOD, PLAN

OURS, THEIRS = "Delta NLL", "paper's Delta NLL"
PAPERS_MODEL = "Qwen2.5-7B"
"""The one model of the paper's table 2."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of one checkpoint on the rare correct answers of its base model."""

    delta_nll: float
    """Mean rise of the negative log-likelihood, nats a token."""
    n_rare: int
    """Answers."""


def stages(results: SweepResults) -> Iterator[tuple[str, int, StagePaths]]:
    """point_id, step and stage of every checkpoint whose likelihoods are done."""
    plan = read_json(results.paths.plan, PLAN)
    marks = {stage["name"]: stage["fingerprint"] for stage in plan["stages"]}
    for point in plan["points"]:
        for checkpoint in point.get("checkpoints", []):
            if "likelihood" in checkpoint:
                stage = StagePaths(results.paths.folder / checkpoint["likelihood"])
                mark = marks.get(checkpoint["likelihood"])
                if stands(stage, fingerprint=mark):
                    yield point["point_id"], checkpoint["step"], stage


def scores(results: SweepResults) -> dict[tuple[str, int], Score]:
    """By point_id and step; those that are done and whose set has an answer."""
    found = {}
    for point_id, step, stage in stages(results):
        marker = read_json(stage.done, LIKELIHOOD)
        if marker.get("delta_nll") is not None:
            found[point_id, step] = Score(delta_nll=marker["delta_nll"], n_rare=marker["n_rare"])
    return found


def of_cells(summary: Summary) -> dict[Cell, tuple[Score, ...]]:
    """A score a seed of the checkpoints that stand for their runs; cells with none are left out."""
    found = scores(summary.results)
    made: dict[Cell, tuple[Score, ...]] = {}
    for cell in summary.cells:
        own = [
            found[point.point_id, point.step]
            for point in summary.results.points
            if point.cell == (cell.algorithm, cell.group_size, cell.focal_gamma)
            and (point.point_id, point.step) in found
        ]
        if own:
            made[cell] = tuple(own)
    return made


def beside(table: Table, summary: Summary) -> Table:
    """A table whose rows begin with `names` of cells, with ours and the paper's behind; the same
    table where nothing was scored."""
    made = of_cells(summary)
    if not made:
        return table
    rows: Mapping[tuple[str, ...], Cell] = {names(cell): cell for cell in summary.cells}
    return replace(
        table,
        header=(*table.header, OURS, THEIRS),
        rows=tuple(
            (*row, *_values(made, rows.get(tuple(map(str, row[:3]))))) for row in table.rows
        ),
        notes=(*table.notes, _note(made)),
    )


def _values(made: Mapping[Cell, tuple[Score, ...]], cell: Cell | None) -> tuple[str, str]:
    if cell is None:
        return NONE, NONE
    if cell.is_base:
        return "0", NONE
    own = [score.delta_nll for score in made.get(cell, ())]
    ours = f"{np.mean(own):.2f} [{min(own):.2f}, {max(own):.2f}]" if own else NONE
    return ours, papers(cell) or NONE


def papers(cell: Cell) -> str | None:
    """The published figure of the same algorithm, N and gamma, as printed; None where there is
    none."""
    name = CONTROLS.get(str(cell.algorithm), str(cell.algorithm).upper())
    method = f"F-{name}" if cell.focal_gamma else name
    return _table_2().get((method, cell.focal_gamma, cell.group_size))


def _table_2() -> dict[tuple[str, float | None, int | None], str]:
    rows = published().filter(published()["benchmark"] == "delta_nll_rare").to_dicts()
    return {(row["method"], row["gamma"], row["group_size"]): row["value"] for row in rows}


def _note(made: Mapping[Cell, tuple[Score, ...]]) -> str:
    sizes = sorted({score.n_rare for own in made.values() for score in own})
    size = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    seeds = max(len(own) for own in made.values())
    return (
        f"{OURS}: mean rise of the negative log-likelihood, nats a token, of {size} rare correct "
        "answers of the base model to training prompts, a fixed set: those of its correct draws "
        f"that were least likely. Mean over {seeds} seeds and [lowest, highest]. The paper's "
        f"is its figure of the same algorithm, N and gamma, on {PAPERS_MODEL} and mathematics."
    )
