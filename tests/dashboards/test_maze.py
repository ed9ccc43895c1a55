"""The picture of a walk in a maze: the right part, the wrong turn, and nothing of the text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import polars as pl
import pytest

from dashboards.pages.maze import MOST, picture
from fgrpo_bench.stages.tables import PASSK, read_table, write_table
from fgrpo_bench.tasks.maze import MazeSpec, MazeTask
from tests.dashboards.conftest import client_of
from tests.support.dashboard import Reader, add_draws
from tests.support.synthetic import write_sweep

SPEC = MazeSpec(name="maze", seed=4, size=9, n_train=3_000, n_heldout=500)
GRID = MazeTask(SPEC).heldout_problems(1)[0].target
PATH = "DDRRUURRRRDDDDDD"
"""HELDOUT_0 of tests/tasks/test_maze.py."""
ATTRIBUTES = {"class", "width", "height", "d", "cx", "cy", "r", "points"}
ATTRIBUTES |= {"viewBox", "role", "aria-label"}
BENCHMARKS = "experiment.evaluation.benchmarks"
SWEEP = [
    *("~experiment.train.task", f"~{BENCHMARKS}.countdown"),
    "+experiment.train.task={name: maze, seed: 4, size: 9, n_train: 3000, n_heldout: 500}",
    *(f"+benchmark@{BENCHMARKS}.maze=maze", f"{BENCHMARKS}.maze.n_problems=24"),
    *("experiment.evaluation.n_samples=64", "experiment.evaluation.ks=[1,8,32]"),
    *("experiment.train.steps=20", "sweep.grid.seed=[11]", "sweep.grid.group_size=[2]"),
]


def lines(drawn: str) -> dict[str, list[tuple[int, int]]]:
    """Rows and columns of the places of every line by its class."""
    found = re.findall(r'<polyline class="(\w+)" points="([^"]*)"', drawn)
    return {
        kind: [tuple(int(float(n)) for n in pair.split(","))[::-1] for pair in points.split()]
        for kind, points in found
    }


def test_a_right_walk_is_one_line_from_start_to_goal():
    drawn = picture(GRID, f"{PATH}!")
    assert lines(drawn)["right"] == lines(drawn)["path"] and "wrong" not in lines(drawn)
    assert (lines(drawn)["right"][0], lines(drawn)["right"][-1]) == ((1, 1), (7, 7))
    assert "No wrong turn in 16 of 16 moves; at the goal after 16 moves." in drawn


@pytest.mark.parametrize(
    ("response", "turn", "wrong", "said"),
    [
        ("DDDR!", (3, 1), [(3, 1), (4, 1), (4, 2)], "Wrong turn after 2 of 16 moves; move 4 meets"),
        ("R!", (1, 1), [(1, 1), (1, 2)], "Wrong turn after 0 of 16 moves; move 1 meets a wall."),
        ("DDRL!", (3, 2), [(3, 2), (3, 1)], "Wrong turn after 3 of 16 moves; ends before the goal"),
        (f"DU{PATH}!", (2, 1), None, "Wrong turn after 1 of 16 moves; at the goal after 18 moves."),
    ],
)
def test_a_wrong_turn_is_marked_and_what_follows_is_another_line(response, turn, wrong, said):
    drawn = picture(GRID, response)
    ring = f'<circle class="turn" cx="{turn[1] + 0.5}" cy="{turn[0] + 0.5}"'
    assert ring in drawn and said in drawn and lines(drawn)["right"][-1] == turn
    assert wrong is None or lines(drawn)["wrong"] == wrong
    assert ('class="hit"' in drawn) == ("meets" in said)


@pytest.mark.parametrize(
    "response",
    [
        *("", "!", "<script>x</script>", "DD<b>RR!", '"><svg onload=x>', "\ud800\x00", "<pad>"),
        *("DU" * 50_000, "x" * 100_000, f"{PATH}" + "!" * 100_000),
    ],
)
def test_nothing_of_a_response_stands_in_its_picture_which_is_of_bounded_size(response):
    drawn = picture(GRID, response)
    root = ElementTree.fromstring(drawn)
    kinds = {element.tag for element in root.iter()}
    assert kinds <= {"figure", "svg", "rect", "path", "polyline", "circle", "figcaption"}
    names = {name for element in root.iter() for name in element.attrib}
    assert names <= ATTRIBUTES
    assert len(drawn) < 9_000 and len(lines(drawn).get("wrong", [])) <= MOST
    assert (f"not drawn further than {MOST} moves" in drawn) == response.startswith("DUDU")


def test_what_is_no_maze_has_no_picture():
    assert picture("", "DD!") == picture(GRID.replace(".", "#"), None) == ""
    assert "its path has 16 moves" in picture(GRID) and "right" not in lines(picture(GRID))


@pytest.mark.slow
def test_the_page_shows_the_walks_of_two_points_side_by_side(tmp_path):
    results = write_sweep(tmp_path, "smoke", SWEEP)
    names = {f"p{i:03d}": f"9-4-h{i}" for i in range(24)}
    for point in results.points:
        path = point.evaluate.benchmark("maze").passk()
        table = read_table(path, PASSK).with_columns(pl.col("problem_id").replace(names))
        write_table(path, table, PASSK)
        add_draws(point, "maze", (f"{PATH}!", "DDDR!", "<script>x</script>"))
    address = "/smoke/countdown-tiny/v1/draws"
    page = client_of(tmp_path).get(address, params={"problem": "9-4-h0"}).text
    assert page.count('<figure class="maze">') == 1 + 2 * 10
    assert "Wrong turn after 2 of 16 moves; move 4 meets a wall." in Reader(page).text
    assert "A maze of 9 by 9; its path has 16 moves." in Reader(page).text
    assert "<script>x" not in page
    assert Reader(page).text.count("16 moves to the goal of 9-4-h0") == 3
