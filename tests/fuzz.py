"""Coverage-guided fuzzing of what reads model output: `make fuzz`.

  python -m tests.fuzz [seconds a target] [target ...]

A target takes any text; it fails where it raises, or breaks what is said beside it. It begins with
the responses of the case tables. A text that makes one fail is left as crash-<digest> in the
current folder, and `python -m tests.fuzz 1 <target> --text <file>` repeats it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import (
    choice,
    choice_reading,
    countdown,
    ifeval_worker,
    math,
    math_notation,
    math_reading,
    math_tolerance,
    maze,
)
from fgrpo_bench.graders import maze as mazes
from fgrpo_bench.graders.synlogic import answers, extract, grids
from fgrpo_bench.graders.synlogic import grade as synlogic_grade
from fgrpo_bench.tasks.maze import MazeSpec, MazeTask
from tests.graders.synlogic_games import GAMES
from tests.graders.synlogic_games import problem as synlogic_problem


def last_box(text: str) -> None:
    """The quick extractor agrees with the one that reads the text once."""
    assert math.last_box(text) == math.scan_boxes(text)
    assert math.last_box(f"{text} \\boxed{{7}}") == "7"


def normalise(text: str) -> None:
    """Normalising and storing twice change nothing; a number is a number."""
    once = math_notation.normalise(text)
    assert math_notation.normalise(once) == once
    gold = math_notation.stored_gold(text)
    assert math_notation.stored_gold(gold) == gold
    math_tolerance.number(text)


def letters(text: str) -> None:
    """A letter is one of four, and a box at the end counts, if that is said."""
    statement = choice_reading.read_choice(text)
    assert statement is None or statement.letter in (None, *"ABCD")
    response = f"{text}\n\nSo \\boxed{{B}}"
    boxed = choice_reading.read_choice(response)
    if math.spoken(response).endswith("\\boxed{B}"):
        assert boxed is not None and boxed.letter == "B"


def arithmetic(text: str) -> None:
    """Correct is only what uses the digits and reaches the value."""
    problem = Problem(
        benchmark="countdown", problem_id="1", prompt="", target="3256-24", grader="countdown"
    )
    if countdown.grade(problem, text).outcome == "correct":
        assert sorted(text.strip()[::2]) == sorted("3256")


def walks(text: str) -> None:
    """What is the path arrives too, and ends as the path does; a text is a maze or a ValueError."""
    outcomes = [grade(MAZE, text).outcome for grade in (maze.grade, maze.grade_reached)]
    assert outcomes.count("correct") != 1 or outcomes[1] == "correct"
    assert (outcomes[0] == "correct") == (text == mazes.read_maze(MAZE.target).moves + mazes.DONE)
    with suppress(ValueError):
        mazes.read_maze(text)


def loose_variants(text: str) -> None:
    """The loose texts are made of the response's characters."""
    assert all(set(each) <= set(text) for each in ifeval_worker.variants(text))


def puzzles(text: str) -> None:
    """No text leaves a sound game without a verdict; a right answer after it stays right."""
    for task, problem, response in PUZZLES:
        assert synlogic_grade(problem, text).outcome != "unscored", task
        answered = synlogic_grade(problem, f"{text}\n<answer>{response}</answer>")
        assert answered.outcome == "correct", task


def parsers(text: str) -> None:
    """What is read as a literal or computed is within the bounds."""
    extract.parse_literal(text)
    extract.read_number(text)
    value = extract.arithmetic(extract.arithmetic_tokens(text) or [])
    assert value is None or max(abs(value.numerator), value.denominator) <= extract.LARGEST


MAZE = MazeTask(MazeSpec(name="maze", seed=1, size=9, n_train=1, n_heldout=1)).problem(0)
PUZZLES = [(task, synlogic_problem(task, game), text) for task, (game, text) in GAMES.items()]
MODULES = (
    *(choice, choice_reading, countdown, ifeval_worker, math, math_notation, math_reading),
    *(math_tolerance, maze, mazes, answers, extract, grids),
)
TARGETS: dict[str, Callable[[str], None]] = {
    "last_box": last_box,
    "normalise": normalise,
    "choice": letters,
    "countdown": arithmetic,
    "maze": walks,
    "ifeval": loose_variants,
    "synlogic": puzzles,
    "literals": parsers,
}


def main(argv: list[str] | None = None) -> int:
    """Fuzz every target for a while, each in a process of its own; 1 where one failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("seconds", type=int, nargs="?", default=60, help="default: %(default)s")
    parser.add_argument("targets", nargs="*", help=f"default: {' '.join(TARGETS)}")
    parser.add_argument("--text", type=Path, help="repeat one text instead")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if unknown := set(options.targets) - set(TARGETS):
        parser.error(f"unknown target {', '.join(unknown)}: valid ones are {', '.join(TARGETS)}")
    if options.text is not None:
        for name in options.targets or TARGETS:
            TARGETS[name](as_text(options.text.read_bytes()))
        return 0
    if options.one is not None:
        fuzz(options.one, options.seconds)
    command = [sys.executable, "-m", "tests.fuzz", str(options.seconds), "--one"]
    codes = {n: subprocess.run([*command, n]).returncode for n in options.targets or TARGETS}
    for name, code in codes.items():
        print(f"{name}: {'fine' if code == 0 else 'FAILED'}")
    return 1 if any(codes.values()) else 0


def fuzz(target: str, seconds: int) -> None:
    """Fuzz one target and end this process."""
    import atheris

    for module in MODULES:
        for function in vars(module).values():
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                atheris.instrument_func(function)
    corpus = Path(tempfile.mkdtemp(prefix=f"fuzz-{target}-"))
    for i, text in enumerate(seeds()):
        (corpus / str(i)).write_bytes(text.encode("utf-8", "surrogateescape"))
    limits = [f"-max_total_time={seconds}", "-max_len=4096", "-verbosity=1"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], lambda data: TARGETS[target](as_text(data)))
    atheris.Fuzz()


def seeds() -> list[str]:
    """Texts to begin with."""
    tables = sorted((Path(__file__).parent / "cases").glob("*.json"))
    rows = [row for table in tables for row in json.loads(table.read_text(encoding="utf-8"))]
    return ["6*3+5+1", *dict.fromkeys(row["response"] for row in rows)]


def as_text(data: bytes) -> str:
    """Any bytes as a text; what is no UTF-8 becomes halves of surrogate pairs."""
    return data.decode("utf-8", "surrogateescape")


if __name__ == "__main__":
    sys.exit(main())
