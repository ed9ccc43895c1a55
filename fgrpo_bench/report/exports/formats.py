"""Evaluations in the formats of other programs: one `write_<format>` each.

In: an Evaluated, a folder, and whether draws go along. Out: the files written; ValueError for what
a format has no place for.

- Every Eval Ever 0.3.0: a JSON file per checkpoint and benchmark, with pass@k for every k, its
  interval and when problems stopped; with draws, a JSON Lines file beside it. Schema:
  evaleval/every_eval_ever, schemas/eval.schema.json and instance_level_eval.schema.json. It has no
  place for a draw without a verdict: such draws are left out of the samples and counted beside
  them, and the score says between which bounds they could move it.
- Hugging Face's `.eval_results/<benchmark>.yaml`, for the repository of a model, and only for
  benchmarks that are datasets of the Hub. It has one value, pass@1; further k, the interval and how
  draws were made stand in its notes.
- inspect_ai: an evaluation log in its JSON format, which `inspect view` opens; draws are epochs. A
  draw that the grader could not judge has no score. The log's readers average the epochs of a
  problem, so single draws that stop are refused.
- lm-evaluation-harness: results_<date>.json, and samples_<task>_<date>.jsonl with draws. Its
  readers take the mean of a problem's draws for pass@1, so single draws that stop are refused;
  values of pass@k stand in the results whatever the design.
- passk-inference: a line {"id", "c", "n"} per problem, a file per checkpoint and benchmark. Its
  pass@k takes every draw for one of a fixed number, so draws that stop are refused. n counts the
  draws that the grader could judge.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fgrpo_bench import __version__
from fgrpo_bench.analysis import LEVEL, REPLICATES
from fgrpo_bench.analysis.checkpoints import CheckpointEstimate
from fgrpo_bench.files.whole import write_json, write_text, write_whole
from fgrpo_bench.report.exports.evaluated import PROGRAM, Evaluated, check_fixed, write_json_lines
from fgrpo_bench.specs.cell import to_columns
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file

SCHEMA = "0.3.0"


def write_every_eval_ever(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
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
                "name": evaluated.sampler,
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
            "additional_details": {"grader": evaluated.grader, **_stopping(evaluated)},
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
        "generation_config": {
            "generation_args": evaluated.sampling,
            "additional_details": _json_texts(evaluated.prompting),
        },
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
    drawn = _stopping(evaluated)
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
                "metadata": {"draw": str(draw["draw"]), **drawn},
            }


def _stopping(evaluated: Evaluated) -> dict[str, str]:
    """How many draws problems made, and the design where they stop early."""
    design = evaluated.checkpoint.stopping()
    stops = {} if design.is_fixed else {"design": json.dumps(asdict(design))}
    return {"draws": design.text, **stops}


def _texts(values: dict[str, Any]) -> dict[str, str]:
    """The schema's details are texts; what is not known is left out."""
    return {name: str(value) for name, value in values.items() if value is not None}


def _json_texts(values: dict[str, Any]) -> dict[str, str]:
    """Likewise, so that a text and a list of texts are told apart."""
    return {name: json.dumps(value) for name, value in values.items()}


