"""Graders and what they do before a process that can be killed take time linear in the text.

A new grader brings texts of its own: those that would hurt it most.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.data.golds import understood
from fgrpo_bench.graders import GRADERS, get_grader, ifeval, math_answer, math_reading, worker
from fgrpo_bench.graders import ifeval_worker as checkers
from fgrpo_bench.graders import judge as judge_module
from fgrpo_bench.graders.choice import letter_in, options_in
from fgrpo_bench.graders.judge import Judge
from fgrpo_bench.graders.math import after_thoughts, last_box, leniencies, scan_boxes, stated_answer
from fgrpo_bench.graders.math_notation import normalise, rewritten, stored_gold
from fgrpo_bench.graders.math_reading import joins, parts
from fgrpo_bench.graders.math_retold import retold
from fgrpo_bench.graders.math_tolerance import number
from fgrpo_bench.graders.synlogic import extract
from fgrpo_bench.tasks.maze import MazeSpec, MazeTask
from tests.graders.synlogic_games import GAMES
from tests.graders.synlogic_games import problem as puzzle

SIZES = (1_800, 7_200, 28_800)
"""Characters of a text, each four times the one before: below and above the lengths to which some
steps are bounded."""
MOST = 8.0
"""Times as long that a text four times as long may take: 4 if linear, 16 if quadratic."""
MOST_A_CHARACTER = 4e-5
"""Seconds of processor time a character, over all golds of a grader: many boxes that take long each
are linear too."""
NOISE_SECONDS = 0.005
REPEATS = 5


@dataclass(frozen=True)
class Text:
    """A text of any length: a part that is repeated, what closes it as often, and what stands
    around both."""

    part: str
    before: str = ""
    after: str = ""
    close: str = ""

    def of(self, size: int, turn: int) -> str:
        """About so many characters; another text every turn, so that none is remembered."""
        times = size // len(self.part + self.close) + turn
        return self.before + self.part * times + self.close * times + self.after


BOXES = (
    Text("\\boxed{"),
    Text("\\boxed{", close="}"),
    Text("\\boxed{}"),
    Text("\\boxed{ {} "),
    Text("\\\\\\\\boxed    "),
    Text("\\", before="\\boxed{"),
    Text("{", before="\\boxed{1}, "),
    Text("\\boxed{1}, "),
    Text("\\boxed{1} and "),
    Text("\\boxed{1} for part (a), $y_2 ="),
    Text(" ", before="\\boxed{1}", after="\\boxed{2}"),
    Text("</think>"),
)
ANSWERS = (
    Text(" .", before="5"),
    Text(". ", before="5"),
    Text("1"),
    Text("1."),
    Text("1e"),
    Text("1.1e5 "),
    Text("1,000"),
    Text("5.    "),
    Text(" ", before="5.", after="x"),
    Text("$"),
    Text("\\boxed{", close="}"),
    Text("{}", before="\\boxed{", after="}"),
    Text("np."),
    Text("np.sin"),
    Text("x=", after="1"),
    Text("\\text{ and } "),
    Text("1, "),
    Text("½√²"),
    Text("\\large "),
    Text("\\color{red}{", close="}"),
    Text("\\boldsymbol{"),
    Text("{", close="}"),
    Text("1\\,234 "),
    Text("\\,234", before="1", after=","),
    Text("0.\\overline{3}"),
    Text("3", before="0.\\overline{"),
    Text("0.\\dot{1}2"),
    Text("3", before="0.", after="\\ldot"),
    Text("1.12", after="..."),
    Text("3 1/2 "),
    Text("3 ", after="1/2"),
    Text("\\sin 45 "),
    Text("\\sin    "),
    Text("\\text{a is} "),
    Text("a is ", before="\\text{", after="} 7"),
    Text("1+", after="=x"),
    Text("x>1 and "),
    Text("]1,"),
    Text("1", before="]", after=",2"),
    Text("\\{x \\mid "),
    Text("<x", before="\\{x \\mid 1", after="\\}"),
    Text("5 percent "),
)
WORDS = (
    *ANSWERS,
    Text("1_"),
    Text("1_{{"),
    Text("(1"),
    Text("\\text"),
    Text("\\text{ a", before="1 "),
    Text("a~", before="1 \\text{"),
    Text("\\angle "),
    Text("\\approx="),
    Text("abc "),
    Text("not "),
    Text("f("),
    Text("(", close=")"),
    Text("\\{1,", close="\\}"),
    Text("(mod "),
    Text("\\pmod{"),
    Text("_", before="i"),
    Text("i "),
    Text("y_"),
    Text("\\text{ and and "),
    Text("\\textbf{(C) ", after="} 1"),
)
"""What is looked at for its words, names, units and bases."""
BOXED = tuple(
    replace(text, before=f"\\boxed{{{text.before}", after=f"{text.after}}}") for text in ANSWERS
)
STATEMENTS = (
    *(Text(f"the answer is {part}") for part in ("", "$", "\\[", "\\(", "(", "1, ", "x ", "1 or ")),
    *(Text(f"the answer is {part}. ") for part in ("(1, 2", "a b c", "$x$ and", "3 cm and ")),
    *(Text(f"the answer {part}") for part in ("", "(", "to is ", ", ", "\n", ": there ")),
    *(
        Text(part, before="the answer is ")
        for part in ("$", "(", "\\(", " ", "*", "1,", "1 cm, ", "a")
    ),
    *(
        Text(part, before="the answer is 1")
        for part in ("x", ",000", " cm", "\\text{", "^", " or 1")
    ),
    *(
        Text(part)
        for part in ("#### ", "if the answer is 1. ", "answer\n", "<answer>", "</answer>")
    ),
    *(Text(part, before="<answer>") for part in ("$x", "1 ", "a ", '{"answer": "', "\\", "\n1")),
    *(
        Text(f"\\boxed{{1}}{part}")
        for part in ("\n- ", "\n1. ", " cm and ", ".\nPart (b): ", " a ")
    ),
    *(
        Text(part, before="\\boxed{1}", after="\\boxed{2}")
        for part in ("\n- ", " a", "\n- a", "**")
    ),
)
"""What an answer sentence, a tag or a list of boxes may be taken for."""
CHOICES = (
    *BOXES,
    Text("\\boxed{" + "\\rm   " * 8 + "E}"),
    Text("\\boxed{" + "\\rm   " * 8 + "E} so \\boxed{B}\n"),
    Text("\\boxed{B} or "),
    Text("\\boxed{B} ", after="\\boxed{C}"),
    Text("answer is ("),
    Text("answer is (B) or "),
    Text("answer is B, "),
    Text("wrong answer "),
    Text("not the answer \\boxed{B}"),
    Text("$", before="not ", after="\\boxed{B}"),
    Text("not the answer "),
    Text(" ", before="the answer is"),
    Text("(", before="the answer is "),
    Text("*", before="the answer is B"),
    Text("*", before="the answer is (B)"),
    Text(" ", before="the answer is $\\mathbf", after="B"),
    Text("\\text{ or ", before="the answer is (B)"),
    Text("or ", before="the answer is (B) "),
    *(Text(f"{part}the answer is ") for part in ("", "if ", "some say ", "wait, ", "not ")),
    *(Text(f"{part}the answer is (B). ") for part in ("", "if ", "some say ", "wait, no, ")),
    *(Text(part) for part in ("not ", "some say ", "wait, ", "option ", "option B is correct. ")),
    *(Text(part) for part in ("so B, ", "so likely ", "A and ", "the option that ", "B. x\n\n")),
    *(Text(part) for part in ("<answer>", "</answer>", "<answer>B</answer>", "`", '"', '"B', "(b")),
    *(Text(f"{part}\n") for part in ("", "B", "*", "option", "so", ". ")),
    Text("that is ", before="the answer is B. "),
    Text("no, ", before="the answer is B. "),
    Text("A, ", after=" are correct."),
    Text("\n", before="the answer"),
    Text("*", before="B"),
    *(Text(part) for part in ("the answer would be B. ", "would be B. If ", "is (B) x. ", "it's ")),
    *(Text(part) for part in ('"answer": "', "only B fits ", "1 \\text{", "\\boxed{b} ", "b) x\n")),
)
OPTIONS = (
    *(Text(part) for part in ("(A)", "A. ", "A) 1 B) 2\n", "(A) 1 (B) 2 ", "A. x\nB. y\n", "A\t")),
    *(Text(part) for part in ("**", "\\text{", "- ", "\n", "(A) (B) or (C) ", "A. E. coli\n")),
)
PUZZLES = (
    *BOXES[:3],
    Text("["),
    Text("[[1, 2], "),
    Text("[1]"),
    Text("{'a': ["),
    Text("'"),
    Text("# \n", before="["),
    Text("answer is "),
    Text("```python\n"),
    Text("1+"),
    Text("1+1=", after="\n"),
    Text("1,234.5"),
    Text("a, "),
    Text("<answer>"),
    Text("**"),
    Text("([{<>}])"),
    Text("[", close="]"),
)
MAZE = MazeTask(MazeSpec(name="maze", seed=1, size=41, n_train=1, n_heldout=1)).problem(0)
EXPRESSIONS = tuple(map(Text, ("1", "3*", " ", "3+2*5-6", "3\n")))
MOVES = (
    *(Text(a + b, after="!") for a, b in ("DU", "RL")),  # one of the two goes from the start
    Text("!"),
    Text("R", after="!"),
    Text(" ", after="!"),
    Text("RDx", before="!"),
)
MARKS = (
    *(Text(part) for part in ("<<", "<<<>", ">>", "[", "[x", "[]", "[\n", "******\n")),
    *(Text(part, before="word", after="end") for part in ("\n", " ", "\t\n", "*\n", "-\n", "p.")),
)
"""What would hurt checkers that look for titles, placeholders, bullets and postscripts."""
INSTRUCTED = json.dumps({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})
GRADED: dict[str, tuple[tuple[str, ...], tuple[Text, ...]]] = {
    "choice": (("B",), CHOICES),
    "choice-strict": (("B",), CHOICES[:1]),
    "countdown": (("3256-24",), EXPRESSIONS),
    "countdown-partial": (("3256-24",), EXPRESSIONS),
    "ifeval": ((INSTRUCTED,), (Text("</think>"), Text("["), Text("word "))),
    "math": (("7", "1, 2, 3", "(1, 2)"), (*BOXES, *BOXED)),
    "math-strict": (("7",), STATEMENTS[:5]),
    "math-tolerance": (("7.5", "2.88e-19", "E = 5 \\text{ J}"), (*BOXES, *BOXED)),
    "math-tolerance-strict": (("7.5",), BOXES[:1]),
    "maze": ((MAZE.target,), MOVES),
    "maze-reached": ((MAZE.target,), MOVES),
    "synlogic": (tuple(puzzle(task, game).target for task, (game, _) in GAMES.items()), PUZZLES),
}
"""Golds and texts of each grader."""
GOLDS = (
    *(Text(part) for part in ("#### ", "<answer>", "answer is ", "A:", "$", "\\boxed{")),
    *(Text(part, before=before) for before, part in (("[", "'"), ("[", "'a' "), ("1 (", "a "))),
)
"""What would hurt the search for a short answer within a published one."""
BEFORE: dict[str, tuple[Callable[[str], object], tuple[Text, ...]]] = {
    "bullets": (lambda text: checkers.bullets(text, 3), MARKS),
    "placeholders": (lambda text: checkers.placeholders(text, 3), MARKS),
    "postscript": (lambda text: checkers.postscript(text, "P.P.S"), MARKS),
    "title": (checkers.title, MARKS),
    "options_in": (options_in, OPTIONS),
    "letter_in": (lambda text: letter_in(text, {"A": "4", "B": text}), OPTIONS),
    "after_thoughts": (after_thoughts, BOXES),
    "last_box": (last_box, BOXES),
    "scan_boxes": (scan_boxes, BOXES),
    "normalise": (normalise, ANSWERS),
    "stored_gold": (stored_gold, ANSWERS),
    "stated_answer": (lambda text: stated_answer(text, "(1, 2), (3, 4)"), (*BOXES, *STATEMENTS)),
    "a word": (lambda text: stated_answer(text, "yes"), STATEMENTS[::8]),
    "cuts": (lambda text: math_answer.cuts(text, len(text) // 2, len(text) // 2 + 1), STATEMENTS),
    "is_several_lists": (
        math_reading.is_several_lists,
        (*WORDS, Text("(1, 2), "), Text("{1, "), Text("(1, 2)and ")),
    ),
    "retold": (lambda text: [*retold("1, 2", text)], (*ANSWERS, *WORDS)),
    "understood": (lambda text: understood([("?", text)], "math"), (*ANSWERS, *GOLDS)),
    "parts": (parts, WORDS),
    "joins": (joins, WORDS),
    "as_read": (math_reading.as_read, WORDS),
    "rewritten": (rewritten, ANSWERS),
    "chosen": (lambda text: math_reading.chosen_part(text, "C"), WORDS),
    "refusal": (lambda text: math_reading.refusal("1", text, several=False), WORDS),
    "leniencies": (lambda text: leniencies("1", text, ""), WORDS),
    "number": (number, ANSWERS),
    "final_text": (extract.final_text, PUZZLES),
    "short_answer": (extract.short_answer, PUZZLES),
    "block": (extract.block, PUZZLES),
    "spans": (extract.spans, PUZZLES),
    "literal": (lambda text: extract.literal(text, bool), PUZZLES),
    "double_bracketed": (extract.double_bracketed, PUZZLES),
}
"""What graders do with a text before it is judged, and texts for each."""


class Deaf:
    """Stands for the process that judges, which has limits of its own."""

    def __init__(self, *_: object, **__: object) -> None:
        self.n_questions = 0

    def wait_ready(self) -> None:
        """It is."""

    def ask(self, *_: object) -> dict[str, Any]:
        """No."""
        return {"outcome": "incorrect", "extracted": None, "reason": "no"}

    def end(self) -> None:
        """Nothing to end."""


@pytest.fixture(autouse=True)
def no_process(monkeypatch):
    monkeypatch.setattr(worker, "Worker", Deaf)
    monkeypatch.setattr(judge_module.default_judge, "_value", Judge())
    monkeypatch.setattr(ifeval._checkers, "_value", None)


def seconds(call: Callable[[str], object], text: str) -> float:
    begun = time.process_time()
    call(text)
    return time.process_time() - begun


def takes_too_long(call: Callable[[str], object], text: Text) -> bool:
    """Whether a text takes too long, for itself or beside one of a quarter of its length, however
    often it is tried; from the shortest on, so that a fault shows before it takes for ever."""
    for shorter, longer in pairwise(SIZES):
        quick, slow = math.inf, math.inf
        for turn in range(REPEATS):
            quick = min(quick, seconds(call, text.of(shorter, turn)))
            slow = min(slow, seconds(call, text.of(longer, turn)))
            most = min(MOST * quick, MOST_A_CHARACTER * longer) + NOISE_SECONDS
            if slow <= most:
                break
        else:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("name", GRADED)
def test_a_grader_takes_time_linear_in_the_text(name):
    golds, texts = GRADED[name]
    problems = [
        Problem(benchmark="b", problem_id="1", prompt="", target=gold, grader=name)
        for gold in golds
    ]

    def grade_all(text: str) -> None:
        for problem in problems:
            get_grader(name)(problem, text)

    assert [text for text in texts if takes_too_long(grade_all, text)] == []


@pytest.mark.slow
@pytest.mark.rare
@pytest.mark.parametrize("name", BEFORE)
def test_what_comes_before_a_judgement_takes_time_linear_in_the_text(name):
    step, texts = BEFORE[name]
    assert [text for text in texts if takes_too_long(step, text)] == []


def test_every_grader_has_texts_of_its_own():
    assert set(GRADED) == set(GRADERS)
    assert all(golds and texts for golds, texts in GRADED.values())
