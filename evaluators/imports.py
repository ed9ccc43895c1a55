"""Draws that another program made: read from its files, stored and scored like our own.

Two kinds of JSON Lines are read. lm-eval's `samples_<task>_*.jsonl` (written by --log_samples):

    {"doc_id": 0, "doc": {"problem_id": "math500-000000", ...}, "resps": [["...", "..."]], ...}

and completions, a line a problem or a draw:

    {"problem_id": "math500-000000", "responses": ["...", "..."]}
    {"problem": "Convert the point $(0,3)$ ...", "response": "...", "n_tokens": 512}

A problem is known by its id or by its text. Nothing of a file is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from evaluators.standalone import data_folder
from evaluators.stored import Stored, benchmark_spec
from fgrpo_bench.benchmarks import load_problems, versions
from fgrpo_bench.files import now, sha256_file, write_json
from fgrpo_bench.fingerprint import fingerprint
from fgrpo_bench.markers import described, write_marker
from fgrpo_bench.paths import StagePaths
from fgrpo_bench.records import Problem
from fgrpo_bench.specs import to_dict
from fgrpo_bench.tables import DRAWS, write_table

OPTIONAL = {"n_tokens": int, "finish_reason": str}
"""Keys of a line with one response that are kept where they are given."""


def import_file(
    path: Path, *, benchmark: str, name: str, root: Path, subset: bool, keys: Sequence[str]
) -> Stored:
    """Store the draws of a file under evals/<name>; grades are not made here.

    subset: whether the file may leave problems out. keys: as they were given to fetch. Raises
    ValueError for ids that are unknown, draws that are doubled and problems of unequal n.
    """
    spec, dataset = benchmark_spec(benchmark, keys)
    data = data_folder(root, benchmark, dataset)
    problems = load_problems(spec, None, data)
    draws = table(list(responses(path, read_rows(path), problems)))
    n_samples = check_numbers(path, draws, problems, subset=subset)
    sha256 = sha256_file(path)
    identity = {"import": sha256, "benchmark": to_dict(spec)}
    mark = fingerprint(identity)
    stage = StagePaths(root / "evals" / name / "eval" / f"imported-{mark[:8]}" / "step-00000")
    target = {
        "n_samples": n_samples,
        "ks": [2**i for i in range(n_samples.bit_length())],
        "graders": versions({benchmark: spec}),
    }
    stored = Stored(
        stage=stage,
        paths=stage.benchmark(benchmark),
        benchmark=spec,
        spec={
            "kind": "import",
            "fingerprint": mark,
            "target": target,
            "identity": identity,
            "evaluation": {
                "name": "imported",
                "sampler": "imported",
                "benchmarks": {benchmark: to_dict(spec)},
                "n_samples": n_samples,
                "ks": target["ks"],
            },
            "data": {benchmark: str(data.absolute())},
        },
    )
    write_json(stage.spec, stored.spec)
    write_table(stored.paths.draws, draws, DRAWS)
    engine = {"engine": "imported", "file": path.name, "sha256": sha256}
    prompts = fingerprint([[p.problem_id, p.prompt] for p in problems])
    write_json(
        stored.paths.manifest,
        {
            "fingerprint": mark,
            "weights_sha256": None,
            "prompts_sha256": prompts,
            "engine": engine,
        },
    )
    outputs = described(stage, [stored.paths.draws, stored.paths.manifest])
    marker = {"fingerprint": mark, "target": target, "finished": now(), "outputs": outputs}
    write_marker(stage, marker)
    return stored


def read_rows(path: Path) -> list[dict[str, Any]]:
    """One JSON object a line; ValueError that names the line where it is none."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file: give a JSON Lines file of responses")
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is no JSON ({error}): mend the file") from None
        if not isinstance(row, dict):
            raise ValueError(f"{path}, line {number} is no JSON object: give one a line")
        rows.append(row)
    if not rows:
        raise ValueError(f"{path} holds no lines: give a JSON Lines file of responses")
    return rows


