"""Whatever becomes of a stored file, every reader shows the rest or says file, fault and remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboards.app import ServerLinks
from dashboards.page import Params
from dashboards.pages import BUILDERS
from dashboards.queries.store import Store
from fgrpo_bench import intervals
from fgrpo_bench.paths import RunPaths
from fgrpo_bench.report.build import render
from fgrpo_bench.report.verify import verify
from fgrpo_bench.results import load_results
from sweeps import failures, ledger, status
from sweeps.status import report

POINT = "grpo-n4-g0-s11"
EVALUATION = f"{POINT}/eval/*/step-00004"
FILES = [
    "sweep.json",
    "plan.json",
    "ledger.jsonl",
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
DEPTHS = {"sweep.json": 3, "spec.json": 3}
"""Objects within objects whose fields are changed, where it is not 2."""
CONTENTS = {
    "emptied": b"",
    "a list": b"[]",
    "an object": b"{}",
    "null": b"null",
    "deep": b"[" * 100_000,
    "junk": bytes(range(256)) * 8,
}


@pytest.fixture(scope="module", autouse=True)
def few_replicates() -> Iterator[None]:
    """Intervals are not what is tested here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "REPLICATES", 20)
        yield


@pytest.fixture(scope="module")
def swept(finished: RunPaths, tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A copy of the finished sweep with a ledger, changed and mended by each test."""
    paths = replace(finished, root=tmp_path_factory.mktemp("swept"))
    shutil.copytree(finished.folder, paths.folder, symlinks=True)
    event = ledger.Event(
        event="start", stage=POINT, attempt=1, pid=1, driver="a:1:2", time="2026-01-02T03:04:05"
    )
    ledger.append(paths.ledger, event)
    ledger.append(
        paths.ledger,
        replace(event, event="end", exit_code=0, outcome="done", wall_seconds=1.0),
    )
    return paths


def read_status(paths: RunPaths) -> object:
    found = failures.with_last_lines(paths, report(paths))
    assert sum(found["stages"].values()) == 4
    return status.render(found) + failures.render(found)


def read_report(paths: RunPaths) -> object:
    return render(load_results(paths), "csv")


def read_verified(paths: RunPaths) -> object:
    return verify(paths.report / "results.csv", root=paths.root, regrade=True)


def read_pages(paths: RunPaths) -> object:
    results = Store(root=paths.root).open(paths.sweep, paths.experiment, paths.version)
    for view in BUILDERS:
        BUILDERS[view](results, Params({}), ServerLinks())
    return None


READERS: list[Callable[[RunPaths], object]] = [
    read_status,
    read_report,
    read_verified,
    read_pages,
]


def changed_fields(value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """An object with one field of another type, field by field, those of its objects too."""
    if not isinstance(value, dict) or not depth:
        return
    for key, field in value.items():
        other = "x" if isinstance(field, (int, list)) else 17
        yield f"{key}={other!r}", value | {key: other}
        yield f"without {key}", {name: each for name, each in value.items() if name != key}
        for name, inner in changed_fields(field, depth - 1):
            yield f"{key}.{name}", value | {key: inner}


def damages(path: Path) -> Iterator[tuple[str, bytes | None]]:
    content = path.read_bytes()
    yield from CONTENTS.items()
    yield "removed", None
    yield "halved", content[: len(content) // 2]
    yield "a byte that is no UTF-8", content[:20] + b"\xff" + content[20:]
    if path.suffix == ".json":
        for name, value in changed_fields(json.loads(content), DEPTHS.get(path.name, 2)):
            yield name, json.dumps(value).encode()


@pytest.mark.parametrize("name", FILES)
def test_no_damage_to_a_stored_file_is_a_traceback(swept: RunPaths, name: str) -> None:
    (path,) = swept.folder.glob(name)
    kept = path.read_bytes()
    faults = []
    try:
        for how, content in damages(path):
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
            for reader in READERS:
                try:
                    reader(swept)
                except (ValueError, OSError, LookupError) as error:
                    text = str(error)
                    if isinstance(error, KeyError) or (path.name not in text and how != "removed"):
                        faults.append(f"{how}, {reader.__name__}: {type(error).__name__}: {text}")
                except Exception as error:
                    faults.append(f"{how}, {reader.__name__}: {type(error).__name__}: {error}")
    finally:
        path.write_bytes(kept)
    assert not faults, "\n".join(faults)
