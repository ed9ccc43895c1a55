"""Whatever becomes of a stored file, every reader shows the rest or says file, fault and remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dashboards.app import ServerLinks
from dashboards.pages import BUILDERS
from dashboards.queries import RunRoot
from fgrpo_bench.analysis import Analysis, analyse, frames
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.report import verify as verifying
from fgrpo_bench.report.build import render
from fgrpo_bench.report.verify import verify
from sweeps import status
from sweeps.status import report

POINT = "grpo-n4-g0-s11"
EVALUATION = f"{POINT}/eval/*/step-00004"
FILES = [
    "sweep.json",
    "plan.json",
    f"{POINT}/logs/attempt-002.json",
    "report/provenance.json",
    "report/results.csv",
    *(f"_warmup/s11/{name}" for name in ("spec.json", "DONE.json", "owner.json")),
    *(f"{POINT}/{name}" for name in ("spec.json", "DONE.json", "owner.json", "progress.json")),
    f"{POINT}/metrics.parquet",
    *(f"{EVALUATION}/{name}" for name in ("spec.json", "DONE.json", "owner.json")),
    f"{EVALUATION}/countdown/draws.json",
    f"{EVALUATION}/countdown/draws.parquet",
    f"{EVALUATION}/countdown/grades.countdown-1.parquet",
    f"{EVALUATION}/countdown/passk.parquet",
]
CONTENTS: dict[str, bytes | None] = {
    "emptied": b"",
    "a list": b"[]",
    "an object": b"{}",
    "null": b"null",
    "deep": b"[" * 100_000,
    "junk": bytes(range(256)) * 8,
}


@pytest.fixture(scope="module")
def swept(real_run: RunPaths, tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A copy of the finished sweep with a second attempt, changed and mended by each test."""
    paths = replace(real_run, root=tmp_path_factory.mktemp("swept"))
    shutil.copytree(real_run.folder, paths.folder, symlinks=True)
    ended = {"exit_code": 0, "outcome": "done", "wall_seconds": 1.0}
    note = {"attempt": 2, "driver": "a:1:2", "begun": "2026-01-03", "from_step": None, "step": 8}
    write_json(paths.point(POINT).attempt(2), note | ended)
    return paths


def read_status(paths: RunPaths) -> object:
    found = status.with_last_lines(paths, report(paths))
    assert sum(found["stages"].values()) == 4
    return status.render(found) + status.render_failures(found)


def read_report(paths: RunPaths) -> object:
    return render(frames.analyse(load_results(paths)), "csv")


def read_verified(paths: RunPaths) -> object:
    return verify(paths.report / "results.csv", root=paths.root, regrade=True)


def read_pages(paths: RunPaths) -> object:
    results = RunRoot(root=paths.root).open(paths.sweep, paths.experiment, paths.version)
    for view in BUILDERS:
        BUILDERS[view](results, {}, ServerLinks())
    return None


SAID = (ValueError, OSError, FileNotFoundError, LookupError)
"""What a reader says in a sentence; the last is a page that is not there."""
Reader = Callable[[RunPaths], object]
QUICK: Sequence[Reader] = (read_status, load_results)
READERS: Sequence[Reader] = (*QUICK, read_report, read_verified, read_pages)
TABLES = ("algorithms", "versions", "files", "inputs", "outputs")
"""Keys of objects whose entries are alike."""


class Once:
    """`analyse` of files that stay as they are: the readers of the same results share its answer,
    or what it raises."""

    def __init__(self) -> None:
        self._said: list[tuple[SweepResults, str, Analysis | Exception]] = []

    def __call__(self, results: SweepResults, rule: str = LAST) -> Analysis:
        said = next((what for of, by, what in self._said if (of, by) == (results, rule)), None)
        if said is None:
            try:
                said = analyse(results, rule)
            except Exception as error:
                said = error
            self._said.append((results, rule, said))
        if isinstance(said, Exception):
            raise said
        return said


def changed_fields(value: Any, *, is_table: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of an object, those of its objects too, with the object as it is when that field
    is of another type or missing, by how.

    is_table: its entries are alike, so that a field of these is changed in the first that has it,
    and of entries that are no objects the first is.
    """
    if not isinstance(value, dict):
        return
    known: set[str] = set()
    for key, field in value.items():
        others = (17, ["x"]) if not isinstance(field, (int, list)) else ("x", None)
        without = {name: each for name, each in value.items() if name != key}
        changes = {f"{key}={other!r}": value | {key: other} for other in others}
        yield key, changes | {f"without {key}": without}
        if is_table and not isinstance(field, dict):
            return
        for name, inner in changed_fields(field, is_table=key in TABLES):
            if not (is_table and name in known):
                yield (
                    f"{key}.{name}",
                    {f"{key}.{how}": value | {key: each} for how, each in inner.items()},
                )
            known.add(name)


def unnamed(
    swept: RunPaths, path: Path, content: bytes | None, readers: Sequence[Reader]
) -> Iterator[str]:
    """What readers raise, but for an error that names the file."""
    for reader in readers:
        try:
            reader(swept)
        except Exception as error:
            named = path.name in str(error) or content is None
            if not (named and type(error) in SAID):
                yield f"{reader.__name__}: {type(error).__name__}: {error}"


def faults(
    swept: RunPaths,
    path: Path,
    contents: Iterable[tuple[str, bytes | None, Sequence[Reader]]],
) -> list[str]:
    """The same for each content that a file gets, by name, and those that then read."""
    kept, found = path.read_bytes(), []
    try:
        for how, content, readers in contents:
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            analyse_once = Once()
            with (
                patch.object(frames, "analyse", analyse_once),
                patch.object(verifying, "analyse", analyse_once),
            ):
                found += [f"{how}, {fault}" for fault in unnamed(swept, path, content, readers)]
    finally:
        path.write_bytes(kept)
    return found


@pytest.mark.parametrize("name", FILES)
@pytest.mark.slow
def test_no_damage_to_a_stored_file_is_a_traceback(swept: RunPaths, name: str) -> None:
    (path,) = swept.folder.glob(name)
    content = path.read_bytes()
    damages = CONTENTS | {
        "removed": None,
        "halved": content[: len(content) // 2],
        "a byte that is no UTF-8": content[:20] + b"\xff" + content[20:],
    }
    assert faults(swept, path, [(*each, READERS) for each in damages.items()]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".json")])
def test_no_field_of_another_type_is_a_traceback(swept: RunPaths, name: str) -> None:
    """Each field takes every change, and one of these before all readers: another than the field
    before it, so that every kind of value comes before all of them."""
    (path,) = swept.folder.glob(name)
    contents = [
        (how, json.dumps(value).encode(), READERS if i % len(changes) == j else QUICK)
        for i, (_, changes) in enumerate(changed_fields(json.loads(path.read_bytes())))
        for j, (how, value) in enumerate(changes.items())
    ]
    assert len(contents) > 6
    assert faults(swept, path, contents) == []
