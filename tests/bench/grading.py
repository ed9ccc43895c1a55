"""Grading against plain math-verify a sample: on real outputs, if any, and on a stress set.

Plain math-verify parses gold and whole response anew for every sample, in this process, with its
own time limits. On the stress set it judges an even part of the draws, and its time is scaled up.
CPU seconds are compared: ours are those of every process that takes part, their start included.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evaluators.grade_worker import GradeWorkers
from evaluators.grading import Grading
from fgrpo_bench.paths import BenchmarkPaths
from fgrpo_bench.records import Problem
from fgrpo_bench.tables import DRAWS
from tests.support import benchmarks

MATH = ("math500", "aime24", "aime25", "amc23", "minerva_math", "olympiadbench")
DRAWS_A_PROBLEM, PROBLEMS = 1_024, 100
SHARES = (0.01, 0.05, 0.2)
"""Distinct answers of a problem as a share of its draws."""
PLAIN, ALONE = 1_000, 5
"""Draws of the stress set for plain math-verify, and for a process per judgement."""
TEXT = "We expand the product, collect terms, and compare both sides: $x_{i}^2 + 2x = {i}$. "


def judged_plainly(golds: list[str], responses: list[str]) -> tuple[list[bool], float]:
    """Verdicts of plain math-verify, and the CPU seconds that they took."""
    from math_verify import parse, verify

    begun, verdicts = time.process_time(), []
    for gold, response in zip(golds, responses, strict=True):
        verdicts.append(bool(verify(parse(f"\\boxed{{{gold}}}"), parse(response))))
    return verdicts, time.process_time() - begun


def a_process_per_judgement(gold: str, response: str) -> float:
    """Seconds of one judgement in a process of its own."""
    code = (
        "import sys; from math_verify import parse, verify; "
        "verify(parse('\\\\boxed{' + sys.argv[1] + '}'), parse(sys.argv[2]))"
    )
    begun = sum(os.times()[2:4])
    subprocess.run([sys.executable, "-c", code, gold, response], check=True)
    return sum(os.times()[2:4]) - begun


def cpu_seconds() -> float:
    """Of this process and of all that it has started and that live."""
    rows = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            rows[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours = {os.getpid()}
    while found := {pid for pid, (parent, _) in rows.items() if parent in ours} - ours:
        ours |= found
    return sum(rows[pid][1] for pid in ours) / os.sysconf("SC_CLK_TCK")


def graded(golds: list[str], draws: pl.DataFrame) -> tuple[pl.DataFrame, float, dict[str, int]]:
    """Our verdicts without any that is known before, CPU seconds, tally."""
    problems = [
        Problem(benchmark="b", problem_id=f"p{i:04d}", prompt="", target=gold, grader="math")
        for i, gold in enumerate(golds)
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FGRPO_VERDICTS"] = str(Path(folder) / "verdicts")
        begun = cpu_seconds()
        with GradeWorkers(problems, workers=1) as workers:
            grading = Grading(BenchmarkPaths(Path(folder)), problems, "math", workers=workers)
            table = grading.finish(draws)
            seconds = cpu_seconds() - begun
        return table, seconds, grading.tally.facts()


def as_draws(responses: list[list[str]]) -> pl.DataFrame:
    """Responses by problem as tables.DRAWS."""
    rows = [
        (f"p{i:04d}", draw, draw, text, 1, "stop")
        for i, own in enumerate(responses)
        for draw, text in enumerate(own)
    ]
    return pl.DataFrame(rows, schema=DRAWS, orient="row")


def compared(name: str, golds: list[str], responses: list[list[str]], part: int) -> None:
    """Grade by both and print the facts."""
    draws = as_draws(responses)
    table, ours, tally = graded(golds, draws)
    outcomes = (table["outcome"] == "correct").to_list()
    flat = [(golds[i], text) for i, own in enumerate(responses) for text in own]
    chosen = np.linspace(0, len(flat) - 1, min(part, len(flat))).astype(int).tolist()
    verdicts, plain = judged_plainly([flat[i][0] for i in chosen], [flat[i][1] for i in chosen])
    theirs = plain * len(flat) / len(chosen)
    differ = sum(v != outcomes[i] for v, i in zip(verdicts, chosen, strict=True))
    alone = [a_process_per_judgement(*flat[i]) for i in chosen[:: max(len(chosen) // ALONE, 1)]]
    peak = max(resource.getrusage(who).ru_maxrss for who in (0, -1)) / 1024
    facts = {
        "case": name,
        "draws": len(flat),
        "judgements": tally["judgements"],
        "ours CPU s": ours,
        "plain CPU s": theirs,
        "plain from draws": len(chosen),
        "ratio": theirs / ours,
        "a process per judgement, ratio": float(np.mean(alone)) * len(flat) / ours,
        "verdicts that differ": f"{differ} of {len(chosen)}",
        "peak MB": peak,
    }
    print(json.dumps(facts), flush=True)


def stress(golds: list[str], others: list[str] | None, share: float) -> list[list[str]]:
    """Responses whose texts all differ: a third right, the others one of some wrong answers.

    others: what the wrong answers are; None makes them of the gold with something added, so that
    each takes a comparison of expressions.
    """
    rng = np.random.default_rng(0)
    made = []
    for gold in golds:
        distinct = max(round(share * DRAWS_A_PROBLEM), 2)
        wrong = [f"{gold} + \\frac{{{i}}}{{7}}" for i in range(1, distinct)]
        if others is not None:
            wrong = rng.choice(others, distinct - 1, replace=False).tolist()
        answers = [gold, *wrong]
        which = rng.integers(1, distinct, DRAWS_A_PROBLEM)
        which[rng.random(DRAWS_A_PROBLEM) < 1 / 3] = 0
        made.append(
            [
                TEXT.replace("{i}", str(i)) * 12 + f"So the answer is $\\boxed{{{answers[w]}}}$."
                for i, w in enumerate(which.tolist())
            ]
        )
    return made


def lines(path: Path) -> list[dict[str, Any]]:
    """A JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    golds = [row["gold"] for row in benchmarks.cases()]
    if (folder := benchmarks.folder()) is not None:
        golds = [row["answer"] for name in MATH for row in lines(folder / f"{name}.jsonl")]
        by_gold: dict[str, list[str]] = {}
        for row in lines(folder / f"{benchmarks.OUTPUTS}.jsonl"):
            by_gold.setdefault(row["answer"], []).append(row["response"])
        number = sum(map(len, by_gold.values()))
        compared(f"{number} real outputs", list(by_gold), list(by_gold.values()), part=number)
    print(f"benchmark files: {folder or 'none, golds of the case table'}")
    every = list(dict.fromkeys(g for g in golds if 1 < len(g) < 40))
    golds = [every[i] for i in np.linspace(0, len(every) - 1, PROBLEMS).astype(int)]
    kinds = {"golds of other problems": every, "the gold plus a fraction": None}
    for wrong, others in kinds.items():
        for share in SHARES:
            if others is None or share * DRAWS_A_PROBLEM < len(others):
                name = f"stress, {share:.0%} distinct, wrong ones are {wrong}"
                compared(name, golds, stress(golds, others, share), part=PLAIN)


if __name__ == "__main__":
    main()
