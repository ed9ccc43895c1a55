"""`sweeps check --repair`: exactly what is damaged is made again, and what was damaged is kept."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths, SharedPaths, StagePaths
from fgrpo_bench.files.whole import link_whole, read_json, write_json
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import sha256_file, with_checksum
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import Marker, rewritten
from sweeps.check.compare import ANALYSIS, REPORT, SHARED_DRAWS, Damage, StoredStage, resting
from sweeps.check.examine import Examined, examine, findings, render, repair
from sweeps.cli import main
from sweeps.commands import StageCommand, stage_command
from sweeps.local import drive
from tests.support.sent import stage_record

TRAIN = "grpo-n4-g0-s11"
TIMES = ("DONE.json", "metrics.parquet", "owner.json", "progress.json", "stage.lock")
"""What a stage that is run again writes with other times."""


def look(paths: RunPaths) -> Examined:
    return examine(paths, lambda total: lambda part: None)


@pytest.fixture
def paths(real_run: RunPaths, tmp_path: Path) -> RunPaths:
    shutil.copytree(real_run.folder, replace(real_run, root=tmp_path).folder)
    return replace(real_run, root=tmp_path)


def content(path: Path) -> bytes:
    """Of a file; of draws.json without the entry of the run root's shared draws, which a repaired
    evaluation gets where it had none."""
    if path.name != "draws.json":
        return path.read_bytes()
    facts = {key: value for key, value in read_json(path).items() if key != "shared"}
    return json.dumps(facts).encode()


def results(paths: RunPaths) -> dict[str, bytes]:
    """All stored results and the report, but for what holds times; not what was set aside."""
    return {
        name: content(path)
        for path in sorted(paths.folder.rglob("*"))
        for name in [path.relative_to(paths.folder).as_posix()]
        if path.is_file() and path.name not in TIMES and "damaged/" not in name
        if "logs/" not in name and path.suffix not in (".jsonl", ".lock")
        if path.name not in ("provenance.json", "report.md", "report.html")  # hold times, too
        if path.name not in ("analysis.json", "cost.parquet")
    }


def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.reporting.sync", lambda paths, say: None)


def repaired(paths: RunPaths, command: StageCommand = stage_command) -> int:
    """The exit code of `check --repair`, with these commands of stages."""
    return repair(look(paths), say=print, run=partial(drive.run, command=command))


def flip(path: Path) -> bytes:
    """Change a bit in the middle; returns the damaged content."""
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    return bytes(damaged)


def evaluation(paths: RunPaths) -> StagePaths:
    (folder,) = (paths.folder / TRAIN / "eval").glob("*/*")
    return StagePaths(folder)


def share(paths: RunPaths) -> SharedPaths:
    """As if the draws of an evaluation were shared; its file is another name of theirs."""
    countdown = evaluation(paths).benchmark("countdown")
    made_of = {"weights_sha256": "w"}
    entry = SharedPaths(paths.draws / fingerprint(made_of))
    sha256, size = sha256_file(countdown.draws), countdown.draws.stat().st_size
    link_whole(entry.draws(sha256), countdown.draws)
    facts = {"identity": made_of, "n_draws": 1, "bytes": size, "sha256": sha256, "made_by": []}
    write_json(entry.facts, with_checksum(facts))
    told = {"digest": entry.folder.name, "adopted": 0, "made_by": []}
    write_json(countdown.manifest, read_json(countdown.manifest) | {"shared": told})
    rewritten(evaluation(paths), [countdown.manifest])
    return entry


@pytest.mark.parametrize("which", ["facts", "draws"])
def test_damaged_shared_draws_are_moved_aside_and_nothing_is_made_again(
    paths: RunPaths, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    entry = share(paths)
    report = {each.name for each in look(paths).damage}  # is of another draws.json now
    (table,) = entry.folder.glob("*.parquet")
    file = entry.facts if which == "facts" else table
    content = file.read_bytes()
    file.unlink()  # so that the evaluation's own stays whole
    file.write_bytes(content)
    assert {each.name for each in look(paths).damage} == report
    flip(file)
    examined = look(paths)
    (damage,) = [each for each in examined.damage if each.name not in report]
    assert damage.of == SHARED_DRAWS and damage.name == os.path.relpath(file, paths.folder)
    examined = replace(examined, damage=(damage,))
    assert "moves these draws aside" in render(findings(examined))
    before = results(paths)
    assert repair(examined, say=print, run=drive.run) == 0
    assert results(paths) == before and not entry.facts.exists() and not file.exists()
    assert len(list(entry.damaged.iterdir())) == 2 and "moved aside" in capsys.readouterr().out
    assert {each.name for each in look(paths).damage} == report
    shutil.rmtree(paths.draws)
    assert {each.name for each in look(paths).damage} == report


@pytest.mark.slow
def test_pass_at_k_and_a_figure_are_made_again_and_nothing_else(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_mlflow(monkeypatch)
    before, commands = results(paths), []
    countdown = evaluation(paths).benchmark("countdown")
    table, figure = countdown.passk, paths.report / "plane-countdown.pdf"
    damaged = flip(table), flip(figure)
    flip(countdown.manifest)  # what the draws were made with is known from the marker as well
    stored = [path for path in paths.folder.rglob("*.parquet") if path.parent != paths.analysis]
    others = [path for path in stored if path != table]
    untouched = {path: path.stat().st_mtime_ns for path in others}

    def command(kind, folder, profile, environment):
        commands.append(kind)
        return stage_command(kind, folder, profile, environment)

    assert repaired(paths, command) == 0
    assert commands == ["evaluate"]
    assert results(paths) == before and look(paths).damage == ()
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    aside = evaluation(paths).damaged / "countdown" / "passk.parquet"
    assert (aside.read_bytes(), (paths.damaged / "report" / figure.name).read_bytes()) == damaged
    assert f"moved aside {table.relative_to(paths.folder)} -> " in capsys.readouterr().out


@pytest.mark.slow
def test_a_report_and_a_spec_are_written_again_by_the_command_and_no_stage_is_run(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_mlflow(monkeypatch)
    before = results(paths)
    (paths.report / "table.tex").write_text("edited")
    (paths.report / "report.md").unlink()
    (paths.report / "report.md").symlink_to("report.md")
    paths.point(TRAIN).spec.write_text("{}")
    notes = sorted(paths.folder.rglob("attempt-*"))
    assert main(["check", "smoke", "--repair", f"run_root={paths.root}"]) == 0
    assert results(paths) == before and look(paths).damage == ()
    assert sorted(paths.folder.rglob("attempt-*")) == notes
    assert (paths.damaged / "report" / "table.tex").read_text() == "edited"
    assert (paths.damaged / "report" / "report.md").is_symlink()
    assert (paths.point(TRAIN).damaged / "spec.json").read_text() == "{}"


@pytest.mark.slow
def test_weights_draws_and_a_marker_come_out_with_the_same_bytes(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_mlflow(monkeypatch)
    before = results(paths)
    weights = paths.point(TRAIN).checkpoint(4) / "model.safetensors"
    damaged = flip(weights)
    flip(evaluation(paths).benchmark("countdown").draws)
    warmup = paths.warmup(11)
    warmup.done.write_text("[]")
    assert repaired(paths) == 0
    assert results(paths) == before and look(paths).damage == ()
    aside = paths.point(TRAIN).damaged / "checkpoints" / "step-00004" / "model.safetensors"
    assert aside.read_bytes() == damaged
    assert (warmup.damaged / "DONE.json").read_text() == "[]"


@pytest.mark.parametrize("name", ["comparisons.parquet", "analysis.json"])
def test_a_damaged_frame_is_moved_aside_and_computed_again(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    no_mlflow(monkeypatch)
    before = results(paths)
    damaged = flip(paths.analysis / name)
    assert [each.of for each in look(paths).damage] == [ANALYSIS]
    assert repaired(paths) == 0
    assert results(paths) == before and look(paths).damage == ()
    assert (paths.damaged / "analysis" / name).read_bytes() == damaged


def refused(found: Examined, *words: str) -> None:
    before = sorted(found.paths.folder.rglob("*"))
    with pytest.raises((ValueError, BlockingIOError)) as error:
        repair(found, say=print, run=drive.run)
    assert all(word in str(error.value) for word in words), error.value
    assert sorted(found.paths.folder.rglob("*")) == before


def test_what_cannot_be_mended_by_making_it_again_is_refused_and_nothing_is_moved(
    paths: RunPaths,
) -> None:
    flip(evaluation(paths).benchmark("countdown").passk)
    with locked(paths.driver_lock, wait=False, what="a driver"):
        refused(look(paths), "is already being run by process")
    declaration = paths.sweep_json.read_bytes()
    paths.sweep_json.write_text("[]")
    refused(look(paths), "sweep.json cannot be read", "`run` writes it again", "nothing was moved")
    paths.sweep_json.write_bytes(declaration)
    shutil.copy(paths.warmup(11).spec, paths.point(TRAIN).spec)
    refused(look(paths), TRAIN, "were two folders swapped?", "nothing was moved")


def test_a_model_that_stands_elsewhere_is_its_owners_to_restore(
    paths: RunPaths, tmp_path: Path
) -> None:
    folder = paths.warmup(11).checkpoint(0)
    elsewhere = tmp_path / "models" / "mine"
    elsewhere.parent.mkdir()
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    flip(elsewhere / "model.safetensors")
    refused(look(paths), str(elsewhere), "restore it there", "nothing was moved")


def stage(name: str, kind: str, *needs: str) -> StoredStage:
    record = stage_record(name, *needs, kind=kind)
    marker = Marker(fingerprint="f", target={}, outputs={})
    return StoredStage(record=record, standing="done", marker=marker, faults=())


def test_everything_that_follows_from_a_damaged_stage_rests_on_it() -> None:
    stages = [
        stage("_warmup/s1", "warmup"),
        stage("a", "train", "_warmup/s1"),
        stage("b", "train", "_warmup/s1"),
        stage("a/eval", "evaluate", "a"),
    ]
    records = [one.record for one in stages]
    damage = [Damage(of="a", name="a/x", fault=""), Damage(of=REPORT, name="report/y", fault="")]
    assert resting(damage, records) == {"a": ["a/eval", "report", "MLflow"]}
    base = resting([Damage(of="_warmup/s1", name="_warmup/s1/x", fault="")], records)
    assert base == {"_warmup/s1": ["a", "b", "a/eval", "report", "MLflow"]}


def test_a_repair_that_fails_has_the_exit_code_of_a_run(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "LOG_LINES", 1)
    no_mlflow(monkeypatch)
    flip(evaluation(paths).benchmark("countdown").passk)
    failing = ["false"]
    assert repaired(paths, command=lambda *_: failing) == 1
    assert len(look(paths).damage) == 1
