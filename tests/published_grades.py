"""Our graders on real benchmarks and real outputs, against what is published of them.

  make published-grades DATA=<folder>

The folder holds JSON Lines: the golds of six mathematical benchmarks (<name>.jsonl with `answer`),
outputs that others graded (outputs_*.jsonl with `response` and their verdicts) and the instructions
of IFEval. Without it tests/graders/test_cases.py takes the golds of the case tables.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fgrpo_bench.core.problems import Grade, Problem
from fgrpo_bench.graders import ifeval, judge_worker, math, math_tolerance
from fgrpo_bench.graders.judge import Judge
from fgrpo_bench.graders.math_notation import stored_gold

MATH = ("math500", "aime24", "aime25", "amc23", "minerva_math", "olympiadbench")
OUTPUTS = ("outputs_qwen25math_cot100x8", "outputs_nemo_math50x3")
NUMBER = re.compile(r"-?[0-9.]{1,9}|-?\\frac\{[0-9]+\}\{[0-9]+\}")
INSTRUCTIONS = "outputs_ifeval_gpt4"
WORKERS = 2
"""Judges at once."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """One comparison."""

    name: str
    agree: int
    of: int
    differences: tuple[str, ...]


def every_gold(judge: Judge, golds: list[str]) -> Part:
    """Every gold, boxed as published, is correct, the judge itself can read every one, and a number
    a seventh larger is incorrect."""

    def fault(gold: str) -> str | None:
        used = stored_gold(gold)
        verdicts = [
            judge.verdict(used, used).outcome,
            math.grade_with(judge, _problem(gold), f"Thus \\boxed{{{gold}}}.").outcome,
            math.grade_with(judge, _problem(used), f"Thus \\boxed{{{used}}}.").outcome,
            math_tolerance.grade_with(judge, _problem(used), f"\\boxed{{{used}}}").outcome,
        ]
        if verdicts != ["correct"] * 4:
            return f"{gold}: {', '.join(verdicts)}"
        if NUMBER.fullmatch(used):
            other = math.grade_with(judge, _problem(gold), f"\\boxed{{{used} + 1/7}}")
            if other.outcome != "incorrect":
                return f"{gold} + 1/7: {other.outcome}"
        return None

    with ThreadPoolExecutor(WORKERS) as pool:
        wrong = [said for said in pool.map(fault, golds) if said is not None]
    return _part("golds that grade themselves correct", len(golds), wrong)


def published(judge: Judge, name: str, rows: list[dict[str, Any]]) -> Part:
    """Our verdicts on outputs against those that were published with them."""
    found = []
    for row, ours in zip(rows, graded(judge, rows), strict=True):
        if (ours.outcome == "correct") != bool(row["published_score"]):
            found.append(_difference(row, f"published {row['published_score']}", ours))
    return _part(f"{name}: verdicts as published", len(rows), found)


def graded(judge: Judge, rows: list[dict[str, Any]]) -> list[Grade]:
    """Our grades of outputs, in their order."""

    def grade(row: dict[str, Any]) -> Grade:
        return math.grade_with(judge, _problem(row["answer"]), row["response"])

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(grade, rows))


def plain(judge: Judge, name: str, rows: list[dict[str, Any]], *, boxed: bool) -> Part:
    """Our verdicts against plain math-verify's, of the whole text or of the same boxed answer."""
    found, of = [], 0
    for row, ours in zip(rows, graded(judge, rows), strict=True):
        text = row["response"]
        if boxed:
            box = math.last_box(math.spoken(text))
            if box is None:
                continue
            text = f"\\boxed{{{box}}}"
        of += 1
        theirs = by_math_verify(row["answer"], text)
        if (ours.outcome == "correct") != theirs:
            found.append(_difference(row, f"math-verify {theirs}", ours))
    what = "the same box" if boxed else "the whole text"
    return _part(f"{name}: plain math-verify on {what}", of, found)


@cache
def by_math_verify(gold: str, text: str) -> bool:
    """Its verdict in this process; what was asked before is not asked again."""
    from math_verify import parse, verify

    judge_worker.mend_parser()  # and nothing of what makes ours faster
    return bool(verify(_parsed(gold), parse(text)))


@cache
def _parsed(gold: str) -> list[Any]:
    from math_verify import parse

    found: list[Any] = parse(f"\\boxed{{{gold}}}")
    return found


