"""The countdown task: solvable, disjoint, fixed by its seed, with many uneven solutions."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from fgrpo_bench.graders.countdown import grade, solution, value
from fgrpo_bench.tasks import make_task
from fgrpo_bench.tasks.countdown import Countdown, all_solutions
from tests.support.plans import loaded

SPEC = loaded("groupsize").experiment.train.task


@pytest.fixture(scope="module")
def task():
    return make_task(SPEC)


def problems(task):
    train = [task.problem(i) for i in range(task.n_train)]
    return train, task.heldout_problems(task.n_heldout)


def test_training_and_heldout_problems_are_disjoint_whatever_the_order_of_digits(task):
    train, heldout = (
        {(tuple(sorted(p.prompt[:4])), p.prompt[5:7]) for p in split} for split in problems(task)
    )
    assert len(train) == task.n_train and len(heldout) == task.n_heldout
    assert not train & heldout


def test_problems_with_the_same_digits_are_a_cluster_whatever_their_order_and_target(task):
    train, heldout = problems(task)
    assert all(p.cluster == "".join(sorted(p.prompt[:4])) for p in (*train, *heldout))
    clusters = {p.cluster for p in heldout}
    assert 1 < len(clusters) < len(heldout)
    assert clusters & {p.cluster for p in train}, "the split is of problems"


def test_the_solutions_are_those_that_a_search_by_hand_finds(task):
    small = Countdown(replace(SPEC, n_digits=3))
    for index in (0, 7, 100):
        problem = small.problem(index)
        digits, _, target = problem.target.partition("-")
        found = {
            a + s + b + t + c
            for a, b, c in permutations(digits)
            for s, t in product("+-*", repeat=2)
            if value(a + s + b + t + c) == int(target)
        }
        assert set(small.solutions(int(small._items[index]))) == found
        assert all_solutions(problem.target) == {solution(text) for text in found}


def test_solutions_are_enumerated_from_a_problem_alone(task):
    """Against the texts that the task enumerates, and by hand; equal digits count once."""
    for index in range(0, task.n_train, 700):
        texts = task.solutions(int(task._items[index]))
        assert all_solutions(task.problem(index).target) == {solution(text) for text in texts}
    assert all_solutions("911-9") == {"9", "9+1-1"}
    assert all_solutions("5-5") == {"5"} and all_solutions("11-90") == frozenset()
    with pytest.raises(ValueError, match="1234567-9 are not enumerated: it has 7 digits"):
        all_solutions("1234567-9")


def test_demonstrations_are_correct_and_vary(task):
    rng = np.random.default_rng(0)
    for index in range(0, task.n_train, 500):
        problem = task.problem(index)
        shown = {task.demonstration(index, rng) for _ in range(20)}
        assert all(grade(problem, answer).outcome == "correct" for answer in shown)
        assert len(shown) == min(len(shown), len(task.solutions(int(task._items[index]))))
    assert len({task.demonstration(0, rng) for _ in range(50)}) > 1


def test_targets_to_999_are_written_with_three_figures_and_have_solutions():
    hard = Countdown(replace(SPEC, max_target=999))
    of_problems = [hard.problem(index) for index in range(0, hard.n_train, 500)]
    assert {len(p.prompt) for p in of_problems} == {hard.prompt_length} == {len("3256=024:")}
    rng = np.random.default_rng(0)
    shown = hard.demonstrations(range(0, hard.n_train, 500), rng)
    assert all(grade(*pair).outcome == "correct" for pair in zip(of_problems, shown, strict=True))
    targets = [int(p.target.partition("-")[2]) for p in of_problems]
    assert max(targets) > 99 and min(targets) < 99
    largest = hard.problem(int(np.argmax([hard._targets[item] for item in hard._items])))
    assert 900 < int(largest.target.partition("-")[2]) <= 999 and largest.cluster


def test_most_problems_have_several_solutions(task):
    counts = [len(task.solutions(int(item))) for item in task._items[:500]]
    assert np.median(counts) >= 4 and max(counts) >= 20


def test_the_same_seed_gives_the_same_problems_and_another_gives_others(task):
    same, other = Countdown(SPEC), Countdown(replace(SPEC, seed=SPEC.seed + 1))
    assert same.heldout_problems(50) == task.heldout_problems(50)
    assert other.heldout_problems(1) != task.heldout_problems(1)
