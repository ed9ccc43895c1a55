"""What problems ask and what is right, in words.

In: an evaluated checkpoint. Out: texts by problem, read from its dataset or made by its task. Next:
draws.py and forgetting.py, which show them; fgrpo_bench.tasks.task has the words of a task.
"""

from __future__ import annotations

from typing import NamedTuple

from dashboards.queries import FileState, remembered, stamp
from dashboards.text import shortened
from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint
from fgrpo_bench.analysis.results import Results
from fgrpo_bench.core import registry
from fgrpo_bench.files.paths import DataPaths
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.specs import TaskSpec, from_dict
from fgrpo_bench.stages.tables import PROBLEMS, read_table

MAX_SUMMARY_CHARS = 70
"""Characters of a problem in words."""


class ProblemText(NamedTuple):
    """What a problem asks and wants; empty where it cannot be read any more."""

    prompt: str
    gold: str
    summary: str
    """In short, e.g. `reach 24 from 3, 2, 5, 6`."""
    right: str = ""
    """What is right in the words of the task that made the problem; empty where none did."""


def _spec(checkpoint: EvaluatedCheckpoint, _: str) -> FileState:
    return stamp([checkpoint.evaluate.spec, checkpoint.evaluate.done])


@remembered(_spec)
def _problem_texts(checkpoint: EvaluatedCheckpoint, benchmark: str) -> dict[str, ProblemText]:
    """By problem_id; empty where the files cannot be read, or the dataset is gone."""
    try:
        return _published(checkpoint, benchmark)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return {}


def _published(checkpoint: EvaluatedCheckpoint, name: str) -> dict[str, ProblemText]:
    spec = checkpoint.evaluation_spec()
    benchmark, data = spec.benchmark(name), spec.data_folder(name)
    if data is not None:
        rows = read_table(DataPaths(data).problems, PROBLEMS)
        return {
            key: ProblemText(prompt, gold, _first_line(prompt))
            for key, prompt, gold in rows.select("problem_id", "prompt", "answer").iter_rows()
        }
    task = from_dict(TaskSpec, spec.task)
    task_entry = registry.entry("tasks", task.name)
    return {
        problem.problem_id: ProblemText(
            problem.prompt,
            problem.target,
            _first_line(task_entry.in_words(problem)),
            task_entry.target_in_words(problem),
        )
        for problem in load_problems(benchmark, spec.task, None)
    }


def _first_line(prompt: str) -> str:
    lines = prompt.strip().splitlines()
    return shortened(lines[0], MAX_SUMMARY_CHARS) if lines else ""


def problem_text(checkpoint: EvaluatedCheckpoint, benchmark: str, problem: str) -> ProblemText:
    """Of one problem; all empty where it cannot be read."""
    return _problem_texts(checkpoint, benchmark).get(problem, ProblemText("", "", ""))


def problem_summaries(results: Results, benchmark: str) -> dict[str, str]:
    """What each problem asks in words, of those that can be read."""
    if not results.checkpoints:
        return {}
    texts = _problem_texts(results.checkpoints[0], benchmark)
    return {problem: text.summary for problem, text in texts.items() if text.summary}
