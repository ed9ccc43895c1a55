"""Whatever becomes of a stored file, every reader shows the rest or says file, fault and remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dashboards.pages import BUILDERS
from dashboards.pages.sweep import build
from dashboards.queries import RunRoot
from fgrpo_bench.analysis import Analysis, analyse, stored
from fgrpo_bench.analysis.checkpoints import LAST
from fgrpo_bench.analysis.results import SweepResults, load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.records import Record, SchemaError
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report import verify as verifying
from fgrpo_bench.report.__main__ import main as report_command
from fgrpo_bench.report.build import render, write_report
from fgrpo_bench.report.verify import verify
from fgrpo_bench.stages.digests import EDITED, with_checksum
from fgrpo_bench.stages.plan import PUT_BACK
from fgrpo_bench.tracking.desired import desired_experiment
from sweeps import status
from sweeps.cli import main as sweeps_command
from sweeps.status import report
from tests.dashboards.conftest import client_of
from tests.report.conftest import drawing_plainly
from tests.stored.conftest import TRAIN, copied
from tests.support.dashboard import Reader, add_draws
from tests.support.fake_sweep import fake_sweep
from tests.support.report import ONE_SEED, copy, small_sweep

EVALUATION = f"{TRAIN}/eval/*/step-00004"
FILES = [
    "sweep.json",
    "plan.json",
    f"{TRAIN}/logs/attempt-002.json",
    "report/provenance.json",
    "report/results.csv",
    *(f"_warmup/s11/{name}" for name in ("spec.json", "DONE.json", "owner.json")),
    *(f"{TRAIN}/{name}" for name in ("spec.json", "DONE.json", "owner.json", "progress.json")),
    f"{TRAIN}/metrics.parquet",
    *(f"{EVALUATION}/{name}" for name in ("spec.json", "DONE.json", "owner.json")),
    f"{EVALUATION}/countdown/draws.json",
    f"{EVALUATION}/countdown/draws.parquet",
    f"{EVALUATION}/countdown/grades.countdown-1.parquet",
    f"{EVALUATION}/countdown/passk.parquet",
]
OF_FIELDS = [
    pytest.param(name, marks=[] if name == f"{EVALUATION}/DONE.json" else [pytest.mark.rare])
    for name in FILES
    if name.endswith(".json")
]
"""Of an evaluation's marker in every run: one reader of records reads all of them."""
WHOLE = [
    pytest.param(name, marks=[] if name.startswith(EVALUATION) else [pytest.mark.rare])
    for name in FILES
]
"""The files of an evaluation in every run, for which those of other stages stand."""
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
    paths = copied(real_run, tmp_path_factory.mktemp("swept"))
    ended = {"exit_code": 0, "outcome": "done", "wall_seconds": 1.0}
    note = {"attempt": 2, "driver": "a:1:2", "begun": "2026-01-03", "from_step": None, "step": 8}
    write_json(paths.point(TRAIN).attempt(2), note | ended)
    return paths


def read_status(paths: RunPaths) -> object:
    found = status.with_last_lines(paths, report(paths))
    assert sum(found["stages"].values()) == 4
    return status.render(found) + status.render_failures(found)


def read_report(paths: RunPaths) -> object:
    return render(analyse(load_results(paths)), "csv")


def read_verified(paths: RunPaths) -> object:
    return verify(paths.report / "results.csv", root=paths.root, regrade=False)


def read_regraded(paths: RunPaths) -> object:
    return verify(paths.report / "results.csv", root=paths.root, regrade=True)


def read_pages(paths: RunPaths) -> object:
    results = RunRoot(root=paths.root).open(paths.sweep, paths.experiment, paths.version)
    for view in BUILDERS:
        BUILDERS[view](results, {})
    return None


SAID = (ValueError, OSError, FileNotFoundError, LookupError)
"""What a reader says in a sentence; the last is a page that is not there."""
Reading = Callable[[RunPaths], object]
QUICK: Sequence[Reading] = (read_status, load_results)
READERS: Sequence[Reading] = (*QUICK, read_report, read_verified, read_pages)
TABLES = ("algorithms", "versions", "files", "inputs", "outputs")
"""Keys of objects whose entries are alike."""


@pytest.fixture(autouse=True)
def plain_figures() -> Iterator[None]:
    """`verify` builds a report for each of some hundred files, and its figures take seconds."""
    with drawing_plainly():
        yield


