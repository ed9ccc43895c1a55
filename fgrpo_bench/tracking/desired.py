"""What MLflow should hold for a sweep, told from its files and locks: no clock, no MLflow.

One experiment a sweep and experiment name (`groupsize/countdown`), one run a point, base models
included (`points`), below a run for their cell (`cells`). The same files always give the same
digests and states (`source`), so a second sync finds nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from fgrpo_bench.analysis import store
from fgrpo_bench.results import load_results
from fgrpo_bench.runs import find_runs, has_checkpoints, own_view
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tracking.cells import report_wanted, with_cells
from fgrpo_bench.tracking.describe import experiment_tags, words
from fgrpo_bench.tracking.points import point_run
from fgrpo_bench.tracking.source import Source, digest_of
from fgrpo_bench.tracking.state import ExperimentState, Wanted


def desired_experiment(paths: RunPaths) -> ExperimentState:
    """What MLflow should hold for one sweep; points that have not begun have no run yet.

    Raises FileNotFoundError where the sweep was never run and ValueError for a damaged file.
    """
    if not has_checkpoints(paths):
        state: ExperimentState = own_view(paths).desired(paths)
        return state
    source = Source(load_results(paths))
    runs = with_cells(source, desired_points(source))
    digest = digest_of(source.origin, source.rule, store.VERSION, store.digest_of(source.results))
    report = report_wanted(source, runs, digest)
    return ExperimentState(
        name=experiment_name(paths),
        digest=digest if paths == _latest(paths) else None,
        tags=lambda: experiment_tags(source.results, words(source.analysis)),
        runs=runs if report is None else (*runs, report),
    )


def experiment_name(paths: RunPaths) -> str:
    """e.g. `groupsize/countdown`."""
    return f"{paths.sweep}/{paths.experiment}"


def desired_points(source: Source, points: Collection[str] | None = None) -> list[Wanted]:
    """The runs of the points that have begun, without their parents.

    points: point_ids of those that are wanted; None wants all.
    """
    return [
        Wanted(
            name=point.point_id,
            digest=source.digest(point),
            state=partial(point_run, source, point),
        )
        for point in source.results.points
        if (points is None or point.point_id in points) and source.has_begun(point)
    ]


def _latest(paths: RunPaths) -> RunPaths:
    """The version that was run last: it speaks for the experiment that all versions share."""
    runs = find_runs(paths.root, paths.sweep, experiment=paths.experiment)
    versions = [run for run in runs if run.sweep_json.exists()]
    return max(versions, key=lambda run: (read_json(run.sweep_json)["created"], run == paths))
