"""The benchmark x."""

from pathlib import Path

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.prepare import read_rows
from fgrpo_bench.graders import get_grader
from fgrpo_bench.specs import config


def test_every_answer_of_the_file_is_graded_correct():
    benchmark = config.load_benchmark("x")
    dataset, grade = benchmark.dataset, get_grader(benchmark.grader)
    rows = read_rows(Path(dataset.path), [dataset.prompt_key, dataset.answer_key]).rows()
    filled = [row for row in rows if all((text or "").strip() for text in row[1:])]
    assert len(filled) == benchmark.n_problems
    for number, prompt, answer in filled[:100]:
        problem = Problem(
            benchmark=benchmark.name,
            problem_id=str(number),
            prompt=prompt,
            target=answer,
            grader=benchmark.grader,
        )
        assert grade(problem, answer).outcome == "correct", prompt
