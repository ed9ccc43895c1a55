"""What a task need not say itself."""

from dataclasses import dataclass

import numpy as np
import pytest

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.tasks import Task
from fgrpo_bench.tasks.maze import MazeSpec, MazeTask


@dataclass
class Counting(Task):
    """Count to a number."""

    spec = None  # type: ignore[assignment]
    n_train: int = 9
    n_heldout: int = 3

    def problem(self, index: int) -> Problem:
        text = f"to {index + 1}?\n"
        return Problem(
            benchmark="x", problem_id=text, prompt=text, target=str(index), grader="countdown"
        )

    def demonstration(self, index: int, rng: np.random.Generator) -> str:
        return "|" * (index + 1)


def test_lengths_and_characters_are_read_off_problems_and_demonstrations():
    task = Counting()
    assert task.vocabulary == "\n 0123456789?ot|"
    assert (task.prompt_length, task.response_length) == (7, 9)
    assert task.in_words(task.problem(11)) == "to 12?\n"
    assert task.target_in_words(task.problem(11)) == "11"
    assert [problem.prompt for problem in task.heldout_problems(2)] == ["to 10?\n", "to 11?\n"]
    with pytest.raises(ValueError, match=r"Counting has 20,004 problems.* give it vocabulary"):
        _ = Counting(20_001).vocabulary


def test_a_task_without_one_of_its_members_is_not_made():
    with pytest.raises(TypeError, match=r"abstract method '?problem"):
        type("Nothing", (Task,), {"demonstration": Counting.demonstration})()


def test_mazes_of_both_splits_are_made_together():
    task = MazeTask(MazeSpec(name="maze", seed=4, size=9, n_train=3_000, n_heldout=500))
    mixed = task.problems([3_000, 5, 3_499])
    assert mixed == [task.problem(3_000), task.problem(5), task.problem(3_499)]
    assert [problem.problem_id for problem in mixed] == ["9-4-h0", "9-4-t5", "9-4-h499"]
