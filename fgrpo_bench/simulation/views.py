"""The simulation as others show it (fgrpo_bench.runs.VIEWS): its report, and what MLflow should
hold of it, one run a run that is done; from its files alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from fgrpo_bench.simulation.report import COLUMNS as MEASURED
from fgrpo_bench.simulation.report import render, write_report
from fgrpo_bench.simulation.runs import MASSES, QUESTION, Simulation, load, masses_path
from fgrpo_bench.simulation.settings import Run
from fgrpo_bench.stages.markers import read_marker
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tables import read_table
from fgrpo_bench.tracking.desired import NOTE, ExperimentState, MetricPoint, RunState, Wanted
from fgrpo_bench.tracking.source import digest_of

COMMAND = "python -m fgrpo_bench.simulation"
"""Makes what is missing."""


def report(paths: RunPaths, formats: Sequence[str]) -> str:
    """What the report's command prints: one format's text, or with several the words and the files
    that were written."""
    if len(formats) == 1:
        return render(load(paths), formats[0])
    written = write_report(paths)
    return "\n".join([written.text, *map(str, written.files)]) + "\n"


def desired(paths: RunPaths) -> ExperimentState:
    """As fgrpo_bench.tracking.desired.desired_experiment."""
    simulation = load(paths)
    left = set(simulation.undone)
    tags = {
        NOTE: f"{QUESTION}\n\nA view of the files in `{paths.sweep}/"
        f"{paths.experiment}/` under the run root, where the report stands too.",
        "mlflow.experimentKind": "custom_model_development",
    }
    return ExperimentState(
        name=f"{paths.sweep}/{paths.experiment}",
        digest=digest_of(tags),
        tags=lambda: tags,
        runs=tuple(
            Wanted(
                name=run.point_id,
                digest=digest_of(simulation.stage(run).done.read_text()),
                state=partial(_state, simulation, run),
            )
            for run in simulation.runs
            if run not in left
        ),
    )


def _state(simulation: Simulation, run: Run) -> RunState:
    paths, stage = simulation.paths, simulation.stage(run)
    marker = read_marker(stage)
    end = int(marker["finished_ms"])
    points = [
        MetricPoint(f"simulation/{name}", row["step"], end, row[name])
        for row in read_table(masses_path(stage), MASSES).to_dicts()
        for name in MEASURED
    ]
    params = asdict(run) | asdict(simulation.settings)
    return RunState(
        name=run.point_id,
        title=run.point_id,
        start=end - int(1000 * marker["wall_seconds"]),
        end=end,
        params={key: str(value) for key, value in params.items()},
        tags={
            "sweep": paths.sweep,
            "experiment": paths.experiment,
            "version": paths.version,
            "point_id": run.point_id,
            "fingerprint": marker["fingerprint"],
            "state": "simulated",
            NOTE: f"The categorical simulation by {run.rule}, N = "
            f"{run.group_size}, gamma = {run.focal_gamma:g}, seed {run.seed}.",
            "mlflow.source.name": "fgrpo_bench.simulation",
            "mlflow.source.type": "LOCAL",
        },
        points=tuple(sorted(points)),
        artifacts={"spec.json": stage.spec.read_bytes()},
    )
