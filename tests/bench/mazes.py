"""Mazes a second at 17 x 17, against Prim written out maze by maze, in the same run.

Both grow the same kind of tree; ours also draws its numbers from the maze's seed, excludes held-out
mazes and writes the prompt. The two take turns, so that other work on the machine falls on both.
"""

import json
import random
import time
from statistics import median

from fgrpo_bench.tasks.maze import Maze, MazeSpec

SPEC = MazeSpec(name="maze", seed=4, size=17, n_train=1_000_000, n_heldout=256)
MAZES, PLAIN, TURNS = 20_000, 500, 5
GOAL = 20_000
"""Mazes a second of one core."""


def plain(width: int, rng: random.Random) -> list[int]:
    """Of every cell its neighbour towards the first, drawn as fgrpo_bench.tasks.maze_trees says."""
    towards, frontier = [0] + [-1] * (width**2 - 1), [1, width]
    while frontier:
        cell = frontier.pop(rng.randrange(len(frontier)))
        row, column = divmod(cell, width)
        beside = [
            other
            for is_there, other in (
                (row > 0, cell - width),
                (row < width - 1, cell + width),
                (column > 0, cell - 1),
                (column < width - 1, cell + 1),
            )
            if is_there
        ]
        towards[cell] = rng.choice([other for other in beside if towards[other] >= 0])
        frontier += [o for o in beside if towards[o] < 0 and o not in frontier]
    return towards


def main() -> None:
    task, rng = Maze(SPEC), random.Random(0)
    task.train_problem(0)  # which makes the held-out mazes
    ours, others = [], []
    for turn in range(TURNS):
        begun = time.process_time()
        task.train_problems(range(turn * MAZES, (turn + 1) * MAZES))
        ours.append(MAZES / (time.process_time() - begun))
        begun = time.process_time()
        for _ in range(PLAIN):
            plain(SPEC.width, rng)
        others.append(PLAIN / (time.process_time() - begun))
    made, loop = median(ours), median(others)
    facts = {"mazes a CPU second": made, "of the plain loop": loop, "times as many": made / loop}
    print(json.dumps(facts | {"goal": GOAL, "met": made >= GOAL}))


if __name__ == "__main__":
    main()
