"""The page of the advantages names every one of the table, and each has its file."""

from pathlib import Path

from fgrpo_bench.objectives.advantages import ADVANTAGES, parameters_of
from fgrpo_bench.specs import config

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def test_the_page_has_a_row_for_every_advantage_with_its_parameters():
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [row[0].strip("| `") for row in rows] == [*ADVANTAGES]
    for row, name in zip(rows, ADVANTAGES, strict=True):
        assert all(f"{parameter}" in row[1] for parameter in parameters_of(name)), name


def test_every_advantage_has_a_file_that_names_it():
    declared = config.load("smoke").algorithms
    assert {algorithm.advantage for algorithm in declared.values()} == {*ADVANTAGES}
    assert all(declared[name].advantage == name for name in ADVANTAGES)
