"""Does a table still say what the stored draws say? `python -m fgrpo_bench.report --verify <file>`.

Every number is computed again, from the grades of the stored draws up, and the file is written
again in memory; with `regrade` the stored responses are judged again too. What differs is named.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from fgrpo_bench.benchmarks import load_problems
from fgrpo_bench.files import read_json, sha256_file
from fgrpo_bench.graders import get_grader, grader_version
from fgrpo_bench.paths import RunPaths
from fgrpo_bench.report.build import FILES, render
from fgrpo_bench.report.provenance import NAME, graded, inputs
from fgrpo_bench.report.selected import LAST, select
from fgrpo_bench.results import PointResult, SweepResults, load_results
from fgrpo_bench.scoring import count_stored, score
from fgrpo_bench.specs import BenchmarkSpec, from_dict
from fgrpo_bench.tables import DRAWS, GRADES, PASSK, read_table

KINDS = {name: kind for kind, name in FILES.items()}
"""How each file of a report is rendered."""
SHOWN = 5
"""Most lines of a file, or draws of a benchmark, that are shown to differ."""


def verify(path: Path, *, root: Path, regrade: bool) -> list[str]:
    """What differs, a line each; empty where the file says what the stored draws say.

    path: a file of a report with its provenance.json beside it, in a run's folder or anywhere.
    root: folder of all runs, for a file that was copied elsewhere. Raises FileNotFoundError and
    ValueError for what is no such file.
    """
    if path.name not in KINDS:
        raise ValueError(f"{path} is none of {', '.join(KINDS)}: give one of a report's files")
    beside = path.with_name(NAME)
    if not path.exists() or not beside.exists():
        raise FileNotFoundError(
            f"{path} and {beside} are both needed: build the report with `python -m "
            "fgrpo_bench.report <sweep>`, and copy a table together with its provenance"
        )
    known: dict[str, Any] = read_json(beside)
    folder = path.absolute().parent.parent
    own = (folder / "plan.json").exists()
    paths = RunPaths(
        root=folder.parents[2] if own else root,
        sweep=known["sweep"],
        experiment=known["experiment"],
        version=known["version"],
    )
    results = select(load_results(paths), known.get("select", LAST))
    found = list(_changed(path, known, results))
    for point, benchmark, version in graded(results):
        found += _scores(point, benchmark, version)
        if regrade:
            found += _verdicts(point, benchmark, version)
    again = render(results, KINDS[path.name], compare_paper=known["compare_paper"])
    return [*found, *_lines(path, again)]


def _changed(path: Path, known: dict[str, Any], results: SweepResults) -> Iterator[str]:
    if path.name not in known["files"]:
        yield f"{path.name}: is not of this report, but of one that was built before"
    elif known["files"][path.name] != sha256_file(path):
        yield f"{path.name}: was changed after the report was built"
    now = inputs(results)
    for name in sorted(known["inputs"].keys() | now.keys()):
        if known["inputs"].get(name) != now.get(name):
            what = "is gone" if name not in now else "is new"
            both = name in now and name in known["inputs"]
            yield f"{name}: {'changed' if both else what} since the report was built"


def _scores(point: PointResult, benchmark: str, version: str) -> Iterator[str]:
    paths = point.evaluate.benchmark(benchmark)
    where = f"{point.point_id}, {benchmark}"
    if not paths.grades(version).exists():
        yield f"{where}: there are no grades of {version}"
        return
    stored = read_table(paths.passk, PASSK).sort("k", "problem_id")
    ks = stored["k"].unique().sort().to_list()
    again = score(count_stored(paths.grades(version)), ks).sort("k", "problem_id")
    columns = ["problem_id", "k", "n_scored", "n_correct", "pass_at_k"]
    if not stored.select(columns).equals(again.select(columns)):
        yield f"{where}: pass@k is not what the stored grades give"


def _verdicts(point: PointResult, benchmark: str, version: str) -> Iterator[str]:
    where = f"{point.point_id}, {benchmark}"
    spec = read_json(point.evaluate.spec)
    of = from_dict(BenchmarkSpec, spec["evaluation"]["benchmarks"][benchmark])
    if grader_version(of.grader) != version:
        yield (
            f"{where}: was graded by {version}, and this is {grader_version(of.grader)}: "
            "`python -m evaluators grade` grades it again"
        )
        return
    data = spec["data"].get(benchmark)
    at = None if data is None else (point.evaluate.folder / data).resolve()
    problems = {
        p.problem_id: p for p in load_problems(of, spec["identity"]["sampling"]["task"], at)
    }
    paths, grade = point.evaluate.benchmark(benchmark), get_grader(of.grader)
    draws = read_table(paths.draws, DRAWS).join(
        read_table(paths.grades(version), GRADES), on=["problem_id", "draw"], how="left"
    )
    different = draws.unique(["problem_id", "response"], keep="first", maintain_order=True)
    print(f"{where}: judging {len(different)} distinct responses", file=sys.stderr, flush=True)
    wrong = 0
    for row in different.iter_rows(named=True):
        again = grade(problems[row["problem_id"]], row["response"]).outcome
        if again != row["outcome"]:
            wrong += 1
            if wrong <= SHOWN:
                yield (
                    f"{where}: draw {row['draw']} of {row['problem_id']} is stored as "
                    f"{row['outcome']} and judged {again}"
                )
    if wrong > SHOWN:
        yield f"{where}: {wrong - SHOWN} more distinct responses are judged otherwise"


def _lines(path: Path, again: str) -> Iterator[str]:
    then, now = path.read_text().splitlines(), again.splitlines()
    pairs = enumerate(zip_longest(then, now, fillvalue=""), start=1)
    different = [(number, a, b) for number, (a, b) in pairs if a != b]
    for number, a, b in different[:SHOWN]:
        yield f"{path.name}, line {number}: has {a!r}, computed again {b!r}"
    if len(different) > SHOWN:
        yield f"{path.name}: {len(different) - SHOWN} more lines differ"
