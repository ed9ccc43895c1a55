"""Grading against other ways (tests.bench.judging): on real outputs, if any, and on a stress set.

The others judge an even part of the draws, and their time is scaled up. CPU seconds are compared:
ours are those of every process that takes part, their start included; theirs without it.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evaluators.grading import Grading
from evaluators.grading_processes import GradeWorkers
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.files.paths import BenchmarkPaths
from fgrpo_bench.stages.tables import DRAWS
from tests.bench import judging
from tests.support import benchmarks

MATH = ("math500", "aime24", "aime25", "amc23", "minerva_math", "olympiadbench")
DRAWS_A_PROBLEM, PROBLEMS = 1_024, 100
SHARES = (0.01, 0.05, 0.2)
"""Distinct answers of a problem as a share of its draws."""
PARTS = {"plain": 1_000, "minerva": 200, "forked": 200}
"""Draws for each of the others."""
REAL = 2_400
"""Most real outputs for plain math-verify, which is to judge all of them."""
TEXT = "We expand the product, collect terms, and compare both sides: $x_{i}^2 + 2x = {i}$. "


def processes() -> Iterator[tuple[Path, float]]:
    """Folder in /proc and CPU seconds of this process and of all that it has started and live."""
    rows = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            rows[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours = {os.getpid()}
    while found := {pid for pid, (parent, _) in rows.items() if parent in ours} - ours:
        ours |= found
    for pid in ours:
        yield Path(f"/proc/{pid}"), rows[pid][1] / os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Of them all."""
    return sum(seconds for _, seconds in processes())


def peak_megabytes() -> dict[str, float]:
    """Largest resident set so far of the grading process and of the judge that it asks."""
    peaks = {}
    for folder, _ in processes():
        command = (folder / "cmdline").read_text()
        name = "judge" if "judge_worker" in command else "grading process"
        if "judge_worker" in command or "spawn_main" in command:
            found = re.search(r"VmHWM:\s+(\d+)", (folder / "status").read_text())
            assert found is not None
            peaks[f"{name}, MB"] = int(found[1]) / 1024
    return peaks


def graded(golds: list[str], draws: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Our verdicts without any that is known before, and facts."""
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
            facts = {"draws": len(draws), "judgements": grading.tally.judgements}
            facts |= {"ours CPU s": cpu_seconds() - begun, **peak_megabytes()}
        return table, facts


def as_draws(responses: list[list[str]]) -> pl.DataFrame:
    """Responses by problem as tables.DRAWS."""
    rows = [
        (f"p{i:04d}", draw, draw, text, 1, "stop", 1)
        for i, own in enumerate(responses)
        for draw, text in enumerate(own)
    ]
    return pl.DataFrame(rows, schema=DRAWS, orient="row")


def compared(
    name: str, golds: list[str], responses: list[list[str]], parts: dict[str, int]
) -> None:
    """Grade by all and print the facts; parts: draws for each of the others."""
    table, facts = graded(golds, as_draws(responses))
    outcomes = (table["outcome"] == "correct").to_list()
    flat = [(golds[i], text) for i, own in enumerate(responses) for text in own]
    print(json.dumps({"case": name, **facts}), flush=True)
    for way, part in parts.items():
        chosen = np.linspace(0, len(flat) - 1, min(part, len(flat))).astype(int).tolist()
        verdicts, seconds = judging.by(way, [flat[i] for i in chosen])
        theirs = seconds * len(flat) / len(chosen)
        differ = sum(v != outcomes[i] for v, i in zip(verdicts, chosen, strict=True))
        told = {"against": way, "its CPU s": theirs, "ratio": theirs / facts["ours CPU s"]}
        print(json.dumps(told | {"verdicts that differ": f"{differ} of {len(chosen)}"}), flush=True)


def memory(golds: list[str]) -> None:
    """Peak memory of the workers with four times as many draws of as many distinct answers."""
    distinct = round(0.05 * DRAWS_A_PROBLEM)
    for draws in (DRAWS_A_PROBLEM, 4 * DRAWS_A_PROBLEM):
        _, facts = graded(golds, as_draws(stress(golds, None, distinct, draws)))
        print(json.dumps({"case": f"memory, {draws:,} draws per problem", **facts}), flush=True)


def stress(
    golds: list[str], others: list[str] | None, distinct: int, draws: int = DRAWS_A_PROBLEM
) -> list[list[str]]:
    """Responses whose texts all differ: a third right, the others one of some wrong answers.

    distinct: answers of a problem. others: what the wrong answers are; None makes them of the gold
    with something added, so that each takes a comparison of expressions.
    """
    rng = np.random.default_rng(0)
    made = []
    for gold in golds:
        wrong = [f"{gold} + \\frac{{{i}}}{{7}}" for i in range(1, distinct)]
        if others is not None:
            wrong = rng.choice(others, distinct - 1, replace=False).tolist()
        answers = [gold, *wrong]
        which = rng.integers(1, distinct, draws)
        which[rng.random(draws) < 1 / 3] = 0
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
        parts = PARTS | {"plain": REAL}
        compared(f"{number} real outputs", list(by_gold), list(by_gold.values()), parts)
    print(f"benchmark files: {folder or 'none, golds of the case table'}")
    every = list(dict.fromkeys(g for g in golds if 1 < len(g) < 40))
    golds = [every[i] for i in np.linspace(0, len(every) - 1, PROBLEMS).astype(int)]
    kinds = {"golds of other problems": every, "the gold plus a fraction": None}
    for wrong, others in kinds.items():
        for share in SHARES:
            distinct = max(round(share * DRAWS_A_PROBLEM), 2)
            if others is None or distinct < len(others):
                name = f"stress, {share:.0%} distinct, wrong ones are {wrong}"
                compared(name, golds, stress(golds, others, distinct), PARTS)
    memory(golds[::4])


if __name__ == "__main__":
    main()
