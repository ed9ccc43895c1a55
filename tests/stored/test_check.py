"""`check` on a real finished sweep: which files differ, are missing, or stand in no record;
and that `--fix` moves aside what `run` makes again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.stored import STORED
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.attempts import Note
from fgrpo_bench.stages.digests import CHECKSUM_KEY, EDITED, sha256_file, with_checksum
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import clear_damage, is_done
from fgrpo_bench.stages.plan import PUT_BACK
from sweeps.check import check, render
from sweeps.cli import main
from tests.stored.conftest import TRAIN, copied

WEIGHTS = f"{TRAIN}/checkpoints/step-00004/model.safetensors"


def faults(paths: RunPaths) -> dict[str, str]:
    return {fault.name: fault.what for fault in check(paths).faults}


@pytest.fixture(scope="module")
def shared(real_run: RunPaths, tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A copy that every test leaves as it found it, with a note that each stage was done."""
    paths = copied(real_run, tmp_path_factory.mktemp("check"))
    for marker in paths.folder.rglob("DONE.json"):
        note = Note(attempt=1, outcome="done")
        write_json(StagePaths(marker.parent).attempt(1), note.as_json())
    return paths


@pytest.fixture
def whole(shared: RunPaths) -> Iterator[RunPaths]:
    before = {path: path.read_bytes() for path in shared.folder.rglob("*") if path.is_file()}
    yield shared
    for path in [path for path in shared.folder.rglob("*") if path.is_file()]:
        if path not in before:
            path.unlink()
    for path, content in before.items():
        path.write_bytes(content)


def one(paths: RunPaths, pattern: str) -> Path:
    return sorted(paths.folder.glob(pattern))[-1]


def recorded(paths: RunPaths) -> list[Path]:
    """Every file that a marker or the report's provenance has the digest of, and these."""
    markers = list(paths.folder.rglob("DONE.json"))
    outputs = {m.parent / name for m in markers for name in read_json(m)["outputs"]}
    specs = {marker.with_name("spec.json") for marker in markers}
    return sorted({*outputs, *specs, *markers, *paths.report.iterdir()})


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_flipped_bit_of_any_result_is_found_and_nothing_else(
    shared: RunPaths, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from([*recorded(shared), *analysed_files(shared)]))
    content = path.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))
    with suppress(ValueError):  # 1e-05 and 1E-05 say the same
        assume(path.suffix != ".json" or json.loads(changed) != json.loads(content))
    try:
        path.write_bytes(changed)
        names = list(faults(shared))
    finally:
        path.write_bytes(content)
    name = path.relative_to(shared.folder).as_posix()
    # what provenance.json says of a file is compared with the file as well
    assert name in names and (path.name == "provenance.json" or len(names) == 1)


def analysed_files(paths: RunPaths) -> list[Path]:
    names = ["analysis.json", *(f"{name}.parquet" for name in STORED)]
    return [paths.analysis / name for name in names]


@pytest.mark.slow
def test_a_missing_result_is_found_and_nothing_else(whole: RunPaths) -> None:
    for path in recorded(whole):
        aside = path.rename(whole.folder / "aside.lock")
        assert faults(whole) == {path.relative_to(whole.folder).as_posix(): "is missing"}
        aside.rename(path)


@pytest.mark.slow
def test_files_that_no_record_lists_are_named_and_those_of_undone_stages_are_not(
    whole: RunPaths,
) -> None:
    (whole.report / "other.md").write_text("of before")
    (whole.warmup(11).folder / "further.parquet").write_bytes(b"nobody's")
    (whole.folder / "former-s12").mkdir()
    (whole.folder / "former-s12" / "metrics.parquet").write_bytes(b"of a plan before")
    whole.point(TRAIN).attempt(1).unlink()
    whole.point(TRAIN).done.unlink()
    checked = check(whole)
    assert (checked.faults, checked.undone) == ((), (TRAIN,))
    names = ("former-s12/metrics.parquet", "_warmup/s11/further.parquet", "report/other.md")
    assert sorted(checked.unlisted) == sorted(names)
    said = render(checked)
    assert "no record lists: " in said and f"not done yet: {TRAIN}" in said


