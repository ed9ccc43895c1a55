"""A sweep on mazes: what its plan says of them, and what it refuses before anything runs."""

from __future__ import annotations

import pytest

from fgrpo_bench.specs import Declaration, config
from sweeps.plan import make_plan

EVALUATION = "experiment.evaluation"
MAZE = f"{EVALUATION}.benchmarks.maze"


def declared(*overrides: str, size: int = 17, n_train: int = 1_000_000) -> Declaration:
    task = f"{{name: maze, seed: 4, size: {size}, n_train: {n_train}, n_heldout: 256}}"
    return config.load(
        "smoke",
        [
            *("~experiment.train.task", f"+experiment.train.task={task}"),
            f"~{EVALUATION}.benchmarks.countdown",
            f"+benchmark@{MAZE}=maze",
            *overrides,
        ],
    )


def test_pass_at_k_is_of_the_simple_path_and_arrivals_stand_beside_it() -> None:
    plan = make_plan(declared())
    stage = next(stage for stage in plan.stages if stage.kind == "evaluate")
    assert stage.target["graders"] == {"maze": "maze-1", "maze/maze-reached": "maze-reached-1"}
    assert plan.warnings == ()


def test_a_plan_says_how_often_training_mazes_repeat() -> None:
    equal, seen = make_plan(declared("experiment.train.steps=300", size=9, n_train=900)).warnings
    assert "of the n_train=900 training mazes" in equal and "100,352 of size 9" in equal
    assert "prompts are drawn of n_train=900 training mazes: each is seen" in seen


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (f"{MAZE}.n_problems=257", "n_problems=257, but task maze has n_heldout=256: ask for"),
        ("experiment.train.eval_n_problems=300", "train.eval_n_problems=300, but task maze"),
        (f"{MAZE}.grader=walks", "unknown grader 'walks': valid ones are choice, .* maze, maze-re"),
        ("experiment.train.task.size=16", "size=16 is even: .* choose 15 or 17"),
        ("experiment.train.task.size=7", "size = 7: input should be greater than or equal to 9"),
        ("experiment.train.task.size=9", "there are 100,352 mazes of that size; lower one of them"),
        (
            f"+design@{EVALUATION}.design=staged {EVALUATION}.n_samples=1024",
            r"benchmarks.maze has extra_graders=\['maze-reached'\] under a design: problems",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_the_plan(override: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_plan(declared(*override.split(" ")))


def test_mazes_alone_can_be_drawn_under_a_design() -> None:
    staged = f"+design@{EVALUATION}.design=staged", f"{EVALUATION}.n_samples=1024"
    make_plan(declared(*staged, f"{MAZE}.extra_graders=[]"))