def instructions(
    rows: list[dict[str, Any]], golds: dict[str, dict[str, Any]]
) -> tuple[Part, dict[str, float]]:
    """Strict verdicts a prompt against those published, and the four scores.

    golds: by prompt, with instruction_id_list and kwargs.
    """
    found, strict, loose = [], list[tuple[bool, ...]](), list[tuple[bool, ...]]()
    for row in rows:
        gold = golds[row["problem"]]
        target = {key: gold[key] for key in ("instruction_id_list", "kwargs")}
        problem = Problem(
            benchmark="ifeval",
            problem_id=str(row["id"]),
            prompt=row["problem"],
            target=json.dumps(target),
            grader="ifeval",
        )
        followed = ifeval.judge_instructions(problem, row["response"])
        assert followed.failure is None, followed.failure
        strict.append(followed.strict)
        loose.append(followed.loose)
        for kind, theirs in (("strict", followed.strict), ("loose", followed.loose)):
            if (wanted := row[f"published_{kind}_list"]) != list(theirs):
                found.append(f"{row['id']} {kind}: published {wanted}, ours {list(theirs)}")
    scores = {}
    for kind, verdicts in (("strict", strict), ("loose", loose)):
        scores[f"prompt {kind}"] = _mean(all(each) for each in verdicts)
        scores[f"instruction {kind}"] = _mean(one for each in verdicts for one in each)
    return _part("IFEval: strict and loose lists as published", 2 * len(rows), found), scores


def main(argv: list[str] | None = None) -> int:
    """Print every comparison; 1 where one is not as it is known to be."""
    parser = argparse.ArgumentParser(prog="python -m tests.published_grades", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, help="folder of the benchmark files")
    folder = parser.parse_args(argv).folder
    if missing := [name for name in (*MATH, *OUTPUTS, INSTRUCTIONS) if not _file(folder, name)]:
        parser.error(f"{folder} lacks {', '.join(missing)} (.jsonl): name the folder with DATA=")
    begun = time.monotonic()
    parts, scores = run(folder, print)
    for name, score in scores.items():
        print(f"IFEval: {name} {score:.4f}")
    print(f"{time.monotonic() - begun:.0f} s")
    wrong = unexpected(parts, scores)
    for line in wrong:
        print(f"NOT AS KNOWN: {line}", file=sys.stderr)
    return 1 if wrong else 0


def run(folder: Path, say: Callable[[str], None]) -> tuple[list[Part], dict[str, float]]:
    """Every comparison over a folder, and the scores of IFEval; say: called with every line."""
    parts: list[Part] = []

    def tell(part: Part) -> None:
        parts.append(part)
        say(f"{part.name}: {part.agree} of {part.of}")
        for difference in part.differences:
            say(f"    {difference}")

    with Judge(workers=WORKERS) as judge:
        tell(every_gold(judge, [row["answer"] for name in MATH for row in lines(folder, name)]))
        for name in OUTPUTS:
            rows = lines(folder, name)
            tell(published(judge, name, rows))
            tell(plain(judge, name, rows, boxed=True))
            tell(plain(judge, name, rows, boxed=False))
    golds = {row["problem"]: row for row in lines(folder, "ifeval")}
    part, scores = instructions(lines(folder, INSTRUCTIONS), golds)
    tell(part)
    return parts, scores


def unexpected(parts: list[Part], scores: dict[str, float]) -> list[str]:
    """Where a run is not as it is known to be."""
    found = {part.name: (part.agree, part.of) for part in parts}
    wrong = [
        f"{name}: {found[name]}, known {known}"
        for name, known in KNOWN.items()
        if found[name] != known
    ]
    if round(scores["prompt strict"], 4) != PROMPT_STRICT:
        wrong.append(f"prompt strict: {scores['prompt strict']:.4f}, known {PROMPT_STRICT}")
    return wrong


KNOWN = {
    "golds that grade themselves correct": (1547, 1547),
    f"{OUTPUTS[0]}: verdicts as published": (799, 800),
}
PROMPT_STRICT = 0.7722


def lines(folder: Path, name: str) -> list[dict[str, Any]]:
    """A JSON Lines file."""
    text = (folder / f"{name}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def _file(folder: Path, name: str) -> bool:
    return (folder / f"{name}.jsonl").is_file()


def _part(name: str, of: int, differences: list[str]) -> Part:
    return Part(name=name, agree=of - len(differences), of=of, differences=tuple(differences))


def _problem(gold: str) -> Problem:
    return Problem(benchmark="any", problem_id="1", prompt="", target=gold, grader="math")


def _difference(row: dict[str, Any], theirs: str, ours: Any) -> str:
    extracted = (ours.extracted or "")[:60]
    name = f"{row.get('id', '')}/{row.get('sample', '')}"
    return f"{name} gold {row['answer'][:40]!r}: {theirs}; ours {ours.outcome} ({extracted!r})"


def _mean(values: Iterable[bool]) -> float:
    found = list(values)
    return sum(found) / len(found)


if __name__ == "__main__":
    sys.exit(main())
