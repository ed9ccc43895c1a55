"""The judge's parser reads every text as math-verify's own does, only sooner."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import benchmarks

pytestmark = [pytest.mark.slow, pytest.mark.rare]
PIECES = [
    *("1", "2.5", "007", "1,000", "x", "y", "\\pi", "+", "-", "=", ",", "(", ")", "[", "]", "^"),
    *("\\frac{1}{2}", "\\sqrt{2}", "\\infty", "\\cup", "\\le", "_", "{", "}", "\\%", "\\cdot"),
    *("\\text{ and }", "\\sin ", "|", "\\begin{pmatrix}1\\\\2\\end{pmatrix}", "i", "e^{x}", "!"),
    *("\\left(", "\\right)", "\\sq", "\\{", "\\}", "/", "\\int", "dx", "\\log_2 ", "\\circ"),
]

PROGRAM = """
import json, sys
from math_verify import parse, parser
from sympy import srepr
from fgrpo_bench.graders import judge_worker

def read(text):
    parser.parse_latex_cached.cache_clear()
    try:
        found = parse(f"\\\\boxed{{{text}}}", parsing_timeout=None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return [each if isinstance(each, str) else srepr(each) for each in found]

texts = json.load(sys.stdin)
judge_worker.mend_parser()
before = [read(text) for text in texts]
judge_worker.speed_up_parser()
after = [read(text) for text in texts]
again = [read(text) for text in texts]
print(json.dumps([before, after, again]))
"""


@pytest.fixture(scope="module")
def readings() -> tuple[list[str], list[list[object]]]:
    """Texts, and what stock math-verify makes of each, and the judge's parser twice."""
    rng = random.Random(0)
    golds = [row["gold"] for row in benchmarks.cases()]
    answers = [f"{gold} + \\frac{{{i}}}{{7}}" for i, gold in enumerate(golds)]
    made = ["".join(rng.choices(PIECES, k=rng.randint(1, 7))) for _ in range(300)]
    texts = list(dict.fromkeys([*golds, *answers, *made]))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return texts, json.loads(done.stdout.splitlines()[-1])


def test_every_text_is_read_as_by_math_verify_itself(readings):
    texts, (before, after, _) = readings
    assert {t: a for t, a, b in zip(texts, after, before, strict=True) if a != b} == {}


def test_what_is_remembered_of_a_text_changes_nothing_of_the_next(readings):
    texts, (_, after, again) = readings
    assert {t: a for t, a, b in zip(texts, again, after, strict=True) if a != b} == {}


def test_the_texts_are_of_every_kind(readings):
    _, (before, _, _) = readings
    kinds = [len(each) if isinstance(each, list) else "raised" for each in before]
    assert min(kinds.count(2), kinds.count(1)) > 50  # read, and found but not read
