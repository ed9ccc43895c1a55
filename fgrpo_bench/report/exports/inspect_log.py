"""inspect_ai: an evaluation log in its JSON format, which `inspect view` opens; draws are epochs.

A draw that the grader could not judge has no score. The log's readers average the epochs of a
problem, so single draws that stop are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fgrpo_bench import __version__
from fgrpo_bench.files.whole import write_whole
from fgrpo_bench.report.exports.evaluated import PROGRAM, Evaluated, stopped
from fgrpo_bench.specs.fingerprint import fingerprint

VERSION = 2
"""Of the log's format."""
REASONS = {"stop": "stop", "length": "max_tokens"}
"""Of the end of a response, as inspect names them."""


def write(evaluated: Evaluated, folder: Path, *, draws: bool) -> list[Path]:
    """<date>_<benchmark>_<model>_<id>.json. ValueError for draws of a design that stops, and of a
    gated benchmark."""
    if draws and evaluated.design is not None:
        raise stopped(evaluated, "inspect averages the draws of a problem")
    date, model = evaluated.finished.strftime("%Y-%m-%dT%H-%M-%S"), evaluated.model.split("/")[1]
    # `_` separates the parts, of which the viewer reads the second and the last
    parts = [date, *(name.replace("_", "-") for name in (evaluated.benchmark, model))]
    path = folder / f"{'_'.join([*parts, _identity(evaluated)])}.json"
    head = json.dumps(_head(evaluated), allow_nan=False)

    def stream(aside: Path) -> None:
        with aside.open("w", encoding="utf-8") as file:
            file.write(head[:-1])
            for i, sample in enumerate(_samples(evaluated) if draws else ()):
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
            "model_generate_config": {"temperature": settings["temperature"]},
            "packages": {PROGRAM: __version__},
            "metadata": {"setting": evaluated.label, "draws": evaluated.words},
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


def _samples(evaluated: Evaluated) -> Iterator[dict[str, Any]]:
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