def responses(
    path: Path, rows: Sequence[dict[str, Any]], problems: Sequence[Problem]
) -> Iterator[tuple[Any, ...]]:
    """Rows of tables.DRAWS, in the order of the file; ValueError that names the line."""
    ids = {problem.problem_id for problem in problems}
    texts = {_folded(problem.prompt): problem.problem_id for problem in problems}
    whole: set[str] = set()  # problems that came with all their responses
    numbers: dict[str, int] = {}
    seen: set[tuple[str, int]] = set()
    filters: set[Any] = set()
    for line, row in enumerate(rows, 1):
        where = f"{path}, line {line}"
        logged = "resps" in row
        if logged and "filter" in row:  # each draw is logged once a filter
            filters.add(row["filter"])
            if row["filter"] != next(iter(rows))["filter"]:
                continue
        problem_id = _problem(row, ids, texts, where)
        made = _texts(row, where)
        if problem_id in whole:
            raise ValueError(
                f"{where}: problem {problem_id} came with its responses before: its draws would be "
                "counted twice; leave one of the lines out"
            )
        if "response" not in row:
            whole.add(problem_id)
        for text in made:
            number = row.get("draw", numbers.get(problem_id, 0))
            if not isinstance(number, int) or number < 0 or (problem_id, number) in seen:
                raise ValueError(
                    f"{where}: draw {number!r} of problem {problem_id} came before or is no number "
                    "from 0: number the draws of a problem 0, 1, 2, ... or leave `draw` out"
                )
            seen.add((problem_id, number))
            numbers[problem_id] = number + 1
            given = [
                row.get(k) if isinstance(row.get(k), kind) else None for k, kind in OPTIONAL.items()
            ]
            yield (problem_id, number, None, text.encode("utf-8", "replace").decode(), *given, None)


def _problem(row: dict[str, Any], ids: set[str], texts: dict[str, str], where: str) -> str:
    """The problem that a line is about."""
    doc = row["doc"] if isinstance(row.get("doc"), dict) else row
    if "problem_id" in doc:
        if doc["problem_id"] in ids:
            return str(doc["problem_id"])
        raise ValueError(
            f"{where}: unknown problem_id {str(doc['problem_id'])[:80]!r}; those of this benchmark "
            f"look like {min(ids)!r}: use these, or give the text as `problem`"
        )
    known = [
        texts[folded]
        for value in doc.values()
        if isinstance(value, str) and (folded := _folded(value)) in texts
    ]
    if not known:
        raise ValueError(
            f"{where}: no problem_id, and no text that is a problem of this benchmark: give one of "
            f"the ids, e.g. {min(ids)!r}, or the problem's exact text as `problem`"
        )
    return known[0]


def _texts(row: dict[str, Any], where: str) -> list[str]:
    made: Any = None
    if "resps" in row:
        made = [
            text for each in row["resps"] for text in (each if isinstance(each, list) else [each])
        ]
    elif "responses" in row:
        made = row["responses"]
    elif "response" in row:
        made = [row["response"]]
    if not isinstance(made, list) or not made or not all(isinstance(text, str) for text in made):
        raise ValueError(
            f"{where}: no responses: give `response` (a text), `responses` (a list of texts), or a "
            "line of lm-eval's sample log with `resps`"
        )
    return made


def _folded(text: str) -> str:
    return " ".join(text.split())


def table(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    """tables.DRAWS; seed and what follows the response are null where nobody knows them."""
    return pl.DataFrame(rows, schema=DRAWS, orient="row").sort("problem_id", "draw")


def check_numbers(
    path: Path, draws: pl.DataFrame, problems: Sequence[Problem], *, subset: bool
) -> int:
    """Draws a problem; ValueError where they differ or problems are missing."""
    counts = draws.group_by("problem_id").len().sort("len", "problem_id")
    fewest, most = counts.row(0), counts.row(-1)
    if fewest[1] != most[1]:
        raise ValueError(
            f"{path}: problem {fewest[0]} has {fewest[1]} draws and problem {most[0]} has "
            f"{most[1]}: pass@k compares problems at one n; draw what is missing, or leave the "
            "others' last draws out"
        )
    if len(counts) < len(problems) and not subset:
        raise ValueError(
            f"{path} has {len(counts)} of the benchmark's {len(problems)} problems: add the "
            "others, or score these alone with --subset"
        )
    return int(most[1])
