"""The reward executor with clocks; OpenRLHF loads this file by its path into the vLLM process.

A coroutine is timed by its own steps on the event loop and in processor time, so that neither
waiting nor a busy machine counts.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Generator
from typing import Any

from openrlhf.utils.agent import SingleTurnAgentExecutor

from fgrpo_bench.training.openrlhf import reward
from tests.bench.clocked import note


class Steps:
    """A coroutine whose time on the event loop is noted when it ends."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], clock: str) -> None:
        self._coroutine, self._clock = coroutine, clock

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, seconds, sent = self._coroutine.__await__(), 0.0, None
        while True:
            begun = time.thread_time()
            try:
                waiting = steps.send(sent)
            except StopIteration as end:
                note(self._clock, seconds + time.thread_time() - begun)
                return end.value
            seconds += time.thread_time() - begun
            sent = yield waiting


stock, get_grader = SingleTurnAgentExecutor.execute, reward.get_grader


async def execute_of_openrlhf(*args: Any, **kwargs: Any) -> Any:
    return await Steps(stock(*args, **kwargs), "reward/stock")


def clocked_grader(name: str) -> Any:
    grade = get_grader(name)

    def clocked(problem: Any, response: str) -> Any:
        begun = time.thread_time()
        try:
            return grade(problem, response)
        finally:
            note("judging", time.thread_time() - begun)

    return clocked


SingleTurnAgentExecutor.execute = execute_of_openrlhf
reward.get_grader = clocked_grader


class AgentExecutor(reward.AgentExecutor):
    """The executor, its steps timed."""

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        return await Steps(super().execute(*args, **kwargs), "reward")
