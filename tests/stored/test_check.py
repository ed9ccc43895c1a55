"""`sweeps check` on a real finished sweep: what is damaged is named, with what rests on it."""

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
from fgrpo_bench.analysis.rows import FRAMES
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.digests import SEAL, sha256_file, with_checksum
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import clear_damage, is_done
from sweeps.check.examine import findings, render
from sweeps.cli import main
from sweeps.freeze import UNSEALED
from tests.stored.conftest import TRAIN, copied, evaluation, look

WEIGHTS = f"{TRAIN}/checkpoints/step-00004/model.safetensors"


def faults(paths: RunPaths) -> dict[str, str]:
    return {damage.name: damage.fault for damage in look(paths).damage}


@pytest.fixture(scope="module")
def shared(real_run: RunPaths, tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A copy that every test leaves as it found it."""
    return copied(real_run, tmp_path_factory.mktemp("check"))


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
    names = ["analysis.json", *(f"{name}.parquet" for name in FRAMES)]
    return [paths.analysis / name for name in names]


def test_a_missing_result_is_found_and_nothing_else(whole: RunPaths) -> None:
    for path in recorded(whole):
        aside = path.rename(whole.folder / "aside.lock")
        assert faults(whole) == {path.relative_to(whole.folder).as_posix(): "is missing"}
        aside.rename(path)


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
    assert found["files"] == outputs + report + len(FRAMES) and len(markers) == 4
    assert (found["damaged"], found["undone"]) == ([], [])
    assert (found["of_no_stage_of_the_plan"], found["in_no_record"]) == ([], [])


def test_damage_has_exit_code_1_and_comes_with_what_rests_on_it_and_what_it_took(
    whole: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    one(whole, WEIGHTS).write_bytes(b"short")
    one(whole, "report/plane-countdown.svg").write_text("<svg/>")
    assert main(["check", "smoke", f"run_root={whole.root}"]) == 1
    said = capsys.readouterr().out
    assert f"{WEIGHTS}: has 5 bytes instead of" in said
    assert "report/plane-countdown.svg: was changed" in said
    assert f"on {TRAIN} rest {TRAIN}/eval/" in said and "/step-00004, report, MLflow" in said
    assert f"to be made again: 1 stage (train {TRAIN}) and the report" in said
    assert f"check smoke/countdown-tiny/v1 run_root={whole.root} --" in said


def test_a_forger_is_named_by_the_report_if_not_by_the_marker(whole: RunPaths) -> None:
    stage = evaluation(whole)
    passk = stage.benchmark("countdown").passk
    passk.write_bytes(passk.read_bytes() + b"\0")
    marker = {key: value for key, value in read_json(stage.done).items() if key != SEAL}
    written = {"bytes": passk.stat().st_size, "sha256": sha256_file(passk)}
    marker["outputs"]["countdown/passk.parquet"] = written
    write_json(stage.done, with_checksum(marker))
    name = passk.relative_to(whole.folder).as_posix()
    assert faults(whole) == {"report/provenance.json": f"was made from another {name}"}


def test_a_marker_without_its_own_digest_or_of_another_stage_is_damaged(whole: RunPaths) -> None:
    done, other = whole.point(TRAIN).done, whole.warmup(11).done
    marker = read_json(done)
    write_json(done, {key: value for key, value in marker.items() if key != SEAL})
    name = f"{TRAIN}/DONE.json"
    assert faults(whole) == {name: "was changed after it was written"}
    shutil.copy(other, done)
    assert faults(whole)[name] == "is of another stage, or of other settings"
    done.write_text("[]")
    assert faults(whole)[name] == "cannot be read as a completion marker"


def test_what_a_damaged_marker_lists_is_compared_with_the_reports_provenance(
    whole: RunPaths,
) -> None:
    stage = evaluation(whole)
    done, passk = stage.done, stage.benchmark("countdown").passk
    passk.write_bytes(passk.read_bytes() + b"\0")
    name = passk.relative_to(whole.folder).as_posix()
    marker = read_json(done)
    without = with_checksum({key: marker[key] for key in marker if key not in ("outputs", SEAL)})
    for content in (b"[]", json.dumps(without).encode(), None):
        done.write_bytes(content) if content else done.unlink()
        said = faults(whole)
        assert said.pop(done.relative_to(whole.folder).as_posix())
        assert said == {name: "was changed"}


def test_results_of_other_weights_than_stand_there_are_damaged(whole: RunPaths) -> None:
    train = whole.point(TRAIN)
    weights = train.checkpoint(4) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[::-1])
    marker = {key: value for key, value in read_json(train.done).items() if key != SEAL}
    marker["outputs"]["checkpoints/step-00004/model.safetensors"]["sha256"] = sha256_file(weights)
    write_json(train.done, with_checksum(marker))
    said = faults(whole)
    assert said.pop("report/provenance.json").startswith("was made from another ")
    assert set(said.values()) == {f"was made with other weights than {TRAIN} has now"}
    assert {Path(name).name for name in said} >= {"draws.parquet", "passk.parquet"}


def test_a_stage_at_work_or_begun_again_is_not_compared(whole: RunPaths) -> None:
    train = whole.point(TRAIN)
    train.metrics.write_bytes(b"newer")
    with locked(train.lock, wait=False, what="a worker"):
        assert faults(whole) == {}
    assert list(faults(whole)) == [f"{TRAIN}/metrics.parquet"]
    owner = read_json(train.owner)
    write_json(train.owner, owner | {"token": "newer", "over": owner["token"]})
    found = look(whole)
    assert found.damage == ()
    assert f"begun again and not compared: {TRAIN}" in render(findings(found))


def test_a_file_that_the_disk_does_not_give_is_damage_and_no_end(
    whole: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path, tell: object) -> str:
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
    whole.sweep_json.write_text("[]")
    assert faults(whole)["sweep.json"] == "cannot be read: delete it, and `run` writes it again"
    whole.plan.write_text("[]")
    assert main(["check", "smoke", f"run_root={whole.root}"]) == 1
    assert f"damaged: {whole.plan} " in capsys.readouterr().err


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


def test_a_declaration_with_another_seal_is_not_that_of_the_report(whole: RunPaths) -> None:
    declared = read_json(whole.sweep_json)
    for keys, to in ((("declaration", "sweep", "family"), {"ks": [8]}), (("first", "plan"), "0")):
        write_json(whole.sweep_json, with_checksum(edited(declared, *keys, to=to)))
        said = "was made from another sweep.json or plan.json"
        assert faults(whole) == {"report/provenance.json": said}


OF_POINT = f"of {TRAIN}, and its spec.json"
EDITED = [
    ("sweep.json", "declaration", "sweep", "question", "Another one?", UNSEALED),
    ("sweep.json", "families", 0, "trained", 7, UNSEALED),
    ("sweep.json", SEAL, None, UNSEALED),
    ("plan.json", "points", 1, "group_size", 16, f"group_size 16 {OF_POINT} 4: `run` writes it"),
    ("plan.json", "points", 1, "learning_rate_factor", 2.0, f"_factor 2.0 {OF_POINT} 1.0: "),
    ("plan.json", "points", 1, "point_id", "other", f"other of other, and its spec.json {TRAIN}"),
    ("plan.json", "points", 1, "checkpoints", 0, "step", 3, f"{OF_POINT} step 4 of {TRAIN}"),
    ("plan.json", "points", 1, None, "was changed after"),
    ("plan.json", "stages", 0, "name", "../\x1b[2J", r"'../\x1b[2J', which is outside its folder"),
    ("plan.json", SEAL, None, "was changed after"),
]
"""A file, keys in it, another value, and what is said of it."""


@pytest.mark.parametrize("edit", EDITED, ids=lambda edit: f"{edit[0]}-{edit[-3]}")
def test_one_edited_value_of_the_declaration_or_the_plan_is_found(
    whole: RunPaths, edit: tuple[Any, ...]
) -> None:
    name, *keys, to, said = edit
    at = whole.folder / name
    write_json(at, edited(read_json(at), *keys, to=to))
    found = faults(whole)
    assert said in found[name] and (name == "plan.json" or len(found) == 1)


def test_a_plan_without_its_evaluations_is_found(whole: RunPaths) -> None:
    plan = read_json(whole.plan)
    stages = [stage for stage in plan["stages"] if stage["kind"] != "evaluate"]
    write_json(whole.plan, plan | {"stages": stages})
    assert "which is no stage that it lists" in faults(whole)["plan.json"]


def test_stages_that_the_plan_does_not_have_and_files_of_no_record_are_named(
    whole: RunPaths,
) -> None:
    plan = read_json(whole.plan)
    fewer = [stage for stage in plan["stages"] if not stage["name"].startswith(TRAIN)]
    write_json(whole.plan, with_checksum(plan | {"points": plan["points"][:1], "stages": fewer}))
    (whole.report / "other.md").write_text("of before")
    (whole.warmup(11).folder / "further.parquet").write_bytes(b"nobody's")
    seen = look(whole)
    assert seen.unplanned[0] == TRAIN and len(seen.unplanned) == 2
    assert seen.unlisted == ("_warmup/s11/further.parquet", "report/other.md")
    said = render(findings(seen))
    assert f"not compared, of no stage of the plan: {TRAIN}, " in said
    assert "not compared, in no record: _warmup/s11/further.parquet, report/other.md" in said


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
            look(whole)
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
    assert list(said) == [record] and repr(OUTSIDE) in said[record]
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
