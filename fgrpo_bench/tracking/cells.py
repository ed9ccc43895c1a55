"""The MLflow runs of cells: mean and interval over the seeds, what each keeps more than others, and
where along k it falls behind its base models.

In: a `Source` and the runs of its points. Out: a `DesiredRun` for each cell, its points below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial

import polars as pl

from fgrpo_bench.analysis import LEVEL
from fgrpo_bench.analysis.checkpoints import frame_key
from fgrpo_bench.analysis.results import PointResult
from fgrpo_bench.analysis.rows import OPEN_AND_CUT_OFF, CellRow
from fgrpo_bench.documents.markdown import markdown_blocks
from fgrpo_bench.documents.table import Block, Line, Outline, Paragraph, Table, with_interval
from fgrpo_bench.files.spec import read_spec
from fgrpo_bench.report.narrative import effect
from fgrpo_bench.specs.stored import seedless_fingerprint
from fgrpo_bench.tracking.points import params_of
from fgrpo_bench.tracking.source import Source, digest_of
from fgrpo_bench.tracking.states import (
    CELLS,
    COLOR,
    NOTE,
    TABLE,
    DesiredRun,
    MetricPoint,
    RunState,
    identity_tags,
    readable,
    source_tags,
)

OPEN = "open"
"""Tag in place of the metric where a first loss has no such end."""


def with_cells(source: Source, points: Sequence[DesiredRun]) -> tuple[DesiredRun, ...]:
    """Parents first, each one followed by its points, which name it as their parent.

    points: those that have begun; a cell of which none has begun has no run.
    """
    begun = {run.name: run for run in points}
    by_cell: dict[str, list[PointResult]] = {}
    for point in source.results.points:
        by_cell.setdefault(frame_key(point)[0], []).append(point)
    runs = []
    for cell, planned in by_cell.items():
        members = [point for point in planned if point.point_id in begun]
        if members:
            numbers = [
                *_table_of_cell(source, cell).rows(),
                *map(astuple, source.first_losses_of(cell)),
                *map(astuple, source.comparisons_of(cell)),
                *map(astuple, source.on_paths(cell)),
            ]
            outlines = [[point.point_id, source.outline(point)] for point in members]
            mark = digest_of(source.origin, len(planned), numbers, outlines, source.colors[cell])
            state = partial(_cell_run, source, cell, members, n_planned=len(planned))
            name = _name_of_cell(members[0])
            runs.append(DesiredRun(name=name, digest=mark, state=state))
            runs += [replace(begun[point.point_id], parent=name) for point in members]
    return tuple(runs)


def _name_of_cell(member: PointResult) -> str:
    return member.point_id.removesuffix(f"-s{member.seed}")


def _cell_run(
    source: Source, key: str, members: Sequence[PointResult], *, n_planned: int
) -> RunState:
    """Its params are those that all its points share."""
    first, cell, results = members[0], source.analysis.by_cell[key], source.results
    spans = {point.seed: source.span(point) for point in members}
    ends = {seed: end for seed, (_, end) in spans.items() if end is not None}
    seeds, is_whole = ", ".join(map(str, ends)), len(ends) == n_planned
    every = [params_of(results, point).items() for point in members]
    shared = [pair for pair in every[0] if all(pair in other for other in every)]
    losses = list(_first_losses(source, cell))
    timestamp = max(ends.values(), default=0)
    points = [
        *_estimates(source, cell, timestamp),
        *_at_equal_pass_at_1(source, cell, timestamp),
        *(MetricPoint(name, cell.step, timestamp, float(k)) for name, k in losses if k is not None),
    ]
    name = _name_of_cell(first)
    return RunState(
        name=name,
        title=cell.label,
        start=min(start for start, _ in spans.values() if start is not None),
        end=timestamp if is_whole else None,
        params={name: value for name, value in shared if name != "seed"},
        tags={
            **identity_tags(results, name, seedless_fingerprint(read_spec(first.train))),
            "kind": CELLS,
            "state": "evaluated" if is_whole else "training",
            "seeds": seeds,
            "method": cell.method,
            NOTE: _cell_note(source, cell, seeds),
            COLOR: source.colors[key],
            **{name: OPEN for name, k in losses if k is None},
            **source_tags(results),
        },
        points=tuple(sorted(points)),
        artifacts={},
        tables={TABLE: _table_of_cell(source, key)} if ends else {},
    )


def _table_of_cell(source: Source, key: str) -> pl.DataFrame:
    """Means and ends of intervals with all their digits, and what stands beside them."""
    names = ("cell", "column", "k", "mean", "low", "high", "n_problems", *OPEN_AND_CUT_OFF)
    rows = [[getattr(row, name) for name in names] for row in source.estimates_of(key)]
    types = dict.fromkeys(("mean", "low", "high", *OPEN_AND_CUT_OFF), pl.Float64)
    return pl.DataFrame(rows, names, schema_overrides=types, orient="row")


def _estimates(source: Source, cell: CellRow, timestamp: int) -> Iterator[MetricPoint]:
    """Nine keys a benchmark or average: pass@k at both ends and as a curve over k, each with its
    interval."""
    for row in source.estimates_of(cell.cell):
        for end, exact in (("", row.mean), ("_low", row.low), ("_high", row.high)):
            if exact is not None:
                value = readable(exact)
                yield MetricPoint(f"pass_at_k{end}/{row.column}", row.k, timestamp, value)
                if row.k in source.analysis.ends:
                    key = f"pass_at_{row.k}{end}/{row.column}"
                    yield MetricPoint(key, cell.step, timestamp, value)


def _at_equal_pass_at_1(source: Source, cell: CellRow, timestamp: int) -> Iterator[MetricPoint]:
    """Three keys a pair and k: what the cell keeps more than another at the highest pass@1 that
    both reach, with its interval."""
    for row in source.on_paths(cell.cell):
        name = f"pass_at_{row.k}_at_equal_pass_at_1_minus_{row.old}"
        for end, exact in (("", row.difference), ("_low", row.low), ("_high", row.high)):
            if exact is not None:
                key = f"{name}{end}/{row.column}"
                yield MetricPoint(key, cell.step, timestamp, readable(exact))


def _first_losses(source: Source, cell: CellRow) -> Iterator[tuple[str, int | None]]:
    """The first k at which a trained cell is behind its base models, by the band over all k: the
    ends of its set, None for one that is open."""
    for row in source.first_losses_of(cell.cell):
        yield f"pass_at_k_first_loss_low/{row.column}", row.low
        yield f"pass_at_k_first_loss_high/{row.column}", row.high


def _cell_note(source: Source, cell: CellRow, seeds: str) -> str:
    """What the cell is, what it is better and worse than, its numbers, and the metrics' names."""
    analysis = source.analysis
    which_seeds = f"seeds {seeds}" if seeds else "no seed yet"
    ends = analysis.ends
    rows = []
    for column in analysis.columns:
        line = [column]
        for k in ends:
            row = analysis.estimate(column, cell, k)
            line.append(with_interval(row.mean, row.low, row.high, open_part=row.open_part))
        rows.append(tuple(line))
    table = Table(
        title=f"pass@k in percent with {LEVEL:.0%} intervals",
        header=("", *(f"pass@{k}" for k in ends)),
        rows=tuple(rows),
    )
    sections: dict[str, list[Line]] = {}
    for compared in (*source.comparisons_of(cell.cell), *source.on_paths(cell.cell)):
        title = f"{compared.column}: {compared.group}, {compared.name}"
        line_of_k = (f"pass@{compared.k}, {compared.verdict}", effect(compared))
        sections.setdefault(title, []).append(line_of_k)
    for loss in source.first_losses_of(cell.cell):
        title = f"{loss.column}: against the base models at all k together"
        sections[title] = [(f"{LEVEL:.0%} band", loss.words)]
    outline = Outline(sections=tuple((title, tuple(lines)) for title, lines in sections.items()))
    blocks: list[Block] = [
        Paragraph(
            text=f"{cell.label} at step {cell.step} over its training seeds, which are the runs "
            f"below. Means and {LEVEL:.0%} intervals over problems and seeds are of {which_seeds}."
        ),
        *([outline] if sections else []),
        table,
    ]
    names = (
        "`pass_at_k/<benchmark>`: the curve, with k as its step; the ends of its interval are "
        "`pass_at_k_low/...` and `pass_at_k_high/...`. All pass@k are fractions."
    )
    losses = (
        " `pass_at_k_first_loss_low/...` and `..._high/...`: the first k at which training is "
        f"behind the base models lies between them, at {LEVEL:.0%} over all k together; `{OPEN}` "
        "as a tag is an end without a k, so that there may be no loss."
    )
    return f"{markdown_blocks(blocks)}\n\n{names}{'' if cell.is_base else losses}"
