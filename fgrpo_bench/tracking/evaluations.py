"""What MLflow should hold for evaluations without a sweep: one experiment, a run an evaluation.

In: the evaluations under a run root. Out: an ExperimentState, as of a sweep (desired.py). One that
is damaged is left out with a word, so that it keeps no other back.
"""

from __future__ import annotations

import sys
from functools import partial

import polars as pl

from fgrpo_bench.analysis.checkpoints import checkpoint_estimates
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint, from_evaluation
from fgrpo_bench.analysis.results import evaluations
from fgrpo_bench.files.paths import EVALUATIONS, RunPaths
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.tracking.desired import experiment_name
from fgrpo_bench.tracking.points import bounds, shares_and_bounds, unscored, unscored_tag
from fgrpo_bench.tracking.source import digest_of
from fgrpo_bench.tracking.states import (
    NOTE,
    DesiredRun,
    ExperimentState,
    MetricPoint,
    RunState,
    readable,
)

EVALUATION = "evaluation"
"""Value of the tag `kind`."""
SETTINGS = ("sampler", "temperature", "dtype", "n_samples", "seed")
"""Of an evaluation, that runs are compared by."""


def desired_evaluations(paths: RunPaths) -> ExperimentState:
    """What MLflow should hold. paths: what stands for all of them, of command.runs.tracked."""
    runs = []
    for name, folder in evaluations(paths.root).items():
        try:
            checkpoint = from_evaluation(folder, name)
            digest = digest_of(name, sha256_file(checkpoint.evaluate.done))
            if checkpoint.is_evaluated:
                state = partial(_run, checkpoint, paths)
                runs.append(DesiredRun(name=name, digest=digest, state=state))
        except (OSError, ValueError) as error:
            print(f"{folder} is left out: {error}", file=sys.stderr)
    return ExperimentState(
        name=experiment_name(paths), digest=digest_of(EVALUATIONS), tags=_note, runs=tuple(runs)
    )


def _note() -> dict[str, str]:
    about = "Evaluations without a sweep, a run each. `fgrpo-bench compare` compares them."
    return {NOTE: about}


def _run(checkpoint: EvaluatedCheckpoint, paths: RunPaths) -> RunState:
    spec, end = checkpoint.evaluation_spec(), checkpoint.evaluated().finished_ms
    benchmarks = list(spec.stored_evaluation.benchmarks)
    points, tables, shares = [], {}, unscored(checkpoint, benchmarks)
    files = {"evaluation.json": checkpoint.evaluate.spec.read_bytes()}
    for benchmark in benchmarks:
        rows = checkpoint_estimates(checkpoint, benchmark)
        known = [(row.k, row.mean) for row in rows if row.mean is not None]
        for k, mean in known:
            points.append(MetricPoint(f"pass_at_k/{benchmark}", k, end, readable(mean)))
        for k, mean in dict([*known[:1], *known[-1:]]).items():
            points.append(MetricPoint(f"pass_at_{k}/{benchmark}", 0, end, readable(mean)))
        tables[f"{benchmark}/pass_at_k.json"] = pl.DataFrame(
            {
                "k": [row.k for row in rows],
                "pass_at_k": [row.mean for row in rows],
                "ci_low": [row.low for row in rows],
                "ci_high": [row.high for row in rows],
                "n_problems": [row.n_problems for row in rows],
            }
            | shares_and_bounds(checkpoint, benchmark)
        )
        files[f"{benchmark}/passk.parquet"] = (
            checkpoint.evaluate.benchmark(benchmark).passk().read_bytes()
        )
    for benchmark, share in shares.items():
        points += bounds(checkpoint, benchmark, share, step=0, time=end)
        points.append(MetricPoint(f"unscored_fraction/{benchmark}", 0, end, readable(share)))
    settings = {key: spec.evaluation.get(key) for key in SETTINGS}
    return RunState(
        name=checkpoint.label,
        title=checkpoint.label,
        start=end,
        end=end,
        params={key: str(value) for key, value in settings.items() if value is not None},
        tags={
            "sweep": paths.sweep,
            "experiment": paths.experiment,
            "version": paths.version,
            "point_id": checkpoint.label,
            "fingerprint": spec.fingerprint,
            "kind": EVALUATION,
            NOTE: f"pass@k of an evaluation, fractions: {', '.join(benchmarks)}.",
            **unscored_tag(shares),
        },
        points=tuple(sorted(points)),
        artifacts=files,
        tables=tables,
    )
