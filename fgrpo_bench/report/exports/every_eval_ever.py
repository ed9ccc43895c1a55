"""Every Eval Ever 0.3.0: one JSON file an evaluated checkpoint and benchmark, with pass@k for every
k, its interval and when problems stopped; with draws, a JSON Lines file beside it.

Schema: evaleval/every_eval_ever, schemas/eval.schema.json and instance_level_eval.schema.json. The
schema has no place for a draw without a verdict: such draws are left out of the samples and counted
beside them, and the score says between which bounds they could move it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fgrpo_bench import __version__
from fgrpo_bench.analysis import LEVEL, REPLICATES
from fgrpo_bench.analysis.checkpoints import CheckpointEstimate
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.report.exports.evaluated import PROGRAM, Evaluated, write_json_lines
from fgrpo_bench.specs.cell import to_columns
from fgrpo_bench.stages.digests import sha256_file

SCHEMA = "0.3.0"


def write(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """data/<benchmark>/<organisation>/<model>/<uuid>.json, and <uuid>_samples.jsonl with draws.

    ValueError for draws of a gated benchmark.
    """
    place = Path("data", evaluated.benchmark, *evaluated.model.split("/"))
    identity = _uuid(evaluated)
    log = _log(evaluated)
    files = [folder / place / f"{identity}.json"]
    if draws:
        samples = place / f"{identity}_samples.jsonl"
        files.append(folder / samples)
        n_rows = write_json_lines(files[1], _samples(evaluated, log["evaluation_id"]))
        log["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": samples.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": sha256_file(files[1]),
            "total_rows": n_rows,
            "additional_details": {"unscored_draws_left_out": str(evaluated.unscored)},
        }
    write_json(files[0], log)
    return files


def _uuid(evaluated: Evaluated) -> uuid.UUID:
    """The same for the same evaluation: a second export writes over the first."""
    named = json.dumps([evaluated.marker.fingerprint, evaluated.benchmark, evaluated.grader])
    return uuid.UUID(bytes=hashlib.sha256(named.encode()).digest()[:16], version=4)


def _log(evaluated: Evaluated) -> dict[str, Any]:
    finished = str(int(evaluated.finished.timestamp()))
    engine = evaluated.engine
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{evaluated.benchmark}/{evaluated.model}/{finished}",
        "evaluation_timestamp": finished,
        "retrieved_timestamp": finished,
        "source_metadata": {
            "source_name": PROGRAM,
            "source_type": "evaluation_run",
            "source_organization_name": evaluated.organisation,
            "evaluator_relationship": "first_party",
        },
        "eval_library": {"name": PROGRAM, "version": __version__},
        "model_info": {
            "name": evaluated.label,
            "id": evaluated.model,
            "developer": evaluated.organisation,
            "inference_engine": {
                "name": str(engine.get("engine", evaluated.settings["sampler"])),
                "version": str(engine.get(str(engine.get("engine")), engine.get("torch", ""))),
            },
            "additional_details": {
                "deployment_type": "self_deployed",
                "model_availability": "unknown",
                **_texts(_training(evaluated)),
            },
        },
        "evaluation_results": [
            _result(evaluated, row) for row in evaluated.estimates if row.mean is not None
        ],
    }


def _training(evaluated: Evaluated) -> dict[str, Any]:
    """What made the weights; nothing of what does not hold for a base model."""
    point = evaluated.checkpoint
    return {
        "base_model": evaluated.base_model,
        **to_columns(point.cell),
        "seed": point.seed,
        "step": point.step,
        "weights_sha256": evaluated.marker.weights_sha256,
    }


def _result(evaluated: Evaluated, row: CheckpointEstimate) -> dict[str, Any]:
    settings = evaluated.settings
    sampling = {"temperature": settings["temperature"], "top_p": settings["top_p"]}
    return {
        "evaluation_result_id": f"pass_at_{row.k}",
        "evaluation_name": evaluated.benchmark,
        "source_data": _source(evaluated),
        "metric_config": {
            "evaluation_description": f"unbiased pass@{row.k}, mean over problems",
            "metric_id": "pass_at_k",
            "metric_name": f"pass@{row.k}",
            "metric_kind": "pass_rate",
            "metric_unit": "proportion",
            "metric_parameters": {"k": row.k},
            "lower_is_better": False,
            "score_type": "continuous",
            "min_score": 0.0,
            "max_score": 1.0,
            "additional_details": _texts(
                {"grader": evaluated.grader, "draws": evaluated.words, "design": _design(evaluated)}
            ),
        },
        "score_details": {
            "score": row.mean,
            "details": _texts(
                {
                    "n_unscored_draws": evaluated.unscored,
                    "were_unscored_all_wrong": row.all_wrong,
                    "were_unscored_all_right": row.all_right,
                }
            ),
            "uncertainty": _uncertainty(row),
        },
        "generation_config": {"generation_args": sampling},
    }


def _uncertainty(row: CheckpointEstimate) -> dict[str, Any]:
    known: dict[str, Any] = {"num_samples": row.n_problems}
    if row.standard_error is not None:
        method = "over problems of this one model; training seeds are not in it"
        known["standard_error"] = {"value": row.standard_error, "method": method}
    if row.low is not None and row.high is not None:
        known["num_bootstrap_samples"] = REPLICATES
        known["confidence_interval"] = {
            "lower": row.low,
            "upper": row.high,
            "confidence_level": LEVEL,
            "method": "bootstrap over problems, scaled to Student's t",
        }
    return known


def _source(evaluated: Evaluated) -> dict[str, Any]:
    dataset, n_problems = evaluated.spec.dataset, evaluated.counts.height
    if dataset is None or dataset.repository is None:
        details = _texts(
            {"n_problems": n_problems, "made_by": PROGRAM if dataset is None else None}
        )
        return {
            "dataset_name": evaluated.benchmark,
            "source_type": "other",
            "additional_details": details,
        }
    return {
        "dataset_name": evaluated.benchmark,
        "source_type": "hf_dataset",
        "hf_repo": dataset.repository,
        "samples_number": n_problems,
        "additional_details": _texts({"file": dataset.path, "revision": dataset.revision}),
    }


def _samples(evaluated: Evaluated, evaluation_id: str) -> Iterator[dict[str, Any]]:
    """A row a draw that the grader could judge, of pass@1: one draw tells nothing of a larger k."""
    design = _texts({"draws": evaluated.words, "design": _design(evaluated)})
    for problem, draws in evaluated.draws():
        for draw in draws:
            if draw["outcome"] == "unscored":
                continue
            is_correct = draw["outcome"] == "correct"
            yield {
                "schema_version": SCHEMA,
                "evaluation_id": evaluation_id,
                "model_id": evaluated.model,
                "evaluation_name": evaluated.benchmark,
                "evaluation_result_id": "pass_at_1",
                "sample_id": problem.problem_id,
                "interaction_type": "single_turn",
                "input": {"raw": problem.prompt, "reference": [problem.target]},
                "output": {"raw": [draw["response"]]},
                "answer_attribution": [
                    {
                        "turn_idx": 0,
                        "source": "output.raw",
                        "extracted_value": draw["extracted"] or "",
                        "extraction_method": evaluated.grader,
                        "is_terminal": True,
                    }
                ],
                "evaluation": {"score": float(is_correct), "is_correct": is_correct},
                "metadata": {"draw": str(draw["draw"]), **design},
            }


def _design(evaluated: Evaluated) -> str | None:
    return None if evaluated.design is None else json.dumps(evaluated.design)


def _texts(values: dict[str, Any]) -> dict[str, str]:
    """The schema's details are texts; what is not known is left out."""
    return {name: str(value) for name, value in values.items() if value is not None}
