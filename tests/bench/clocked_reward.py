"""The reward executor with clocks; OpenRLHF loads this file by its path into the vLLM process.

Ours is what comes before OpenRLHF's own executor and what comes after it, less the judgement. Both
run in one piece on the event loop (graders of WAITING aside, which no measured run uses) and are
timed in processor time, so that neither waiting nor a busy machine counts.
"""

from __future__ import annotations

from contextvars import ContextVar
from time import thread_time
from typing import Any

from openrlhf.utils.agent import SingleTurnAgentExecutor

from fgrpo_bench.engines.openrlhf import reward
from tests.bench.clocked import note

_marks: ContextVar[list[float]] = ContextVar("_marks")
"""Of one rollout: our start, OpenRLHF's, its end, the judgement's start and end."""

stock, get_reward = SingleTurnAgentExecutor.execute, reward.get_reward  # type: ignore[attr-defined]


async def execute_of_openrlhf(*args: Any, **kwargs: Any) -> Any:
    marks = _marks.get()
    marks.append(thread_time())
    out = await stock(*args, **kwargs)
    marks.append(thread_time())
    return out


def clocked_grader(name: str) -> Any:
    grade = get_reward(name)

    def clocked(problem: Any, response: str) -> Any:
        marks = _marks.get()
        marks.append(thread_time())
        grade_made = grade(problem, response)
        marks.append(thread_time())
        return grade_made

    return clocked


SingleTurnAgentExecutor.execute = execute_of_openrlhf
reward.get_reward = clocked_grader  # type: ignore[attr-defined]


class AgentExecutor(reward.AgentExecutor):
    """The executor, its own parts timed."""

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        marks = [thread_time()]
        _marks.set(marks)
        out = await super().execute(*args, **kwargs)
        begun, asked, told, judged, graded = marks
        note("reward", (asked - begun) + (judged - told) + (thread_time() - graded))
        note("judging", graded - judged)
        return out
