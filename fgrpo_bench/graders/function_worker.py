"""The process that calls a function of somebody's as a grader; see `function`."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from functools import cache
from importlib import import_module, reload
from numbers import Real
from typing import Any, get_args

from fgrpo_bench.core.problems import Grade, Outcome
from fgrpo_bench.graders.judge_worker import serve_questions

LONGEST = 200
"""Characters of an error's text: it is stored beside every draw."""


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """Outcome, what was extracted, the reason, and `number`, or `reward` of a Grade, if any."""
    try:
        module = _module(request["folder"], request["module"], request["changed"])
        value = getattr(module, request["function"])(request["response"], request["answer"])
        return _reply(value, request["threshold"])
    except MemoryError:
        raise
    except BaseException as error:  # also SystemExit: what a function does ends no grading
        return _unscored(f"it raised {type(error).__name__}: {error}")


@cache
def _module(folder: str, name: str, changed: int) -> Any:
    """The module as its file is since `changed`, when that was written."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return reload(sys.modules[name]) if name in sys.modules else import_module(name)


def _reply(value: Any, threshold: float | None) -> dict[str, Any]:
    if isinstance(value, Grade):
        is_whole = (
            value.outcome in get_args(Outcome)
            and isinstance(value.reason, str)
            and isinstance(value.extracted, str | None)
            and (value.reward is None or _is_finite(value.reward))
        )
        if not is_whole:
            return _unscored(f"it returned {value!r}")
        reward = None if value.reward is None else float(value.reward)
        return asdict(value) | {"reason": value.reason or "no reason given", "reward": reward}
    if hasattr(value, "item"):  # NumPy's and torch's numbers
        value = value.item()
    if isinstance(value, bool) or (threshold is None and value in (0, 1)):
        return _judged(bool(value), f"it returned {value}")
    if threshold is not None and _is_finite(value):
        reason = f"it returned {float(value):g}"
        return _judged(float(value) >= threshold, reason) | {"number": float(value)}
    return _unscored(f"it returned {value!r}")


def _is_finite(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _judged(is_correct: bool, reason: str) -> dict[str, Any]:
    outcome = "correct" if is_correct else "incorrect"
    return {"outcome": outcome, "extracted": None, "reason": reason}


def _unscored(reason: str) -> dict[str, Any]:
    return {"outcome": "unscored", "extracted": None, "reason": reason[:LONGEST]}


if __name__ == "__main__":
    serve_questions(lambda: {}, judge)
