"""What MLflow shows beside the numbers: parameters, tags and descriptions.

MLflow renders descriptions as Markdown, so every name and sentence in them is escaped.
"""

from __future__ import annotations

from typing import Any

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.checkpoints import rule_in_words
from fgrpo_bench.documents.blocks import Paragraph
from fgrpo_bench.documents.markdown import escape_markdown, markdown_blocks
from fgrpo_bench.points import PointResult
from fgrpo_bench.report.narrative import heading, narrative
from fgrpo_bench.results import SweepResults
from fgrpo_bench.specs.frozen import TrainStageSpec, trained_with
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.tracking.views import views

COLOR = "mlflow.runColor"
"""Tag: the colour of a run in MLflow's charts."""
LONGEST = 5000
"""Characters of an experiment's tag that MLflow takes; a run's may be longer."""


def experiment_tags(results: SweepResults, answer: str) -> dict[str, str]:
    """Description, kind and page views of the experiment.

    answer: the words of the verdict, as Markdown.
    """
    paths = results.paths
    where = escape_markdown(f"{paths.sweep}/{paths.experiment}/{paths.version}")
    note = (
        f"{answer}\n\nA view of the files in {where} under the run root. Runs of kind cell are "
        "means over training seeds with intervals; below them are the points, one a seed; the run "
        "named report has the tables and figures."
    )
    return {
        "mlflow.note.content": shortened(note, LONGEST),
        "mlflow.experimentKind": "custom_model_development",
        **views(results),
    }


def words(analysis: Analysis) -> str:
    """Question and answer as Markdown, in the report's own words, and which checkpoints they are
    about."""
    checkpoints = Paragraph(text=f"Checkpoints: {rule_in_words(analysis.results, analysis.rule)}.")
    said = [*narrative(analysis), Paragraph(text=heading(analysis)), checkpoints]
    return markdown_blocks(said)


def report_note(answer: str) -> str:
    """Description of the run that holds the report."""
    return shortened(
        "The report's files: report.md in words, table.tex for a paper, results.csv for your own "
        f"plots, and the figures, under Artifacts.\n\n{answer}",
        LONGEST,
    )


def shortened(text: str, longest: int) -> str:
    """The text up to a line's end where it is too long for MLflow, and where to read on.

    >>> shortened("a line\\nanother", 80)
    'a line\\nanother'
    """
    if len(text) <= longest:
        return text
    left = "\n\nThe report has the rest."
    return text[: text.rfind("\n", 0, longest - len(left))].rstrip() + left


def params(results: SweepResults, point: PointResult) -> dict[str, str]:
    """What runs are compared by; a base model has only what applies to it."""
    evaluation = point.evaluation_spec()
    judged, warmup = evaluation.evaluation, trained_with(point.train, "warmup")
    named: dict[str, Any] = {"model": results.model, "method": point.method}
    if point.cell is None:
        named["seed"] = point.seed
    else:
        cell = TrainStageSpec(point.train, read_json(point.train.spec)).point
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
            "learning_rate": f"{cell.learning_rate:.4g}",
            "train_temperature": cell.train.temperature,
        }
    named |= {} if warmup is None else {"warmup_steps": warmup["steps"]}
    named |= {"n_samples": judged.n_samples, "eval_temperature": judged.temperature}
    if judged.design is not None:
        named |= {
            "design_stages": ", ".join(map(str, judged.design.stages)),
            "design_enough": judged.design.enough,
        }
    for name, benchmark in judged.benchmarks.items():
        named[f"{name}_n_problems"] = benchmark.n_problems or "all"
    return {key: str(value) for key, value in named.items()}


def tags(results: SweepResults, point: PointResult, *, failed: bool) -> dict[str, str]:
    """Identity, provenance and state of a point's run, and its description.

    failed: whether a stage of it failed and is not at work again.
    """
    paths = results.paths
    return {
        "sweep": paths.sweep,
        "experiment": paths.experiment,
        "version": paths.version,
        "point_id": point.point_id,
        "fingerprint": TrainStageSpec(point.train, read_json(point.train.spec)).fingerprint,
        "evaluation_fingerprint": point.evaluation_spec().fingerprint,
        "kind": "point",
        "state": _state(point, failed=failed),
        "method": point.method,
        "mlflow.note.content": _note(results, point),
        **source_tags(results),
    }


def source_tags(results: SweepResults) -> dict[str, str]:
    """Where a run comes from: the command, and the commit where there is one."""
    recorded = results.declaration
    named = {
        "mlflow.source.name": f"sweeps run {results.paths.sweep}",
        "mlflow.source.type": "LOCAL",
    }
    if recorded["git_commit"] is not None:
        commit = recorded["git_commit"]
        named |= {"git_commit": commit, "mlflow.source.git.commit": commit}
        named["git_dirty"] = str(recorded["git_dirty"]).lower()
    return named


def _state(point: PointResult, *, failed: bool) -> str:
    if point.is_evaluated:
        return "evaluated"
    if failed:
        return "failed"
    return "trained" if point.is_trained else "training"


def _note(results: SweepResults, point: PointResult) -> str:
    """The run in words."""
    model = escape_markdown(results.model)
    cell = point.cell
    if cell is None:
        what = f"The base model {model} of seed {point.seed}, before any RL."
    else:
        weight = f"focal_gamma = {cell.focal_gamma:g}" if cell.focal_gamma else "no focal weight"
        what = (
            f"{model} trained with {cell.method}, group size N = {cell.group_size}, "
            f"{weight}, seed {point.seed}, for {point.step} steps."
        )
    curves = ", ".join(escape_markdown(f"{name}/pass_at_k") for name in results.benchmarks)
    return (
        f"{what}\n\n`train/...`: by training step. `eval/...`: small evaluations during training. "
        f"{curves}: the final evaluation, with k as the step. All pass@k are fractions, means "
        "over problems."
    )