def test_a_whole_sweep_has_exit_code_0_and_every_result_was_compared(
    shared: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    root = f"run_root={shared.root}"
    assert main(["check", "smoke", root]) == 0
    *_, said, last = capsys.readouterr().out.splitlines()
    assert said == "nothing is damaged" and last.startswith("not compared: logs, locks, notes")
    assert main(["check", "smoke", "--json", root]) == 0
    found = json.loads(capsys.readouterr().out)
    markers = list(shared.folder.rglob("DONE.json"))
    outputs = sum(len(read_json(marker)["outputs"]) for marker in markers)
    report = len(list(shared.report.iterdir())) - 1  # provenance.json has the others' digests
    assert found["files"] == outputs + report + len(STORED) and len(markers) == 4
    assert (found["damaged"], found["undone"]) == ([], [])
    assert (found["in_no_record"], found["begun_again"]) == ([], [])


def test_damage_has_exit_code_1_and_comes_with_what_to_do(
    whole: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = one(whole, "report/plane-countdown.svg")
    figure.write_text("<svg/>")
    command = ["check", "smoke", f"run_root={whole.root}"]
    assert main(command) == 1
    said = capsys.readouterr().out
    assert "report/plane-countdown.svg: was changed" in said
    assert f"`fgrpo-bench report smoke/countdown-tiny/v1 --root {whole.root}` writes" in said
    one(whole, WEIGHTS).write_bytes(b"short")
    assert main(command) == 1
    said = capsys.readouterr().out
    run = f"smoke/countdown-tiny/v1 run_root={whole.root}"
    assert f"{WEIGHTS}: has 5 bytes instead of" in said
    assert f"`fgrpo-bench check {run} --fix` moves" in said
    assert f"`fgrpo-bench sweep run {run}`, with the settings" in said
    assert main([*command, "--json"]) == 1
    damaged = json.loads(capsys.readouterr().out)["damaged"]
    assert {each["file"]: each["stage"] for each in damaged} == {
        "report/plane-countdown.svg": None,
        WEIGHTS: TRAIN,
    }


def test_a_marker_without_its_own_digest_or_of_another_stage_is_damaged(whole: RunPaths) -> None:
    done, other = whole.point(TRAIN).done, whole.warmup(11).done
    marker = read_json(done)
    write_json(done, {key: value for key, value in marker.items() if key != CHECKSUM_KEY})
    name = f"{TRAIN}/DONE.json"
    assert faults(whole) == {name: EDITED}
    shutil.copy(other, done)
    assert faults(whole)[name] == "is of another stage, or of other settings"
    done.write_text("[]")
    assert faults(whole)[name] == "cannot be read"


def test_a_stage_at_work_or_begun_again_is_not_compared(whole: RunPaths) -> None:
    train = whole.point(TRAIN)
    train.metrics.write_bytes(b"newer")
    with locked(train.lock, wait=False, what="a worker"):
        assert faults(whole) == {}
    assert list(faults(whole)) == [f"{TRAIN}/metrics.parquet"]
    owner = read_json(train.owner)
    write_json(train.owner, owner | {"token": "newer", "over": owner["token"]})
    found = check(whole)
    assert found.faults == ()
    assert f"begun again and not compared: {TRAIN}" in render(found)


def test_a_file_that_the_disk_does_not_give_is_damage_and_no_end(
    whole: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path) -> str:
        if path.name == "metrics.parquet":
            raise OSError(5, "Input/output error")
        return sha256_file(path)

    monkeypatch.setattr("fgrpo_bench.stages.digests.sha256_file", read)
    assert faults(whole) == {f"{TRAIN}/metrics.parquet": "cannot be read: Input/output error"}


def test_a_declaration_or_a_plan_of_another_kind_is_named_with_what_to_do(
    whole: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(whole.plan, edited(read_json(whole.plan), "points", 1, "group_size", to=1))
    with pytest.raises(ValueError, match=r"plan\.json does not .*group_size.*delete it and run"):
        load_results(whole)
    whole.plan.write_text("[]")
    assert main(["check", "smoke", f"run_root={whole.root}"]) == 1
    assert f"damaged: {whole.plan} " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "keys", "to", "what", "remedy"),
    [
        ("sweep.json", ("declaration", "sweep", "question"), "Another one?", EDITED, PUT_BACK),
        ("sweep.json", ("families", 0, "trained"), 7, EDITED, PUT_BACK),
        ("sweep.json", (CHECKSUM_KEY,), None, EDITED, PUT_BACK),
        ("sweep.json", ("declaration",), None, "cannot be read", "delete it, and `run` writes it"),
        ("plan.json", ("points", 1, "group_size"), 16, EDITED, "`run` writes it again"),
        ("plan.json", ("stages", 0, "name"), "../x", EDITED, "`run` writes it again"),
        ("plan.json", (CHECKSUM_KEY,), None, EDITED, "`run` writes it again"),
    ],
)
def test_an_edited_declaration_or_plan_is_named_with_what_to_do(
    whole: RunPaths, name: str, keys: tuple[Any, ...], to: Any, what: str, remedy: str
) -> None:
    at = whole.folder / name
    write_json(at, edited(read_json(at), *keys, to=to))
    (fault,) = check(whole).faults
    assert (fault.name, fault.what) == (name, what) and str(fault.remedy).startswith(remedy)


def edited(value: Any, *keys: Any, to: Any) -> Any:
    """A JSON value with another value at the end of some keys; None takes the key away."""
    key, *more = keys
    copied = dict(value) if isinstance(value, dict) else list(value)
    if more:
        copied[key] = edited(value[key], *more, to=to)
    elif to is None:
        del copied[key]
    else:
        copied[key] = to
    return copied


@contextmanager
def replaced(path: Path, by: str) -> Iterator[None]:
    """A file that is a folder, a loop of links or a pipe for a while."""
    aside = path.with_name(f"{path.name}.aside.lock")
    path.rename(aside)
    try:
        if by == "a folder":
            path.mkdir()
        elif by == "a pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(path.name)
        yield
    finally:
        (path.rmdir if by == "a folder" else path.unlink)()
        aside.rename(path)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["a folder", "a loop of links", "a pipe"])
