"""What MLflow shows beside the numbers: parameters, tags, descriptions and the page view."""

from __future__ import annotations

import json
from typing import Any

from fgrpo_bench.results import PointResult, SweepResults
from fgrpo_bench.specs import SweepPoint, from_dict

IDENTITY = ("sweep", "experiment", "version", "point_id", "fingerprint")
"""Tags that together name one run; the run's MLflow name and id play no part."""

VIEW = "overview"
"""Name of the experiment's page view that shows the columns which answer the question."""


def experiment_tags(results: SweepResults) -> dict[str, str]:
    """Description, kind and page view of the experiment."""
    paths = results.paths
    question = results.declaration["declaration"]["sweep"]["question"]
    return {
        "mlflow.note.content": f"{question}\n\nA view of the files in `{paths.sweep}/"
        f"{paths.experiment}/` under the run root, where the report stands too.",
        "mlflow.experimentKind": "custom_model_development",
        f"mlflow.sharedViewState.{VIEW}": _view(results),
    }


def _view(results: SweepResults) -> str:
    """The runs page as MLflow's own Share button would store it: columns, widths and order."""
    ks = results.declaration["declaration"]["experiment"]["evaluation"]["ks"]
    widths = {"method": 90, "group_size": 105, "focal_gamma": 115, "seed": 70}
    columns = {f"params.`{key}`": width for key, width in widths.items()}
    for benchmark in results.benchmarks:
        columns |= {f"metrics.`{benchmark}/pass_at_{k}`": 175 for k in (ks[0], ks[-1])}
    return json.dumps(
        {
            "selectedColumns": list(columns),
            "columnOrder": list(columns),  # widths count only for columns that are listed here
            "columnWidths": columns,
            "runsHiddenMode": "SHOW_ALL",
            "orderByKey": list(columns)[-1],
            "orderByAsc": False,
        }
    )


def params(
    results: SweepResults, point: PointResult, train: dict[str, Any], evaluation: dict[str, Any]
) -> dict[str, str]:
    """What runs are compared by; a base model has only what applies to it."""
    judged = evaluation["evaluation"]
    named: dict[str, Any] = {"model": results.model, "method": point.method}
    if point.algorithm is None:
        named |= {"seed": point.seed, **_warmup(train["identity"].get("warmup"))}
    else:
        cell = from_dict(SweepPoint, train["point"])
        named |= {
            "algorithm": cell.algorithm.name,
            "group_size": cell.group_size,
            "focal_gamma": cell.focal_gamma,
            "seed": cell.seed,
            "steps": cell.train.steps,
            "budget": cell.train.budget,
            "prompts_per_step": cell.prompts_per_step,
            "rollouts_per_step": cell.prompts_per_step * cell.group_size,
            "updates_per_batch": cell.train.updates_per_batch,
            "learning_rate": cell.train.learning_rate,
            "train_temperature": cell.train.temperature,
            **_warmup(train["identity"]["train"]["warmup"]),
        }
    named |= {"n_samples": judged["n_samples"], "eval_temperature": judged["temperature"]}
    for name, benchmark in judged["benchmarks"].items():
        named[f"{name}_n_problems"] = benchmark["n_problems"] or "all"
    return {key: str(value) for key, value in named.items()}


def _warmup(warmup: dict[str, Any] | None) -> dict[str, int]:
    return {} if warmup is None else {"warmup_steps": warmup["steps"]}


def tags(
    results: SweepResults, point: PointResult, train: dict[str, Any], evaluation: dict[str, Any]
) -> dict[str, str]:
    """Identity, provenance and state of a run, and its description."""
    paths, recorded = results.paths, results.declaration
    named = {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "point_id": point.point_id,
        "fingerprint": train["fingerprint"],
        "evaluation_fingerprint": evaluation["fingerprint"],
        "state": _state(point),
        "method": point.method,
        "mlflow.note.content": _note(results, point),
        "mlflow.source.name": f"sweeps run {paths.sweep}",
        "mlflow.source.type": "LOCAL",
    }
    if recorded["git_commit"] is not None:
        commit = recorded["git_commit"]
        named |= {"git_commit": commit, "mlflow.source.git.commit": commit}
        named["git_dirty"] = str(recorded["git_dirty"]).lower()
    return named


def _state(point: PointResult) -> str:
    if point.is_evaluated:
        return "evaluated"
    return "trained" if point.is_trained else "training"


def _note(results: SweepResults, point: PointResult) -> str:
    """The run in words."""
    if point.group_size is None:
        what = f"The base model {results.model} of seed {point.seed}, before any RL."
    else:
        weight = f"focal_gamma = {point.focal_gamma:g}" if point.focal_gamma else "no focal weight"
        what = (
            f"{results.model} trained with {point.method}, group size N = {point.group_size}, "
            f"{weight}, seed {point.seed}, for {point.step} steps."
        )
    benchmarks = ", ".join(f"`{name}/pass_at_k`" for name in results.benchmarks)
    return (
        f"{what}\n\n`train/...`: by training step. `eval/...`: small evaluations during training. "
        f"{benchmarks}: the final evaluation, with k as the step. All pass@k are fractions, means "
        "over problems."
    )
