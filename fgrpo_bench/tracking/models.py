"""Evaluated checkpoints as logged models: where each is and what it scored, from files alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from fgrpo_bench.documents.markdown import escape_markdown
from fgrpo_bench.kinds import evaluate
from fgrpo_bench.points import PointResult
from fgrpo_bench.results import SweepResults
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.tracking.describe import source_tags
from fgrpo_bench.tracking.source import Mean
from fgrpo_bench.tracking.state import Dataset, MetricPoint, ModelState, Score

DIGITS = 16
"""Of a prompts' digest; MLflow keeps at most 36."""
FORBIDDEN = "/:.%\"'"
"""In the name of a logged model."""
SHARED = ("model", "method", "algorithm", "group_size", "focal_gamma", "seed")
"""Params that a checkpoint has of its run."""


def checkpoint_model(
    results: SweepResults,
    point: PointResult,
    params: Mapping[str, str],
    means: Sequence[Mean],
    unscored: Mapping[str, float],
) -> ModelState:
    """The model of the checkpoint that stands for `point`, which is evaluated.

    params: of the run. means: its pass@k. unscored: share of its draws that the grader could not
    judge, by benchmark.
    """
    done = read_json(point.evaluate.done)
    folder = point.train.checkpoint(point.step).resolve()
    shown = {key: params[key] for key in SHARED if key in params}
    shown |= {"point_id": point.point_id, "step": str(point.step)}
    if "weights_sha256" in done:
        shown["weights_sha256"] = done["weights_sha256"]
    name = f"{point.point_id}-step-{point.step:05d}"
    paths, finished = results.paths, int(done["finished_ms"])
    return ModelState(
        name=name.translate(dict.fromkeys(map(ord, FORBIDDEN), "_")),
        step=point.step,
        created=finished,
        params=shown,
        tags={
            "sweep": paths.sweep,
            "experiment": paths.experiment,
            "version": paths.version,
            "point_id": point.point_id,
            "step": str(point.step),
            "checkpoint": str(folder),
            "mlflow.model.isExternal": "true",
            "mlflow.note.content": f"The checkpoint of {escape_markdown(point.point_id)} after "
            f"{point.step} steps. The weights stay where they are: "
            f"{escape_markdown(str(folder))}",
            **source_tags(results),
        },
        scores=tuple(sorted(_scores(point, means, unscored, finished))),
    )


def _scores(
    point: PointResult, means: Sequence[Mean], unscored: Mapping[str, float], timestamp: int
) -> Iterator[Score]:
    """Three keys a benchmark however many k there are: pass@k at the smallest and the largest k,
    and the share of draws that the grader could not judge."""
    spec = point.evaluation_spec()
    for benchmark, share in unscored.items():
        dataset = _dataset(point, benchmark, spec)
        own = [mean for mean in means if mean.column == benchmark]
        for metric in at_ends(own, point, timestamp):
            yield Score(metric, dataset)
        key = f"{benchmark}/unscored_fraction"
        yield Score(MetricPoint(key, point.step, timestamp, share), dataset)


def at_ends(means: Sequence[Mean], point: PointResult, timestamp: int) -> Iterator[MetricPoint]:
    """pass@k at the smallest and the largest k as plain metrics, by step."""
    ks = point.evaluation_spec().evaluation.ks
    for mean in means:
        if mean.k in (ks[0], ks[-1]):
            yield MetricPoint(f"{mean.column}/pass_at_{mean.k}", point.step, timestamp, mean.value)


def _dataset(point: PointResult, benchmark: str, spec: evaluate.Spec) -> Dataset:
    """The digest is of the prompts as they were drawn from, or of the settings that make them
    where results of an older version did not record it."""
    manifest = point.evaluate.benchmark(benchmark).manifest
    recorded = read_json(manifest).get("prompts_sha256") if manifest.exists() else None
    made_of = spec.made_of(benchmark)
    return Dataset(
        name=benchmark,
        digest=(recorded or fingerprint(made_of))[:DIGITS],
        source=json.dumps(made_of, sort_keys=True),
        profile=json.dumps({"num_rows": point.passk(benchmark)["problem_id"].n_unique()}),
    )
