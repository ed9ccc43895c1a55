"""Does a table still say what the stored draws say? `python -m fgrpo_bench.report --verify <file>`.

Every number is computed again, from the grades of the stored draws up, and the file is written
again in memory; with `regrade` the stored responses are judged again too. What differs is named.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import zip_longest
from math import isclose
from pathlib import Path
from statistics import fmean
from typing import Any

from fgrpo_bench.benchmarks import load_problems
from fgrpo_bench.files import read_json, sha256_file
from fgrpo_bench.graders import get_grader, grader_version
from fgrpo_bench.paths import RunPaths
from fgrpo_bench.report.build import FILES, render
from fgrpo_bench.report.provenance import NAME, graded, inputs
from fgrpo_bench.report.rare import stages
from fgrpo_bench.report.selected import LAST, select
from fgrpo_bench.results import PointResult, SweepResults, load_results
from fgrpo_bench.scoring import count_stored, score
from fgrpo_bench.specs import BenchmarkSpec, from_dict
from fgrpo_bench.tables import (
    BOUNDS,
    DRAWS,
    GRADES,
    LIKELIHOODS,
    PASSK,
    read_passk,
    read_table,
)

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
    known = _provenance(beside)
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
    found += _likelihoods(results)
    again = render(results, KINDS[path.name], compare_paper=known["compare_paper"])
    return [*found, *_lines(path, again)]


def _provenance(path: Path) -> dict[str, Any]:
    """As `record` makes it; ValueError for anything else."""
    known: object = read_json(path)
    wanted = {"sweep": str, "experiment": str, "version": str, "files": dict, "inputs": dict}
    if not isinstance(known, dict) or not all(
        isinstance(known.get(name), kind)
        for name, kind in (wanted | {"compare_paper": bool}).items()
    ):
        raise ValueError(
            f"{path} is no provenance of a report, which names {', '.join(wanted)} and "
            "compare_paper: build the report again"
        )
    return known


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


def _where(point: PointResult, benchmark: str) -> str:
    """The step is named where there are several."""
    step = f" at step {point.step}" if len(point.checkpoints) > 1 else ""
    return f"{point.point_id}{step}, {benchmark}"


def _scores(point: PointResult, benchmark: str, version: str) -> Iterator[str]:
    paths = point.evaluate.benchmark(benchmark)
    where = _where(point, benchmark)
    if not paths.grades(version).exists():
        yield f"{where}: there are no grades of {version}"
        return
    stored = read_passk(paths.passk).sort("k", "problem_id")
    ks = stored["k"].unique().sort().to_list()
    again = score(count_stored(paths.grades(version)), ks).sort("k", "problem_id")
    columns = [
        name for name in PASSK if name not in BOUNDS or stored[name].null_count() < len(stored)
    ]  # tables of before there were bounds have none
    if not stored.select(columns).equals(again.select(columns)):
        yield f"{where}: pass@k is not what the stored grades give"


def _verdicts(point: PointResult, benchmark: str, version: str) -> Iterator[str]:
    where = _where(point, benchmark)
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
    one = ["problem_id", "draw"]
    draws = read_table(paths.draws, DRAWS)
    grades = read_table(paths.grades(version), GRADES)
    for what, rows in (
        ("have a grade and no stored text", grades.join(draws, on=one, how="anti")),
        ("have a stored text and no grade", draws.join(grades, on=one, how="anti")),
    ):
        for problem, draw in rows.select(one).rows()[:1]:
            yield f"{where}: {len(rows)} draws {what}, e.g. {draw} of {problem}"
    different = draws.join(grades, on=one).unique(
        ["problem_id", "response", "outcome"], keep="first", maintain_order=True
    )
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


def _likelihoods(results: SweepResults) -> Iterator[str]:
    """Mean rises of likelihoods that are not those of their answers."""
    for point_id, step, stage in stages(results):
        told = read_json(stage.done)["delta_nll"]
        rises = read_table(stage.likelihoods, LIKELIHOODS)["delta_nll"].to_list()
        mean = fmean(rises) if rises else None
        same = told is mean if told is None or mean is None else isclose(told, mean, rel_tol=1e-9)
        if not same:
            yield f"{point_id}, step {step}: delta NLL is {told}, and {mean} over its answers"


def _lines(path: Path, again: str) -> Iterator[str]:
    then, now = path.read_text().splitlines(), again.splitlines()
    pairs = enumerate(zip_longest(then, now, fillvalue=""), start=1)
    different = [(number, a, b) for number, (a, b) in pairs if a != b]
    for number, a, b in different[:SHOWN]:
        yield f"{path.name}, line {number}: has {a!r}, computed again {b!r}"
    if len(different) > SHOWN:
        yield f"{path.name}: {len(different) - SHOWN} more lines differ"