def write_hf_eval_results(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<model>/.eval_results/<benchmark>.yaml. ValueError for a benchmark that is no dataset of the
    Hub, without pass@1, and with draws, for which there is no place."""
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    if draws:
        raise ValueError("--draws: hf-eval-results holds one value a benchmark; leave --draws out")
    dataset = evaluated.spec.dataset
    if dataset is None or dataset.repository is None:
        raise ValueError(
            f"benchmark {evaluated.benchmark} is no dataset of the Hub, and hf-eval-results names "
            "one: export the others with --benchmark, or take --to every-eval-ever"
        )
    by_k = {row.k: row for row in evaluated.estimates if row.mean is not None}
    if 1 not in by_k:
        raise ValueError(
            f"{evaluated.label} on {evaluated.benchmark} has no pass@1, which is the value of "
            "hf-eval-results: add 1 to experiment.evaluation.ks and run the sweep again"
        )
    notes = [
        f"pass@{k} = {row.mean:.2%}"
        + (f" [{row.low:.2%}, {row.high:.2%}]" if row.low is not None else "")
        for k, row in by_k.items()
    ]
    unscored = f"; {evaluated.unscored:,} draws could not be judged" if evaluated.unscored else ""
    drawn_at = "".join(f"{key} {value:g}; " for key, value in evaluated.sampling.items())
    drawn_at += "".join(f"{key} {text}; " for key, text in _json_texts(evaluated.prompting).items())
    entry = EvalResultEntry(
        dataset_id=dataset.repository,
        task_id=evaluated.benchmark,
        dataset_revision=dataset.revision,
        value=round(100 * float(by_k[1].mean or 0.0), 4),
        date=evaluated.finished.isoformat(),
        notes=f"{', '.join(notes)} (95% intervals over problems); "
        f"{evaluated.checkpoint.stopping().text}{unscored}; {drawn_at}{evaluated.grader}",
    )
    path = folder / evaluated.model / ".eval_results" / f"{evaluated.benchmark}.yaml"
    text = yaml.safe_dump(eval_result_entries_to_yaml([entry]), sort_keys=False, allow_unicode=True)
    write_text(path, text)
    return [path]


VERSION = 2
"""Of the log's format."""
REASONS = {"stop": "stop", "length": "max_tokens"}
"""Of the end of a response, as inspect names them."""


def write_inspect_log(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<date>_<benchmark>_<model>_<id>.json. ValueError for draws of a design that stops, and of a
    gated benchmark."""
    if draws:
        check_fixed(evaluated, "inspect averages the draws of a problem")
    date, model = evaluated.finished.strftime("%Y-%m-%dT%H-%M-%S"), evaluated.model.split("/")[1]
    # `_` separates the parts, of which the viewer reads the second and the last
    parts = [date, *(name.replace("_", "-") for name in (evaluated.benchmark, model))]
    path = folder / f"{'_'.join([*parts, _identity(evaluated)])}.json"
    head = json.dumps(_head(evaluated), allow_nan=False)

    def stream(aside: Path) -> None:
        with aside.open("w", encoding="utf-8") as file:
            file.write(head[:-1])
            for i, sample in enumerate(_inspect_samples(evaluated) if draws else ()):
                file.write(', "samples": [' if not i else ",\n")
                file.write(json.dumps(sample, allow_nan=False))
            file.write("]}" if draws else "}")

    write_whole(path, stream)
    return [path]


def _identity(evaluated: Evaluated) -> str:
    """Of a log; the viewer shows one of those with the same, as if the others were retries."""
    of = [evaluated.model, evaluated.benchmark, evaluated.marker.fingerprint]
    return fingerprint(of)[:22]


def _head(evaluated: Evaluated) -> dict[str, Any]:
    created, settings = evaluated.finished.isoformat(), evaluated.settings
    counts = evaluated.counts
    n_drawn, identity = int(counts["n_drawn"].sum()), _identity(evaluated)
    metrics = {}
    for row in evaluated.estimates:
        if row.mean is None:
            continue
        metrics[f"pass@{row.k}"] = {
            "name": f"pass@{row.k}",
            "value": row.mean,
            "params": {"k": row.k},
            "metadata": {"low": row.low, "high": row.high, "standard_error": row.standard_error},
        }
    return {
        "version": VERSION,
        "status": "success",
        "eval": {
            "eval_id": identity,
            "run_id": identity,
            "task_id": identity,
            "created": created,
            "task": evaluated.benchmark,
            "dataset": {"name": evaluated.benchmark, "samples": counts.height},
            "model": evaluated.model,
            "config": {"epochs": settings["n_samples"]},
            "model_generate_config": {
                **evaluated.sampling,
                **({"stop_seqs": evaluated.stop} if evaluated.stop else {}),
            },
            "packages": {PROGRAM: __version__},
            "metadata": {
                "setting": evaluated.label,
                "draws": evaluated.checkpoint.stopping().text,
                **{key: value for key, value in evaluated.prompting.items() if key != "stop"},
            },
        },
        "plan": {"name": "plan", "steps": [{"solver": "generate"}]},
        "results": {
            "total_samples": n_drawn,
            "completed_samples": n_drawn,
            "scores": [
                {
                    "name": evaluated.grader,
                    "scorer": evaluated.grader,
                    "scored_samples": int(counts["n_scored"].sum()),
                    "unscored_samples": evaluated.unscored,
                    "metrics": metrics,
                }
            ],
        },
        "stats": {"started_at": created, "completed_at": created},
    }


def _inspect_samples(evaluated: Evaluated) -> Iterator[dict[str, Any]]:
    for problem, draws in evaluated.draws():
        for draw in draws:
            judged = {
                "value": "C" if draw["outcome"] == "correct" else "I",
                "answer": draw["extracted"],
                "explanation": draw["reason"],
            }
            message = {"role": "assistant", "content": draw["response"]}
            yield {
                "id": problem.problem_id,
                "epoch": draw["draw"] + 1,
                "input": problem.prompt,
                "target": problem.target,
                "messages": [{"role": "user", "content": problem.prompt}, message],
                "output": {
                    "model": evaluated.model,
                    "choices": [
                        {
                            "message": message,
                            "stop_reason": REASONS.get(str(draw["finish_reason"]), "unknown"),
                        }
                    ],
                },
                "scores": {} if draw["outcome"] == "unscored" else {evaluated.grader: judged},
            }


def write_lm_eval(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<organisation>__<model>/<benchmark>/results_<date>.json and, with draws, samples_...jsonl.

    ValueError for draws of a design that stops, and of a gated benchmark.
    """
    if draws:
        check_fixed(evaluated, "lm-eval's sample logs have no place for that")
    date = evaluated.finished.strftime("%Y-%m-%dT%H-%M-%S.%f")
    place = folder / evaluated.model.replace("/", "__") / evaluated.benchmark
    files = [place / f"results_{date}.json"]
    if draws:
        files.append(place / f"samples_{evaluated.benchmark}_{date}.jsonl")
        write_json_lines(files[1], _lm_eval_samples(evaluated))
    write_json(files[0], _results(evaluated))
    return files


def _results(evaluated: Evaluated) -> dict[str, Any]:
    task, settings = evaluated.benchmark, evaluated.settings
    scores: dict[str, Any] = {"alias": task}
    better: dict[str, bool] = {}
    for row in evaluated.estimates:
        if row.mean is None:
            continue
        scores[f"pass@{row.k},none"] = row.mean
        error = row.standard_error
        scores[f"pass@{row.k}_stderr,none"] = "N/A" if error is None else error
        better[f"pass@{row.k}"] = True
    n_problems = evaluated.counts.height
    dataset = evaluated.spec.dataset
    return {
        "results": {task: scores},
        "group_subtasks": {task: []},
        "configs": {
            task: {
                "task": task,
                "dataset_path": (dataset and dataset.repository) or PROGRAM,
                "output_type": "generate_until",
                "repeats": settings["n_samples"],
                "num_fewshot": evaluated.n_few_shot,
                **({"gen_prefix": evaluated.prefix} if evaluated.prefix else {}),
                "generation_kwargs": {
                    "do_sample": True,
                    **evaluated.sampling,
                    **({"until": evaluated.stop} if evaluated.stop else {}),
                },
                "metric_list": [{"metric": name, "aggregation": "mean"} for name in better],
                "metadata": {
                    "version": evaluated.grader,
                    "draws": evaluated.checkpoint.stopping().text,
                    "n_unscored_draws": evaluated.unscored,
                },
            }
        },
        "versions": {task: evaluated.grader},
        "n-shot": {task: evaluated.n_few_shot},
        "higher_is_better": {task: better},
        "n-samples": {task: {"original": n_problems, "effective": n_problems}},
        "config": {"model": evaluated.sampler, "model_args": f"pretrained={evaluated.model}"},
        "model_name": evaluated.model,
        "date": evaluated.finished.timestamp(),
        "lm_eval_version": f"none ({PROGRAM} {__version__})",
    }


def _lm_eval_samples(evaluated: Evaluated) -> Iterator[dict[str, Any]]:
    """A row a problem with all its draws. `correct` is of those that could be judged, null where
    there is none; `unscored` is the share of the others."""
    for number, (problem, draws) in enumerate(evaluated.draws()):
        outcomes = [draw["outcome"] for draw in draws]
        judged = len(outcomes) - outcomes.count("unscored")
        responses = [draw["response"] for draw in draws]
        doc = {"problem_id": problem.problem_id, "prompt": problem.prompt, "target": problem.target}
        yield {
            "doc_id": number,
            "doc": doc,
            "target": problem.target,
            "arguments": {"gen_args_0": {"arg_0": problem.prompt}},
            "resps": [responses],
            "filtered_resps": responses,
            "filter": "none",
            "metrics": ["correct", "unscored"],
            "doc_hash": _hash(json.dumps(doc)),
            "prompt_hash": _hash(problem.prompt),
            "target_hash": _hash(problem.target),
            "correct": outcomes.count("correct") / judged if judged else None,
            "unscored": outcomes.count("unscored") / len(outcomes),
        }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_passk_inference(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<benchmark>/<model>.jsonl. ValueError for draws that stop, for problems of which no draw
    could be judged, and with draws, for which there is no place."""
    if draws:
        raise ValueError("--draws: passk-inference reads counts alone; leave --draws out")
    check_fixed(evaluated, "passk-inference reads a number of draws and of correct ones")
    rows = evaluated.counts.select("problem_id", "n_correct", "n_scored").rows()
    empty = [name for name, _, n in rows if not n]
    if empty:
        raise ValueError(
            f"{evaluated.label} on {evaluated.benchmark}: no draw of problem {empty[0]} could be "
            "judged, and passk-inference has no place for a problem without draws; grade again"
        )
    path = folder / evaluated.benchmark / f"{evaluated.model.split('/')[1]}.jsonl"
    write_json_lines(path, ({"id": name, "c": c, "n": n} for name, c, n in rows))
    return [path]
