"""Each SynLogic verifier on responses of 256 kB, hostile ones and one that ends with its answer."""

from __future__ import annotations

import json
import time
from statistics import median

from fgrpo_bench.graders.synlogic import grade
from fgrpo_bench.records import Problem
from tests.support.synlogic_answers import hostile
from tests.support.synlogic_games import GAMES, problem


def main() -> None:
    """Print the median and the longest of all texts for each task, the best of three, in ms."""
    texts = list(hostile())
    for task, (game, response) in GAMES.items():
        gold = problem(task, game)
        times = [
            min(seconds(gold, text) for _ in range(3))
            for text in [*texts, "word " * 51_200 + response]
        ]
        facts = {"task": task, "median_ms": 1e3 * median(times), "longest_ms": 1e3 * max(times)}
        print(json.dumps(facts))


def seconds(gold: Problem, text: str) -> float:
    """CPU seconds of one judgement."""
    begun = time.process_time()
    grade(gold, text)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
