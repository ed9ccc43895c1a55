"""What MLflow holds beside the points: a parent run a cell, with mean and interval over its seeds,
and a run with the files of the report. All numbers are the report's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fgrpo_bench.documents.markdown import escape_markdown
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.results import PointResult
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.frozen import Frozen
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stats.intervals import LEVEL
from fgrpo_bench.tracking.describe import report_note, source_tags
from fgrpo_bench.tracking.state import MetricPoint, RunState


def with_cells(
    summary: Summary, runs: Sequence[tuple[PointResult, RunState]]
) -> tuple[RunState, ...]:
    """Parents first, each one followed by its points, which name it as their parent.

    Points that have not begun are not among the runs; a cell of which none has begun has no run.
    """
    known = {(*_key(cell), cell.step): cell for cell in summary.cells}
    by_cell: dict[Cell, list[tuple[PointResult, RunState]]] = {}
    for point, run in runs:
        by_cell.setdefault(known[(*point.cell, point.step)], []).append((point, run))
    made = []
    for cell, members in by_cell.items():
        parent = _cell_run(summary, cell, members)
        made += [parent, *(replace(run, parent=parent.identity) for _, run in members)]
    return tuple(made)


def _key(cell: Cell) -> tuple[str | None, int | None, float | None]:
    return cell.algorithm, cell.group_size, cell.focal_gamma


def _cell_run(
    summary: Summary, cell: Cell, members: Sequence[tuple[PointResult, RunState]]
) -> RunState:
    """Its params are those that all its points share."""
    point, first = members[0]
    name = point.point_id.removesuffix(f"-s{point.seed}")
    mark = Frozen(point.train, read_json(point.train.spec)).seedless_fingerprint
    planned = [one for one in summary.results.points if (*one.cell, one.step) == _of(point)]
    ends = [run.end for _, run in members if run.end is not None]
    seeds = ", ".join(str(point.seed) for point, run in members if run.end is not None)
    shared = set.intersection(*(set(run.params.items()) for _, run in members))
    params = {key: value for key, value in first.params.items() if (key, value) in shared}
    params.pop("seed", None)
    return RunState(
        name=name,
        start=min(run.start for _, run in members),
        end=max(ends) if len(ends) == len(planned) else None,
        params=params,
        tags={
            **_identity(summary, name, mark),
            "kind": "cell",
            "state": "evaluated" if len(ends) == len(planned) else "training",
            "seeds": seeds,
            "method": cell.method,
            "mlflow.note.content": _cell_note(summary, cell, seeds),
            **source_tags(summary.results),
        },
        points=tuple(sorted(_estimates(summary, cell, max(ends, default=0)))),
        artifacts={},
    )


def _of(point: PointResult) -> tuple[str | int | float | None, ...]:
    return (*point.cell, point.step)


def _identity(summary: Summary, name: str, mark: str) -> dict[str, str]:
    paths = summary.results.paths
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "point_id": name,
        "fingerprint": mark,
    }


def _estimates(summary: Summary, cell: Cell, timestamp: int) -> Iterator[MetricPoint]:
    """Nine keys a benchmark: pass@k at both ends and as a curve over k, each with its interval."""
    ends = {summary.ks[0], summary.ks[-1]}
    for benchmark in summary.results.benchmarks:
        estimates = summary.scores[benchmark, cell].estimates
        for k, found in zip(summary.ks, estimates, strict=True):
            for suffix, value in (("", found.mean), ("_low", found.low), ("_high", found.high)):
                if value is not None:
                    yield MetricPoint(f"{benchmark}/pass_at_k{suffix}", k, timestamp, value)
                    if k in ends:
                        key = f"{benchmark}/pass_at_{k}{suffix}"
                        yield MetricPoint(key, cell.step, timestamp, value)


def _cell_note(summary: Summary, cell: Cell, seeds: str) -> str:
    benchmarks = ", ".join(
        escape_markdown(f"{name}/pass_at_k") for name in summary.results.benchmarks
    )
    of = f"seeds {seeds}" if seeds else "no seed yet"
    return (
        f"{escape_markdown(cell.label)} over its training seeds; the runs below this one are the "
        f"seeds. Means and {LEVEL:.0%} intervals over problems and seeds are of {of}.\n\n"
        f"{benchmarks}, with \\_low and \\_high: k is the step. The same at the smallest and the "
        "largest k are plain metrics. All pass@k are fractions."
    )


def report_run(summary: Summary, runs: Sequence[RunState], verdict: str) -> RunState | None:
    """The report's tables and figures as artifacts; None where it was not written or no run has
    begun.

    verdict: the words of the answer, as Markdown.
    """
    paths = summary.results.paths
    if not runs or not (paths.report / "report.md").exists():
        return None
    files = [
        path
        for path in sorted(paths.report.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    ]
    ends = [run.end for run in runs if run.end is not None]
    mark = fingerprint(["report", paths.sweep, paths.experiment, paths.version])
    return RunState(
        name="report",
        start=min(run.start for run in runs),
        end=max(ends) if len(ends) == len(runs) and not summary.missing else None,
        params={},
        tags={
            **_identity(summary, "report", mark),
            "kind": "report",
            "mlflow.note.content": report_note(verdict),
            **source_tags(summary.results),
        },
        points=(),
        artifacts={path.relative_to(paths.report).as_posix(): path.read_bytes() for path in files},
    )
