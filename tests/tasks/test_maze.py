"""The maze task: trees by randomised Prim, one path each, fixed by seed, split and index."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fgrpo_bench.graders import get_grader
from fgrpo_bench.graders.maze import MOVES, read_maze
from fgrpo_bench.specs import TaskSpec, from_dict, to_dict
from fgrpo_bench.tasks.maze import (
    DIRECTIONS,
    MazeSpec,
    MazeTask,
    expected_equal,
    grow,
    paths,
    spanning_trees,
)

SPEC = MazeSpec(name="maze", seed=4, size=17, n_train=1_000_000, n_heldout=256)
SMALL = MazeSpec(name="maze", seed=4, size=9, n_train=3_000, n_heldout=500)
TRAIN_0 = """
#########
#S#...#.#
#.#.###.#
#...#...#
###.###.#
#.......#
#.###.###
#.#....G#
#########
"""
HELDOUT_0 = """
#########
#S#.....#
#.#.#.#.#
#...#.#.#
#.#.###.#
#.#...#.#
#.#.###.#
#.#...#G#
#########
"""


def lattice_edges(width: int) -> list[tuple[int, int]]:
    cells = [(row, column) for row in range(width) for column in range(width)]
    return [
        (row * width + column, other[0] * width + other[1])
        for row, column in cells
        for other in ((row + 1, column), (row, column + 1))
        if max(other) < width
    ]


def walls_to_cells(tree: np.ndarray, width: int) -> list[tuple[int, int]]:
    steps = [down * width + right for down, right in DIRECTIONS]
    return [(cell, cell + steps[tree[cell]]) for cell in range(1, width**2)]


def simple_paths(rows: tuple[str, ...], at: tuple[int, int], seen: frozenset) -> list[str]:
    """Every walk to the goal that comes to no place twice, by trying all."""
    if rows[at[0]][at[1]] == "G":
        return [""]
    every = []
    for move, (down, right) in MOVES.items():
        to = at[0] + down, at[1] + right
        if rows[to[0]][to[1]] != "#" and to not in seen:
            every += [move + rest for rest in simple_paths(rows, to, seen | {to})]
    return every


def plain_prim(width: int, rng: random.Random) -> frozenset[tuple[int, int]]:
    """A tree as it is described: any cell of the frontier, any of its neighbours in the tree."""
    beside: dict[int, list[int]] = {cell: [] for cell in range(width**2)}
    for one, other in lattice_edges(width):
        beside[one].append(other)
        beside[other].append(one)
    tree, edges = {0}, set()
    while len(tree) < width**2:
        frontier = sorted({cell for known in tree for cell in beside[known]} - tree)
        cell = rng.choice(frontier)
        joined = rng.choice([other for other in beside[cell] if other in tree])
        edges.add((min(cell, joined), max(cell, joined)))
        tree.add(cell)
    return frozenset(edges)


@pytest.mark.slow
@pytest.mark.parametrize("width", [4, 8, 20])
def test_every_maze_is_a_spanning_tree(width):
    for tree in grow(np.arange(50), width):
        edges = {tuple(sorted(edge)) for edge in walls_to_cells(tree, width)}
        assert len(edges) == width**2 - 1 and edges <= set(lattice_edges(width))
        reached, waiting = {0}, [0]
        for cell in waiting:
            new = {a + b - cell for a, b in edges if cell in (a, b)} - reached
            reached |= new
            waiting += new
        assert len(reached) == width**2


@pytest.mark.slow
def test_trees_are_as_likely_as_under_prim_written_out():
    rng = random.Random(5)
    count, width = 40_000, 3
    plain = Counter(plain_prim(width, rng) for _ in range(count // 4))
    ours = Counter(
        frozenset(tuple(sorted(edge)) for edge in walls_to_cells(tree, width))
        for tree in grow(np.arange(count), width)
    )
    assert 180 < len(ours) <= spanning_trees(width) == 192  # some are very unlikely
    expected = {tree: (plain[tree] + ours[tree]) / (count * 1.25) for tree in ours}
    distance = sum(
        (own[tree] - n * chance) ** 2 / (n * chance)
        for own, n in ((plain, count // 4), (ours, count))
        for tree, chance in expected.items()
    )
    assert (
        distance < 270
    )  # of chi squared with 191 degrees of freedom; 268.6 is passed by 1 in 5,000


def test_path_lengths_at_17_are_those_that_are_known_of_the_published_mazes():
    trees = grow(np.arange(20_000), 8)
    lengths = Counter((2 * paths(trees, 8)[1]).tolist())
    shares = {length: count / 20_000 for length, count in lengths.items()}
    # 0.768, 0.198 and 0.031 of another 20,000 mazes: four standard errors of the difference
    assert abs(shares[28] - 0.768) < 0.017 and abs(shares[32] - 0.198) < 0.016
    assert abs(shares[36] - 0.031) < 0.007 and min(shares) == 28
    assert len(np.unique(trees, axis=0)) == 20_000


@pytest.mark.parametrize(
    ("width", "trees"),
    [
        *((2, 4), (3, 192), (4, 100_352), (5, 557_568_000), (6, 32_565_539_635_200)),
        (8, 126_231_322_912_498_539_682_594_816),
    ],
)
def test_spanning_trees_are_counted_exactly(width, trees):
    assert spanning_trees(width) == trees


def test_spanning_trees_of_the_widest_lattice_are_the_product_of_its_eigenvalues():
    width = 20
    roots = 4 * np.sin(np.pi * np.arange(width) / (2 * width)) ** 2
    whole = (roots[:, None] + roots).ravel()[1:]
    logarithm = np.log(whole).sum() - 2 * np.log(width)
    exact = spanning_trees(width)
    assert logarithm == pytest.approx(np.log(float(exact >> 400)) + 400 * np.log(2.0), rel=1e-12)


def test_a_prompt_is_the_published_one_in_length_and_order():
    task = MazeTask(SPEC)
    for index in (0, 999_999):
        prompt = task.problem(index).prompt
        assert len(prompt) == task.prompt_length == 310
        assert prompt[:2] == "^[" and prompt[-2:] == "]:" and set(prompt) <= set(task.vocabulary)
        assert [len(row) for row in prompt[2:-2].split("/")] == [17] * 17 + [0]
    assert len(task.vocabulary) == 14 == len(set(task.vocabulary))


@pytest.mark.parametrize("size", [9, 17, 41])
def test_demonstrations_are_the_one_simple_path(size):
    task = MazeTask(replace(SPEC, size=size, n_train=90_000))
    indices = list(range(20))
    for problem, shown in zip(
        task.problems(indices),
        task.demonstrations(indices, np.random.default_rng(0)),
        strict=True,
    ):
        maze = read_maze(problem.target)
        assert shown == maze.moves + "!" and len(shown) <= task.response_length
        assert (maze.start, maze.goal) == ((1, 1), (size - 2, size - 2))
        if size < 41:
            assert simple_paths(maze.rows, maze.start, frozenset([maze.start])) == [maze.moves]
        assert get_grader(problem.grader)(problem, shown).outcome == "correct"


def test_the_longest_path_there_can_be_fits_the_bound():
    most = {
        size: MazeTask(replace(SPEC, size=size, n_train=9)).response_length for size in (9, 11, 17)
    }
    assert most == {9: 29, 11: 49, 17: 125}
    snake = ["#" * 11]  # every cell of 5 x 5, row by row
    for row in range(9):
        ends = "." * 9 if row % 2 == 0 else "#" * 8 + "." if row % 4 == 1 else "." + "#" * 8
        snake.append(f"#{ends}#")
    text = "/".join([*snake, "#" * 11, ""])
    text = text.replace(".", "S", 1)
    at = text.rindex(".")
    assert len(read_maze(text[:at] + "G" + text[at + 1 :]).moves) == 49 - 1


def test_the_first_mazes_are_what_they_have_always_been():
    task = MazeTask(SMALL)
    shown = [task.problem(0).target, task.heldout_problems(1)[0].target]
    assert [text.replace("/", "\n") for text in shown] == [TRAIN_0[1:], HELDOUT_0[1:]]
    assert task.problem(0).problem_id == "9-4-t0"
    assert task.heldout_problems(1)[0].problem_id == "9-4-h0"


def test_a_maze_does_not_depend_on_what_is_made_beside_it():
    task, again = MazeTask(SMALL), MazeTask(SMALL)
    whole = task.problems(range(1_000))
    assert [again.problem(i) for i in (999, 0, 512)] == [whole[i] for i in (999, 0, 512)]
    assert again.problems([7, 3, 7]) == [whole[7], whole[3], whole[7]]
    assert MazeTask(replace(SMALL, n_train=90_000)).problems(range(1_000)) == whole
    assert MazeTask(replace(SMALL, seed=5)).problem(0).target != whole[0].target


def test_no_training_maze_is_a_heldout_one_and_heldout_ones_differ():
    task = MazeTask(SMALL)
    heldout = {problem.target for problem in task.heldout_problems(task.n_heldout)}
    train = [problem.target for problem in task.problems(range(task.n_train))]
    assert len(heldout) == task.n_heldout and not heldout & set(train)
    alone = MazeTask(replace(SMALL, n_heldout=1)).problems(range(task.n_train))
    moved = [a for a, b in zip(alone, train, strict=True) if a.target != b]
    assert moved and all(problem.target in heldout for problem in moved)


def test_paths_stay_within_max_moves():
    spec = replace(SPEC, size=9, n_train=2_000, max_moves=12)
    task = MazeTask(spec)
    answers = task.demonstrations(range(2_000), np.random.default_rng(0))
    assert {len(answer) for answer in answers} == {13} and task.response_length == 13
    free = MazeTask(replace(spec, max_moves=None)).problems(range(2_000))
    kept = [a.target == b.target for a, b in zip(free, task.problems(range(2_000)), strict=True)]
    assert 0.9 < np.mean(kept) < 1


@pytest.mark.slow
def test_equal_training_mazes_are_counted():
    task = MazeTask(SMALL)
    counted = [problem.target for problem in task.problems(range(task.n_train))]
    assert expected_equal(SMALL) == pytest.approx(1 - len(set(counted)) / len(counted))
    assert 0 < expected_equal(SMALL) < 0.3 and expected_equal(SPEC) == 0
    wide = replace(SPEC, size=11, n_train=120_000)
    assert expected_equal(wide) == pytest.approx(
        expected_equal(replace(wide, n_train=100_000)) * 1.2, rel=0.05
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"size": 16}, "size=16 is even: .* choose 15 or 17"),
        ({"size": 7}, "size = 7|greater than or equal to 9"),
        ({"size": 43}, "less than or equal to 41"),
        ({"size": 9}, "n_train=1000000 and n_heldout=256 with size=9: there are 100,352 mazes"),
        ({"size": 9, "n_train": 100_097}, "lower one of them, or raise size"),
        ({"size": 9, "n_train": 9, "n_heldout": 10_036}, "n_heldout=10036 .* at most 10% of the"),
        ({"max_moves": 26}, "max_moves=26 with size=17: no path is shorter than 28 moves"),
        ({"n_heldout": 0}, "greater than or equal to 1"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(changed, said):
    with pytest.raises(ValueError, match=said):
        from_dict(TaskSpec, to_dict(SPEC) | changed)


def test_the_most_mazes_that_there_can_be_are_taken():
    from_dict(TaskSpec, to_dict(SPEC) | {"size": 9, "n_train": 100_096})


def test_a_tenth_of_all_mazes_can_be_held_out():
    task = MazeTask(replace(SMALL, n_heldout=10_035))
    assert len({problem.target for problem in task.heldout_problems(10_035)}) == 10_035
    assert len(set(task._heldout_digests.tolist())) == 10_035


def test_what_a_plan_says_of_mazes_that_repeat():
    assert SPEC.notes(1_000_000) == []
    (equal,) = SMALL.notes(3_000)
    assert "n_train=3,000 training mazes" in equal and "100,352 of size 9" in equal
    assert "each is seen 5.0 times" in SPEC.notes(5_000_000)[0]


def test_mazes_of_every_size_are_trees_by_the_reader():
    for size, index in product((9, 11, 25, 41), range(3)):
        task = MazeTask(replace(SPEC, size=size, n_train=9))
        assert read_maze(task.problem(index).target).rows[0] == "#" * size
