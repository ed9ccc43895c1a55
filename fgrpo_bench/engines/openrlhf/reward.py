"""The reward of a rollout: OpenRLHF loads this file by its path into every vLLM actor.

A response is judged by the graders that evaluation uses, so that both judge alike, or by what the
run names as its reward. Unlike OpenRLHF's own reward functions nothing is swallowed: a grader of
ours that raises or hangs ends the run, with the reason; a function of somebody's says `unscored`
then, which earns no reward, and counts in a metric of its own.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import cache
from typing import Any

from openrlhf.utils.agent import SingleTurnAgentExecutor

from fgrpo_bench.core.problems import Grade
from fgrpo_bench.engines.openrlhf.labels import Dispatched, draw_seed, read_dispatched
from fgrpo_bench.graders import get_reward, solution_key, waits
from fgrpo_bench.graders.worker import judges

JUDGEMENT_SECONDS = 900.0
"""A judgement that takes longer ends the run, the wait for its turn not counted. Graders that can
hang end themselves long before, the start of their processes included."""


class AgentExecutor(SingleTurnAgentExecutor):  # type: ignore[misc]
    """Draws one seeded response and judges it; OpenRLHF calls `execute` once a sample."""

    def __init__(self) -> None:
        super().__init__(remote_rm_url=None)
        self._stream = 0
        self._drawn: Counter[tuple[str, int]] = Counter()

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """OpenRLHF's record of a rollout, with reward, scores and extra_logs filled in."""
        dispatched = read_dispatched(label, prompt)
        draw = self._next_draw(dispatched)
        params = copy(sampling_params)  # its numbers alone are changed
        params.seed = draw_seed(dispatched, draw)
        unscaled = params.temperature == 1.0 and params.top_p == 1.0
        if params.logprobs is None and draw == 0 and unscaled:
            params.logprobs = 0  # of the sampled token alone: one draw a group measures the KL
        out: dict[str, Any] = await super().execute(
            prompt, label, params, max_length, hf_tokenizer, llm_engine, images
        )
        if out["rollout_log_probs"] is None:
            out["rollout_log_probs"] = [float("nan")] * len(out["observation_tokens"])
        start, end = out["action_ranges"][0]
        response = hf_tokenizer.decode(
            out["observation_tokens"][start:end], skip_special_tokens=True
        )
        grade = await judge(dispatched, response)
        correct = float(grade.outcome == "correct")
        unscored = float(grade.outcome == "unscored")
        # Dynamic filtering, success rates and the focal weight go by scores.
        out.update(reward=grade.earned, scores=correct, extra_logs={"unscored": unscored})
        # beside extra_logs, of which OpenRLHF makes tensors
        out["solution"] = solution_key(dispatched.problem.grader, grade)
        return out

    def _next_draw(self, dispatched: Dispatched) -> int:
        if dispatched.stream != self._stream:  # another step: its groups are counted afresh
            self._stream, self._drawn = dispatched.stream, Counter()
        key = (dispatched.problem.problem_id, dispatched.position)
        self._drawn[key] += 1
        return self._drawn[key] - 1


async def judge(dispatched: Dispatched, response: str) -> Grade:
    """The grader's judgement; RuntimeError where it raises or does not come back."""
    problem = dispatched.problem
    where = f"grader {problem.grader!r} on problem {problem.problem_id!r}"
    grade = get_reward(problem.grader)
    try:
        if not waits(problem.grader):
            return grade(problem, response)
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def judged() -> Grade:
            loop.call_soon_threadsafe(begun.set)
            return grade(problem, response)

        judgement = loop.run_in_executor(_threads(), judged)
        await begun.wait()
        return await asyncio.wait_for(judgement, JUDGEMENT_SECONDS)
    except TimeoutError as error:
        raise RuntimeError(
            f"{where} gave no judgement within {JUDGEMENT_SECONDS:g} s: a grader must end by "
            "itself and say `unscored`"
        ) from error
    except Exception as error:
        raise RuntimeError(
            f"{where} raised {type(error).__name__}: {error}; a grader must say `unscored` instead"
        ) from error


@cache
def _threads() -> ThreadPoolExecutor:
    """A thread for each process that judges, so that none of them waits for a process."""
    return ThreadPoolExecutor(judges(1), thread_name_prefix="judge")
