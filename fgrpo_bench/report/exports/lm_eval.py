"""lm-evaluation-harness: results_<date>.json, and samples_<task>_<date>.jsonl with draws.

Its readers take the mean of a problem's draws for pass@1, so single draws that stop are refused;
values of pass@k stand in the results whatever the design.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fgrpo_bench import __version__
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.report.exports.evaluated import PROGRAM, Evaluated, stopped, write_json_lines


def write(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<organisation>__<model>/<benchmark>/results_<date>.json and, with draws, samples_...jsonl.

    ValueError for draws of a design that stops, and of a gated benchmark.
    """
    if draws and evaluated.design is not None:
        raise stopped(evaluated, "lm-eval's sample logs have no place for that")
    date = evaluated.finished.strftime("%Y-%m-%dT%H-%M-%S.%f")
    place = folder / evaluated.model.replace("/", "__") / evaluated.benchmark
    files = [place / f"results_{date}.json"]
    if draws:
        files.append(place / f"samples_{evaluated.benchmark}_{date}.jsonl")
        write_json_lines(files[1], _samples(evaluated))
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
                "generation_kwargs": {"do_sample": True, "temperature": settings["temperature"]},
                "metric_list": [{"metric": name, "aggregation": "mean"} for name in better],
                "metadata": {
                    "version": evaluated.grader,
                    "draws": evaluated.words,
                    "n_unscored_draws": evaluated.unscored,
                },
            }
        },
        "versions": {task: evaluated.grader},
        "n-shot": {task: 0},
        "higher_is_better": {task: better},
        "n-samples": {task: {"original": n_problems, "effective": n_problems}},
        "config": {"model": settings["sampler"], "model_args": f"pretrained={evaluated.model}"},
        "model_name": evaluated.model,
        "date": evaluated.finished.timestamp(),
        "lm_eval_version": f"none ({PROGRAM} {__version__})",
    }


def _samples(evaluated: Evaluated) -> Iterator[dict[str, Any]]:
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
