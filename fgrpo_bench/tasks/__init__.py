"""Tasks: generated problems with a split and demonstrations.

To add one: a module with a subclass of `Task` and its spec beside it, and a line in TASKS.
"""

from __future__ import annotations

from functools import lru_cache

from fgrpo_bench.core import registry
from fgrpo_bench.specs import TaskSpec
from fgrpo_bench.tasks.countdown import Countdown
from fgrpo_bench.tasks.maze import MazeTask
from fgrpo_bench.tasks.task import Task

__all__ = ["TASKS", "Countdown", "MazeTask", "Task", "make_task"]

TASKS: dict[str, type[Task]] = {"countdown": Countdown, "maze": MazeTask}
"""Tasks by name; each is made of its own spec."""


@lru_cache(maxsize=4)
def make_task(spec: TaskSpec) -> Task:
    """The task of a spec."""
    task: Task = registry.entry("tasks", spec.name)(spec)
    return task
