"""Each SynLogic verifier on responses of 256 kB, hostile ones and one that ends with its answer."""

from __future__ import annotations

import json
import time
from statistics import median

from fgrpo_bench.graders.synlogic import grade
from fgrpo_bench.records import Problem
from tests.support.synlogic_answers import hostile
from tests.support.synlogic_games import GAMES, problem

LENGTH = 2**18
"""Characters of a response."""
GOAL_MS = 10.0


def main() -> None:
    """Print the median and the longest of all texts for each task, the best of three, in ms."""
    texts, longest = list(hostile(LENGTH)), dict[str, float]()
    for task, (game, response) in GAMES.items():
        gold = problem(task, game)
        ended = "word " * (LENGTH // 5) + response
        times = [min(seconds(gold, text) for _ in range(3)) for text in [*texts, ended]]
        longest[task] = 1e3 * max(times)
        print(
            json.dumps(
                {"task": task, "median_ms": 1e3 * median(times), "longest_ms": longest[task]}
            )
        )
    slowest = max(longest, key=lambda task: longest[task])
    below = sum(each < GOAL_MS for each in longest.values())
    facts = {"verifiers below the goal": f"{below} of {len(longest)}", "goal, ms": GOAL_MS}
    print(json.dumps(facts | {"slowest": slowest, "its longest, ms": longest[slowest]}))


def seconds(gold: Problem, text: str) -> float:
    """CPU seconds of one judgement."""
    begun = time.process_time()
    grade(gold, text)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
