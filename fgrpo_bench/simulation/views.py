"""The simulation as others show it (fgrpo_bench.results.VIEWS): its report, and what MLflow should
hold of it, one run a run that is done; from its files alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from fgrpo_bench.simulation.plan import QUESTION, masses, planned, planned_settings
from fgrpo_bench.simulation.report import render, write_report
from fgrpo_bench.simulation.results import load
from fgrpo_bench.simulation.run import MASSES
from fgrpo_bench.simulation.settings import Run, Settings
from fgrpo_bench.simulation.workers import undone
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import RunPaths
from fgrpo_bench.tables import read_table
from fgrpo_bench.tracking.describe import SHARED, VIEW
from fgrpo_bench.tracking.source import digest_of
from fgrpo_bench.tracking.state import ExperimentState, MetricPoint, RunState, Wanted

COLUMNS = (
    *(f"params.`{name}`" for name in ("rule", "group_size", "focal_gamma", "seed")),
    *(f"metrics.`simulation/{name}`" for name in ("total_correct_mass", "retained_mass")),
)


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
    runs, settings = planned(paths), planned_settings(paths)
    left = set(undone(paths, runs))
    view = {
        "selectedColumns": list(COLUMNS),
        "columnOrder": list(COLUMNS),
        "columnWidths": dict.fromkeys(COLUMNS, 150),
        "runsHiddenMode": "SHOW_ALL",
        "orderByKey": COLUMNS[1],
        "orderByAsc": True,
    }
    tags = {
        "mlflow.note.content": f"{QUESTION}\n\nA view of the files in `{paths.sweep}/"
        f"{paths.experiment}/` under the run root, where the report stands too.",
        "mlflow.experimentKind": "custom_model_development",
        f"{SHARED}{VIEW}": json.dumps(view),
    }
    return ExperimentState(
        name=f"{paths.sweep}/{paths.experiment}",
        digest=digest_of(tags),
        tags=lambda: tags,
        runs=tuple(
            Wanted(
                name=run.point_id,
                digest=digest_of(paths.point(run.point_id).done.read_text()),
                state=partial(_run, paths, settings, run),
            )
            for run in runs
            if run not in left
        ),
    )


def _run(paths: RunPaths, settings: Settings, run: Run) -> RunState:
    stage = paths.point(run.point_id)
    marker = read_json(stage.done)
    end = int(marker["finished_ms"])
    points = [
        MetricPoint(f"simulation/{name}", row["step"], end, row[name])
        for row in read_table(masses(stage), MASSES).to_dicts()
        for name in ("total_correct_mass", "retained_mass")
    ]
    return RunState(
        name=run.point_id,
        start=end - int(1000 * marker["wall_seconds"]),
        end=end,
        params={key: str(value) for key, value in (asdict(run) | asdict(settings)).items()},
        tags={
            "sweep": paths.sweep,
            "experiment": paths.experiment,
            "version": paths.version,
            "point_id": run.point_id,
            "fingerprint": marker["fingerprint"],
            "state": "simulated",
            "mlflow.note.content": f"The categorical simulation by {run.rule}, N = "
            f"{run.group_size}, gamma = {run.focal_gamma:g}, seed {run.seed}.",
            "mlflow.source.name": "fgrpo_bench.simulation",
            "mlflow.source.type": "LOCAL",
        },
        points=tuple(sorted(points)),
        artifacts={"spec.json": stage.spec.read_bytes()},
    )
