"""Each SynLogic verifier on whole games: stored answers, all that solvers find, and near misses.

The games are the generated ones where they are at hand, and our own, one a task.
"""

from __future__ import annotations

import pytest

from fgrpo_bench.graders.synlogic import TASKS, grade
from tests.graders.synlogic_answers import (
    GARBAGE,
    mutated,
    near_misses,
    solved,
    stored,
    written,
)
from tests.graders.synlogic_games import GAMES, generated, problem
from tests.graders.synlogic_solvers import SOLVERS


@pytest.mark.parametrize("task", GAMES)
def test_the_answer_to_our_own_game_is_right_and_garbage_is_wrong(task):
    game, response = GAMES[task]
    assert grade(problem(task, game), response).outcome == "correct"
    assert grade(problem(task, game), f"<think>{response}</think>").outcome == "incorrect"
    wrapped = f"<think>\\boxed{{9}}</think>Thus\n<answer>{response}</answer>"
    assert grade(problem(task, game), wrapped).outcome == "correct"
    for text in GARBAGE:
        judged = grade(problem(task, game), text)
        assert judged.outcome == "incorrect", (text, judged)


@pytest.mark.parametrize("task", SOLVERS)
def test_every_solution_is_right_and_every_near_miss_wrong(task):
    game, _ = GAMES[task]
    solutions = solved(task, game, most=200)
    assert solutions
    for solution in solutions:
        assert grade(problem(task, game), written(task, solution)).outcome == "correct", solution
    for near in near_misses(task, solutions[0]):
        judged = grade(problem(task, game), written(task, near))
        assert judged.outcome == "incorrect", (near, judged)


@pytest.mark.parametrize("task", sorted(TASKS.keys() - SOLVERS.keys() - {"mathador", "wordscapes"}))
def test_a_changed_answer_to_our_own_game_is_wrong(task):
    game, response = GAMES[task]
    for text in mutated(task, response):
        judged = grade(problem(task, game), text)
        assert judged.outcome == "incorrect", (text, judged)


@pytest.mark.slow
def test_generated_games_have_right_stored_answers_and_wrong_changed_ones():
    games = generated()
    own = len(games) == len(GAMES)
    print(f"SynLogic on {'our own games' if own else 'generated games'}: {len(games)}")
    right = wrong = 0
    for task, game in games:
        answers = [written(task, solution) for solution in solved(task, game, most=3)]
        answers += [text for text in [stored(task, game)] if text is not None and not own]
        answers = answers or [GAMES[task][1]]
        for text in answers:
            judged = grade(problem(task, game), text)
            assert judged.outcome == "correct", (task, text, judged)
            right += 1
        if task in SOLVERS:
            changed = [
                written(task, near) for near in near_misses(task, solved(task, game, most=1)[0])
            ]
        else:
            changed = [] if task == "wordscapes" else mutated(task, answers[-1])
        for text in [*changed, *GARBAGE]:
            judged = grade(problem(task, game), text)
            assert judged.outcome == "incorrect", (task, text, judged)
            wrong += 1
    print(f"{right} right responses judged correct, {wrong} wrong ones incorrect")
    assert right >= len(games) and wrong > right
