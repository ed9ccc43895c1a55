"""Every grader by its case table, and by real outputs where they are at hand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.graders import get_grader
from tests import published_grades, synlogic_upstream
from tests.graders.synlogic_games import GAMES
from tests.graders.synlogic_games import problem as puzzle
from tests.support import benchmarks

GRADING = (benchmarks.REPOSITORY / "docs/reference/grading.md").read_text(encoding="utf-8")
Case = dict[str, Any]


def of_gold(grader: str) -> Callable[[Case], Problem]:
    return lambda case: Problem(
        benchmark="any",
        problem_id="1",
        prompt=case.get("prompt", ""),
        target=case["gold"],
        grader=grader,
    )


def of_instruction(case: Case) -> Problem:
    asked = {"instruction_id_list": [case["instruction"]], "kwargs": [case["kwargs"]]}
    return of_gold("ifeval")({"gold": json.dumps(asked)})


def of_game(case: Case) -> Problem:
    return puzzle(case["task"], case["game"] if "game" in case else GAMES[case["task"]][0])


rows = synlogic_upstream.rows
TABLES: dict[str, tuple[Callable[[Case], Problem], list[Case]]] = {
    "choice": (of_gold("choice"), rows("choice")),
    "ifeval": (of_instruction, rows("ifeval")),
    "math": (of_gold("math"), benchmarks.cases("math.json")),
    "math-variants": (of_gold("math"), benchmarks.cases("math-variants.json")),
    "math-tolerance": (of_gold("math-tolerance"), rows("math-tolerance")),
    "synlogic": (of_game, [*rows("synlogic"), *rows("synlogic-differences")]),
}


GROUPS = [
    pytest.param(table, task, marks=[pytest.mark.slow] if table == "math-variants" else [])
    for table, (_, cases) in TABLES.items()
    for task in sorted({case.get("task", "") for case in cases})
]


@pytest.mark.parametrize(("table", "task"), GROUPS)
def test_the_grader_judges_as_the_case_table_says(table, task):
    problem, cases = TABLES[table]
    grade, differing = get_grader(table.removesuffix("-variants")), []
    for case in cases:
        if case.get("task", "") == task:
            graded = grade(problem(case), case["response"])
            ending = ""
            if table == "ifeval":
                failed = f"{case['instruction']} failed with KeyError"
                ending = failed if graded.outcome == "unscored" else f", {case['loose']:d} loose"
            if graded.outcome != case["outcome"] or not graded.reason.endswith(ending):
                differing.append(f"{case['why']}: {case['outcome']} {ending}, and is {graded}")
    assert not differing, "\n".join(differing)


@pytest.mark.parametrize("table", TABLES)
def test_at_least_half_of_the_cases_must_fail(table):
    cases = TABLES[table][1]
    assert 2 * sum(case["outcome"] != "correct" for case in cases) >= len(cases)


@pytest.mark.slow
@pytest.mark.rare
def test_the_tolerance_grader_reads_natural_variants_as_math_does():
    """Where the two differ, it tolerates a share of the gold, and `math` six decimals."""
    problem, grade = TABLES["math-tolerance"][0], get_grader("math-tolerance")
    for case in benchmarks.cases():
        if case["why"] != "a small decimal to six places":
            assert grade(problem(case), case["response"]).outcome == case["outcome"], case


@pytest.mark.slow
@pytest.mark.rare
def test_the_graders_say_what_is_known_of_real_outputs_or_of_the_golds_of_the_case_tables(judge):
    folder = benchmarks.folder()
    if folder is not None:
        assert published_grades.unexpected(*published_grades.run(folder, print)) == []
    else:
        golds = [row["gold"] for row in benchmarks.cases() if row["gold"]]
        assert published_grades.every_gold(judge, golds).differences == ()


def test_the_documentation_has_a_row_of_the_case_tables_for_every_answer_that_it_shows():
    rules = GRADING.partition("## What is read like its gold")[2].partition("## What stays as")[0]
    answers = [part for i, part in enumerate(rules.split("`")) if i % 2]
    shown = {answer for case in benchmarks.cases() for answer in (case["gold"], case["response"])}
    assert len(answers) > 120
    assert [part for part in answers if not any(part in answer for answer in shown)] == []
    section = GRADING.partition("## How choices are graded")[2]
    read_there, _, not_read = section.partition("| no statement |")
    not_read = not_read.partition("| read, though it is none |")[0]
    for text, outcome in ((read_there, "correct"), (not_read, "incorrect")):
        lines = "".join(line for line in text.splitlines(keepends=True) if line.startswith("|"))
        examples = re.findall(r"`([^`]+)`", lines)
        cases = [case["response"] for case in rows("choice") if case["outcome"] == outcome]
        assert len(examples) > 10
        assert [part for part in examples if not any(part in case for case in cases)] == []
