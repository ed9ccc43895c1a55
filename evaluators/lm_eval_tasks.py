"""Our prompts as tasks for lm-evaluation-harness: `fgrpo-bench evaluate export-lm-eval`.

In: names of benchmarks. Out: a folder with YAML, problems and one Python file. A task is judged
there by this package's graders, so fgrpo_bench has to be installed beside lm-eval. With
--log_samples its log holds every draw, which can be imported (interchange).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.whole import write_many
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.specs import config

from .standalone import data_folder
from .stored import benchmark_spec

UTILS = '''"""Judges what lm-eval has drawn by the graders of fgrpo_bench."""

from fgrpo_bench.graders import get_grader
from fgrpo_bench.core.problems import Problem


def process_results(doc, results):
    """Share of correct and of unscored draws of a problem."""
    drawn = results[0] if isinstance(results[0], list) else results
    problem = Problem(
        benchmark=doc["benchmark"],
        problem_id=doc["problem_id"],
        prompt=doc["prompt"],
        target=doc["target"],
        grader=doc["grader"],
    )
    outcomes = [get_grader(doc["grader"])(problem, text).outcome for text in drawn]
    return {
        "correct": outcomes.count("correct") / len(outcomes),
        "unscored": outcomes.count("unscored") / len(outcomes),
    }
'''


def export(names: Sequence[str], folder: Path, *, root: Path, n_samples: int) -> str:
    """Write the tasks of some benchmarks; returns what to run, for a person.

    Raises ValueError for a benchmark without a dataset, FileNotFoundError for one not fetched.
    """
    settings = config.compose(["checkpoint=none"], root="evaluate")
    tokens = settings["response_tokens"]
    temperature = settings["evaluation"]["temperature"]
    files = {"utils.py": UTILS}
    keys = [word for word in names if "=" in word]
    names = [word for word in names if "=" not in word]
    if keys and len(names) != 1:
        raise ValueError(f"{' '.join(keys)} needs exactly one benchmark to apply to: name one")
    gated = []
    for name in names:
        spec, dataset = benchmark_spec(name, keys)
        gated += [name] if dataset.gated else []
        problems = load_problems(spec, None, data_folder(root, name, dataset))
        files[f"{name}.jsonl"] = "".join(_row(problem) for problem in problems)
        source = str((folder / f"{name}.jsonl").absolute())
        task = _task(name, source, n_samples=n_samples, tokens=tokens, temperature=temperature)
        files[f"{name}.yaml"] = task
    write_many(folder, files)
    tasks = ",".join(f"fgrpo_{name}" for name in names)
    system = json.dumps(settings["prompt"]["system"], ensure_ascii=False)
    return (
        f"wrote {', '.join(files)} into {folder}\n{_warning(gated)}"
        f"lm_eval --model hf --model_args pretrained=<model> --include_path {folder} "
        f"--tasks {tasks} --apply_chat_template --system_instruction {system} --log_samples "
        "--output_path out\n"
        "fgrpo-bench evaluate import out/<model>/samples_fgrpo_<benchmark>_<date>.jsonl "
        "--benchmark <benchmark> --name <name>"
    )


def _warning(gated: Sequence[str]) -> str:
    """What is said where benchmarks are among them whose text must not be passed on."""
    if not gated:
        return ""
    named = ", ".join(f"{name}.jsonl" for name in gated)
    return (
        f"warning: {named} holds the problems and answers of a gated benchmark as text, which its "
        "publisher asks not to show to others: keep it out of repositories and off web pages, and "
        "lm-eval's sample logs likewise\n"
    )


def _row(problem: Problem) -> str:
    fields = ("benchmark", "problem_id", "prompt", "target", "grader")
    return json.dumps({name: getattr(problem, name) for name in fields}) + "\n"


def _task(name: str, source: str, *, n_samples: int, tokens: int, temperature: float) -> str:
    """A task as lm-eval reads it: all of a problem's draws are judged, not the first alone."""
    return f"""task: fgrpo_{name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {json.dumps(source)}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{target}}}}"
process_results: !function utils.process_results
repeats: {n_samples}
filter_list:
  - name: all
    filter: [{{function: take_first_k, k: {n_samples}}}]
generation_kwargs:
  {{until: [], do_sample: true, temperature: {temperature}, max_gen_toks: {tokens}}}
metric_list:
  - {{metric: correct, aggregation: mean, higher_is_better: true}}
  - {{metric: unscored, aggregation: mean, higher_is_better: false}}
metadata: {{version: 1.0}}
"""