class Once:
    """`analyse` of files that stay as they are: the readers of the same results share its answer,
    or what it raises."""

    def __init__(self) -> None:
        self._said: list[tuple[tuple[Any, ...], Analysis | Exception]] = []

    def __call__(self, results: SweepResults, rule: str = LAST, by: str | None = None) -> Analysis:
        asked_for = (results, rule, by)
        said = next((what for of, what in self._said if of == asked_for), None)
        if said is None:
            try:
                said = analyse(*asked_for)
            except Exception as error:
                said = error
            self._said.append((asked_for, said))
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
    swept: RunPaths, path: Path, content: bytes | None, readers: Sequence[Reading]
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
    contents: Iterable[tuple[str, bytes | None, Sequence[Reading]]],
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
                patch.object(stored, "analyse", analyse_once),
                patch.object(verifying, "analyse", analyse_once),
            ):
                found += [f"{how}, {fault}" for fault in unnamed(swept, path, content, readers)]
    finally:
        path.write_bytes(kept)
    return found


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.slow
def test_no_damage_to_a_stored_file_is_a_traceback(swept: RunPaths, name: str) -> None:
    (path,) = swept.folder.glob(name)
    content = path.read_bytes()
    damages = CONTENTS | {
        "removed": None,
        "halved": content[: len(content) // 2],
        "a byte that is no UTF-8": content[:20] + b"\xff" + content[20:],
    }
    readers = (*READERS, read_regraded)
    assert faults(swept, path, [(*each, readers) for each in damages.items()]) == []


@pytest.mark.slow
@pytest.mark.rare
@pytest.mark.parametrize("name", OF_FIELDS)
def test_no_field_of_another_type_is_a_traceback(swept: RunPaths, name: str) -> None:
    """Each field takes every change, and one of these before all readers: another than the field
    before it, so that every kind of value comes before all of them."""
    (path,) = swept.folder.glob(name)
    seal = with_checksum if name == "sweep.json" else dict  # else its seal alone would be looked at
    contents = [
        (how, json.dumps(seal(value)).encode(), READERS if i % len(changes) == j else QUICK)
        for i, (_, changes) in enumerate(changed_fields(json.loads(path.read_bytes())))
        for j, (how, value) in enumerate(changes.items())
    ]
    assert len(contents) > 6
    assert faults(swept, path, contents) == []


@pytest.mark.slow
def test_a_run_makes_the_stage_of_a_damaged_marker_again_and_no_other(
    tmp_path: Path, capsys
) -> None:
    sweep = fake_sweep(tmp_path)
    assert sweep.run() == 0
    stage = sweep.paths.point(TRAIN)
    stage.done.write_bytes(b'{"fingerprint": "\xff')
    assert sweeps_command(["status", "smoke", f"run_root={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert "5 done" in said and "1 damaged" in said
    assert f"damaged: {TRAIN}: {stage.done} holds no valid JSON" in said and "delete it" in said
    assert sweep.run() == 0
    assert "5 done before, 1 to run" in sweep.log()
    assert f"damaged: training {TRAIN}: {stage.done} holds no valid JSON" in sweep.log()
    assert (stage.damaged / "DONE.json").read_bytes().endswith(b"\xff")
    assert sweeps_command(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert "damaged" not in capsys.readouterr().out


def test_report_and_page_show_the_other_points_and_name_the_damaged_one_with_the_remedy(
    tmp_path: Path,
) -> None:
    results = small_sweep(tmp_path, "smoke", ONE_SEED)
    (point,) = (point for point in results.points if point.point_id == TRAIN)
    point.evaluate.done.write_text("null")
    results = load_results(results.paths)
    progress = build(results, {}).context["progress"]
    assert [(stage.kind, stage.point_id) for stage in progress.damaged] == [("evaluate", TRAIN)]
    assert progress.states["damaged"] == 1 and progress.states["done"] == 5
    missing = f"Missing: {TRAIN} ({point.evaluate.done} is damaged)"
    assert f"INCOMPLETE: 1 of 2 runs have results. {missing}" in render(analyse(results), "md")
    run = results.paths
    page = client_of(tmp_path).get(f"/{run.sweep}/{run.experiment}/{run.version}/sweep")
    assert page.status_code == 200
    assert "delete it and run the sweep again" in " ".join(Reader(page.text).text.split())


@dataclass(frozen=True, kw_only=True)
class Part(Record):
    b: int


@dataclass(frozen=True, kw_only=True)
class Whole(Record):
    a: tuple[Part, ...]
    c: str | None = None
    e: bool = False
    f: dict[str, float] | None = None


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([], "it is [], not an object"),
        ({}, "a is missing"),
        ({"a": 1}, "a is 1, not a list"),
        ({"a": [{"b": 1}, {"b": "1"}]}, "a[1].b is '1', not a whole number"),
        ({"a": [{"b": True}]}, "a[0].b is True, not a whole number"),
        ({"a": [], "c": 1}, "c is 1, not text"),
        ({"a": [], "e": 1}, "e is 1, not true or false"),
        ({"a": [], "f": {"x": "1"}}, "f.x is '1', not a number"),
    ],
)
def test_a_record_says_what_does_not_fit_and_where(value: object, fault: str) -> None:
    with pytest.raises(SchemaError) as error:
        Whole.parsed(value)
    assert str(error.value) == fault


def test_a_record_is_written_as_it_was_read_with_the_keys_that_it_does_not_know() -> None:
    stored = {"a": [{"b": 1, "z": None}], "f": {"x": 2, "y": 0.5}, "further": 1, "of": {}}
    record = Whole.parsed(stored)
    assert (record.c, record.e, record.a[0].b) == (None, False, 1)
    assert json.dumps(record.as_json()) == json.dumps(stored)
    assert json.dumps(replace(record, e=True).as_json()) == json.dumps(
        {"a": stored["a"], "e": True, "f": stored["f"], "further": 1, "of": {}}
    )


SECOND = "grpo-n4-g1-s11"
REFUSED = "results count only for the settings that they were made with"


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> SweepResults:
    """A reported sweep with draws; not to be changed."""
    results = small_sweep(tmp_path_factory.mktemp("reported"), "smoke", ONE_SEED)
    for point in results.points:
        add_draws(point, "countdown", ("12",))
    with drawing_plainly():
        write_report(load_results(results.paths))
    return results


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def swap_points(paths: RunPaths) -> None:
    swap(paths.point(TRAIN).folder, paths.point(SECOND).folder)


def swap_benchmarks(paths: RunPaths) -> None:
    first, second = (
        point.evaluate.benchmark("countdown").folder
        for point in load_results(paths).points
        if point.point_id in (TRAIN, SECOND)
    )
    swap(first, second)


@pytest.mark.parametrize("change", [swap_points, swap_benchmarks])
def test_folders_of_two_points_that_were_swapped_are_refused_by_every_reader(
    reported: SweepResults, tmp_path: Path, capsys, change: Callable[[RunPaths], None]
) -> None:
    paths = copy(reported, tmp_path).paths
    file = str(paths.report / "results.csv")
    change(paths)
    for asked in (["smoke", "--root", str(tmp_path)], ["--verify", file]):
        assert report_command(asked) == 1
        assert REFUSED in capsys.readouterr().err
    assert sweeps_command(["status", "smoke", f"run_root={tmp_path}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    states = {stage["name"]: stage for point in found["points"] for stage in point["stages"]}
    wrong = {name for name, stage in states.items() if stage["state"] == "damaged"}
    assert {name.split("/")[0] for name in wrong} == {TRAIN, SECOND}
    assert all(REFUSED in states[name]["why"] for name in wrong)
    assert sweeps_command(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert "put the folder back where it belongs" in capsys.readouterr().out
    client = client_of(tmp_path)
    for view in ("compare", "forgetting", "draws", "audit"):
        page = client.get(f"/smoke/{paths.experiment}/{paths.version}/{view}")
        assert (page.status_code, REFUSED in page.text) == (500, True), view


def test_an_edited_family_of_comparisons_is_refused_by_every_reader(
    reported: SweepResults, tmp_path: Path, capsys
) -> None:
    paths = copy(reported, tmp_path).paths
    before = {file.name: file.read_bytes() for file in paths.report.iterdir()}
    declared = read_json(paths.sweep_json)
    declared["declaration"]["sweep"]["family"] = {"ks": [4]}
    write_json(paths.sweep_json, declared)
    file = str(paths.report / "results.csv")
    for asked in (["smoke", "--root", str(tmp_path)], ["--verify", file]):
        assert report_command(asked) == 1
        said = capsys.readouterr()
        assert said.out == "" and f"sweep.json {EDITED}: {PUT_BACK}" in said.err
    assert {file.name: file.read_bytes() for file in paths.report.iterdir()} == before
    client = client_of(tmp_path)
    for view in ("sweep", "compare", "forgetting"):
        page = client.get(f"/smoke/{paths.experiment}/{paths.version}/{view}")
        assert (page.status_code, EDITED in page.text) == (500, True), view
    with pytest.raises(ValueError, match=EDITED):
        desired_experiment(paths)
