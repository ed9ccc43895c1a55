"""What MLflow holds beside the points: a parent run a cell, with mean and interval over its seeds
and where along k it falls behind its base models, and a run with the files of the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial

from fgrpo_bench.analysis import LEVEL
from fgrpo_bench.analysis.read import key_of
from fgrpo_bench.analysis.rows import CellRow
from fgrpo_bench.documents.markdown import escape_markdown
from fgrpo_bench.points import PointResult
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.frozen import Frozen
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.tracking.describe import COLOR, params, report_note, source_tags, words
from fgrpo_bench.tracking.source import Source, digest_of, report_files
from fgrpo_bench.tracking.state import UNCERTAINTY, MetricPoint, RunState, Wanted

OPEN = "open"
"""Tag in place of the metric where a first loss has no such end."""


def with_cells(source: Source, points: Sequence[Wanted]) -> tuple[Wanted, ...]:
    """Parents first, each one followed by its points, which name it as their parent.

    points: those that have begun; a cell of which none has begun has no run.
    """
    begun = {run.name: run for run in points}
    by_cell: dict[str, list[PointResult]] = {}
    for point in source.results.points:
        by_cell.setdefault(key_of(point)[0], []).append(point)
    runs = []
    for cell, planned in by_cell.items():
        members = [point for point in planned if point.point_id in begun]
        if members:
            name = members[0].point_id.removesuffix(f"-s{members[0].seed}")
            numbers = [
                *([e.column, e.k, e.mean, e.low, e.high] for e in source.estimates_of(cell)),
                *map(astuple, source.first_losses_of(cell)),
            ]
            outlines = [[point.point_id, source.outline(point)] for point in members]
            mark = digest_of(source.origin, len(planned), numbers, outlines, source.colors[cell])
            state = partial(_cell_run, source, cell, members, n_planned=len(planned))
            runs.append(Wanted(name=name, digest=mark, state=state))
            runs += [replace(begun[point.point_id], parent=name) for point in members]
    return tuple(runs)


def _cell_run(
    source: Source, key: str, members: Sequence[PointResult], *, n_planned: int
) -> RunState:
    """Its params are those that all its points share."""
    first, cell = members[0], source.analysis.by_cell[key]
    spans = {point.seed: source.span(point) for point in members}
    ends = {seed: end for seed, (_, end) in spans.items() if end is not None}
    seeds, is_whole = ", ".join(map(str, ends)), len(ends) == n_planned
    every = [params(source.results, point).items() for point in members]
    shared = [pair for pair in every[0] if all(pair in other for other in every)]
    losses = list(_first_losses(source, cell))
    timestamp = max(ends.values(), default=0)
    points = [
        *_estimates(source, cell, timestamp),
        *(MetricPoint(name, cell.step, timestamp, float(k)) for name, k in losses if k is not None),
    ]
    spec = Frozen(first.train, read_json(first.train.spec))
    name = first.point_id.removesuffix(f"-s{first.seed}")
    return RunState(
        name=name,
        title=cell.label,
        start=min(start for start, _ in spans.values() if start is not None),
        end=timestamp if is_whole else None,
        params={name: value for name, value in shared if name != "seed"},
        tags={
            **_identity(source, name, spec.seedless_fingerprint),
            "kind": "cell",
            "state": "evaluated" if is_whole else "training",
            "seeds": seeds,
            "method": cell.method,
            "mlflow.note.content": _cell_note(source, cell, seeds),
            COLOR: source.colors[key],
            **{name: OPEN for name, k in losses if k is None},
            **source_tags(source.results),
        },
        points=tuple(sorted(points)),
        artifacts={},
    )


def _identity(source: Source, name: str, mark: str) -> dict[str, str]:
    paths = source.results.paths
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "point_id": name,
        "fingerprint": mark,
    }


def _estimates(source: Source, cell: CellRow, timestamp: int) -> Iterator[MetricPoint]:
    """Nine keys a benchmark or average: pass@k at both ends and as a curve over k, each with its
    interval."""
    for row in source.estimates_of(cell.cell):
        values = (
            ("", "", row.mean),
            (UNCERTAINTY, "_low", row.low),
            (UNCERTAINTY, "_high", row.high),
        )
        for prefix, suffix, value in values:
            if value is not None:
                name = f"{prefix}{row.column}/pass_at"
                yield MetricPoint(f"{name}_k{suffix}", row.k, timestamp, value)
                if row.k in source.analysis.ends:
                    yield MetricPoint(f"{name}_{row.k}{suffix}", cell.step, timestamp, value)


def _first_losses(source: Source, cell: CellRow) -> Iterator[tuple[str, int | None]]:
    """The first k at which a trained cell is behind its base models, by the band over all k: the
    ends of its set, None for one that is open."""
    for row in source.first_losses_of(cell.cell):
        yield f"{UNCERTAINTY}{row.column}/pass_at_k_first_loss_low", row.low
        yield f"{UNCERTAINTY}{row.column}/pass_at_k_first_loss_high", row.high


def _cell_note(source: Source, cell: CellRow, seeds: str) -> str:
    columns = ", ".join(escape_markdown(f"{name}/pass_at_k") for name in source.analysis.columns)
    of = f"seeds {seeds}" if seeds else "no seed yet"
    losses = (
        ""
        if cell.is_base
        else "\n\n..._first\\_loss\\_low and \\_high: the first k at which training is behind the "
        f"base models lies between them, at {LEVEL:.0%} over all k together; `{OPEN}` as a tag is "
        "an end without a k, so that there may be no loss."
    )
    return (
        f"{escape_markdown(cell.label)} at step {cell.step} over its training seeds, which are the "
        f"runs below. Means and {LEVEL:.0%} intervals over problems and seeds are of {of}.\n\n"
        f"{columns}; the ends of their intervals are `{UNCERTAINTY}...` with \\_low and \\_high. "
        "In these k is the step. The same at the smallest and "
        f"the largest k are plain metrics. All pass@k are fractions.{losses}"
    )


def report_wanted(source: Source, runs: Sequence[Wanted], digest: str) -> Wanted | None:
    """The report's tables and figures as artifacts; None where it was not written or no run has
    begun.

    digest: of what its words are computed from.
    """
    files = report_files(source.results.paths)
    if not runs or not files:
        return None
    contents = [[path.name, sha256_file(path)] for path in files]
    begun = [run.name for run in runs if run.parent is not None]
    return Wanted(
        name="report",
        digest=digest_of(digest, contents, [run.digest for run in runs if run.parent is None]),
        state=partial(_report_run, source, begun),
    )


def _report_run(source: Source, begun: Sequence[str]) -> RunState:
    paths = source.results.paths
    spans = [source.span(point) for point in source.results.points if point.point_id in begun]
    ends = [end for _, end in spans if end is not None]
    is_whole = len(ends) == len(spans) and not source.analysis.missing
    mark = fingerprint(["report", paths.sweep, paths.experiment, paths.version])
    return RunState(
        name="report",
        title="report",
        start=min(start for start, _ in spans if start is not None),
        end=max(ends) if is_whole else None,
        params={},
        tags={
            **_identity(source, "report", mark),
            "kind": "report",
            "mlflow.note.content": report_note(words(source.analysis)),
            **source_tags(source.results),
        },
        points=(),
        artifacts={
            path.relative_to(paths.report).as_posix(): path.read_bytes()
            for path in report_files(paths)
        },
    )