@pytest.mark.parametrize(
    "pattern",
    [
        *(WEIGHTS, f"{TRAIN}/DONE.json", f"{TRAIN}/eval/*/*/countdown/draws.parquet"),
        *("report/report.md", "report/provenance.json", "sweep.json", "analysis/cells.parquet"),
    ],
)
def test_what_is_no_file_is_damage_of_that_file_and_no_end(
    whole: RunPaths, pattern: str, by: str
) -> None:
    path = one(whole, pattern)
    if by == "a pipe" and path.suffix == ".json":
        return  # of which nobody would read the end
    with replaced(path, by):
        said = faults(whole)
    assert list(said) == [path.relative_to(whole.folder).as_posix()]
    assert not any("\n" in fault for fault in said.values())


def test_a_plan_that_is_no_file_is_named_with_what_to_do(whole: RunPaths) -> None:
    for by in ("a folder", "a loop of links"):
        with replaced(whole.plan, by), pytest.raises(ValueError, match="delete it and run") as said:
            check(whole)
        assert str(said.value).startswith(f"{whole.plan} is no file (")


OUTSIDE = "../../../../../../etc/passwd"


RECORDS = [
    (f"{TRAIN}/DONE.json", "outputs", {"bytes": 1, "sha256": "0" * 64}),
    ("report/provenance.json", "files", "0" * 64),
    ("analysis/analysis.json", "files", "0" * 64),
]
"""What lists files, where in it, and what it says of each."""


@pytest.mark.parametrize(("record", "key", "listed"), RECORDS)
def test_a_name_outside_the_folder_is_refused_and_nobody_looks_there(
    whole: RunPaths, monkeypatch: pytest.MonkeyPatch, record: str, key: str, listed: object
) -> None:
    looked: list[str] = []
    stat = Path.stat
    monkeypatch.setattr(
        Path, "stat", lambda path, **how: (looked.append(str(path)), stat(path, **how))[1]
    )
    at = whole.folder / record
    write_json(at, with_checksum(edited(read_json(at), key, OUTSIDE, to=listed)))
    said = faults(whole)
    assert list(said) == [record] and f"lists '{OUTSIDE}" in said[record]
    assert looked and not any("passwd" in path for path in looked)


def test_a_run_moves_nothing_outside_a_stage_that_its_marker_lists(
    whole: RunPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, outside = whole.point(TRAIN), tmp_path / "mine"
    outside.write_text("mine")
    name = os.path.relpath(outside, train.folder)
    marker = with_checksum(edited(read_json(train.done), "outputs", name, to=RECORDS[0][2]))
    write_json(train.done, marker)
    assert not is_done(train, fingerprint=marker["fingerprint"], target={})
    clear_damage(train, fingerprint=marker["fingerprint"])
    assert outside.read_text() == "mine" and not train.done.exists()
    assert "which is outside its stage's folder" in capsys.readouterr().out


def test_a_name_that_would_steer_a_terminal_is_printed_escaped(
    whole: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    done = whole.point(TRAIN).done
    name = "a\nnothing is damaged\x1b[2J"
    write_json(done, with_checksum(edited(read_json(done), "outputs", name, to=RECORDS[0][2])))
    assert main(["check", "smoke", f"run_root={whole.root}"]) == 1
    said = capsys.readouterr().out
    assert r"a\nnothing is damaged\x1b[2J: is missing" in said and "\x1b" not in said
