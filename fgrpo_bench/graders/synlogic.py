"""SynLogic: its tasks have no graders here yet, so every response is unscored, never wrong."""

from __future__ import annotations

from fgrpo_bench.records import Grade, Problem


def grade(problem: Problem, response: str) -> Grade:
    """Unscored; problem.target holds the task's name and the game's data."""
    return Grade(outcome="unscored", extracted=None, reason="SynLogic has no grader yet")
