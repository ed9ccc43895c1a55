"""What is missing is made again by `run` and nothing else; `check --fix` moves aside what is
damaged and keeps it; and every printed remedy works."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds import rerun_hint
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import read_stages
from sweeps.check import check, fix, render
from sweeps.cli import main
from sweeps.commands import StageCommand, stage_command
from sweeps.local import drive
from tests.stored.conftest import TRAIN, evaluation
from tests.support.tiny_run import run_stages, tiny_plan

TIMES = ("DONE.json", "metrics.parquet", "owner.json", "progress.json", "stage.lock")
"""What a stage that is run again writes with other times."""


def results(paths: RunPaths) -> dict[str, bytes]:
    """All stored results and the report, but for what holds times; not what was set aside."""
    return {
        name: path.read_bytes()
        for path in sorted(paths.folder.rglob("*"))
        for name in [path.relative_to(paths.folder).as_posix()]
        if path.is_file() and path.name not in TIMES and "damaged/" not in name
        if "logs/" not in name and path.suffix not in (".jsonl", ".lock")
        if path.name not in ("provenance.json", "report.md", "report.html")  # hold times, too
        if path.name not in ("appendix.md", "appendix.html")
        if path.name not in ("analysis.json", "cost.parquet")
    }


def fixed_and_run(paths: RunPaths, command: StageCommand = stage_command) -> int:
    """The exit code of the run after `check --fix`, with these commands of stages."""
    assert main(["check", "smoke", "--fix", f"run_root={paths.root}"]) == 0
    return drive.run(tiny_plan(paths.root)[0].declaration, command=command)


def no_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.reporting.sync", lambda paths, say: None)


def flip(path: Path) -> bytes:
    """Change a bit in the middle; returns the damaged content."""
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    return bytes(damaged)


@pytest.mark.slow
def test_pass_at_k_a_report_and_a_spec_are_made_again_and_nothing_else(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    no_mlflow(monkeypatch)
    before, commands = results(paths), []
    countdown = evaluation(paths).benchmark("countdown")
    table, figure = countdown.passk(), paths.report / "plane-countdown.pdf"
    damaged = flip(table), flip(figure)
    flip(countdown.manifest)  # what the draws were made with is known from the marker as well
    (paths.report / "report.tex").write_text("edited")
    (paths.report / "report.md").unlink()
    (paths.report / "report.md").symlink_to("report.md")
    paths.point(TRAIN).spec.write_text("{}")
    stored = [path for path in paths.folder.rglob("*.parquet") if path.parent != paths.analysis]
    untouched = {path: path.stat().st_mtime_ns for path in stored if path != table}

    def command(kind, folder, profile, environment):
        commands.append(kind)
        return stage_command(kind, folder, profile, environment)

    assert fixed_and_run(paths, command) == 0
    assert commands == ["evaluate"]
    assert results(paths) == before and check(paths).faults == ()
    assert {path: path.stat().st_mtime_ns for path in untouched} == untouched
    aside = evaluation(paths).damaged / "countdown" / "passk.parquet"
    assert (aside.read_bytes(), (paths.damaged / "report" / figure.name).read_bytes()) == damaged
    assert f"moved aside {table.relative_to(paths.folder)} -> " in capsys.readouterr().out
    assert (paths.damaged / "report" / "report.tex").read_text() == "edited"
    assert (paths.damaged / "report" / "report.md").is_symlink()
    assert (paths.point(TRAIN).damaged / "spec.json").read_text() == "{}"


@pytest.mark.slow
@pytest.mark.rare
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
    assert fixed_and_run(paths) == 0
    assert results(paths) == before and check(paths).faults == ()
    aside = paths.point(TRAIN).damaged / "checkpoints" / "step-00004" / "model.safetensors"
    assert aside.read_bytes() == damaged
    assert (warmup.damaged / "DONE.json").read_text() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["comparisons.parquet", pytest.param("analysis.json", marks=pytest.mark.rare)]
)
def test_a_damaged_frame_is_moved_aside_and_computed_again_by_the_printed_remedy(
    paths: RunPaths, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results(paths)
    damaged = flip(paths.analysis / name)
    assert main(["check", "smoke", "--fix", f"run_root={paths.root}"]) == 0
    remedy = re.search(r"`fgrpo-bench report (.*)` writes again", capsys.readouterr().out)
    assert remedy is not None and report(remedy[1].split()) == 0
    assert results(paths) == before and check(paths).faults == ()
    assert (paths.damaged / "analysis" / name).read_bytes() == damaged


def left_alone(paths: RunPaths, *words: str) -> None:
    """`check --fix` moves nothing and says so."""
    before = sorted(paths.folder.rglob("*"))
    checked = check(paths)
    assert all(word in render(checked) for word in words), render(checked)
    fix(checked, print)
    assert sorted(paths.folder.rglob("*")) == before


def test_nothing_of_a_sweep_that_is_being_run_is_moved(paths: RunPaths) -> None:
    flip(evaluation(paths).benchmark("countdown").passk())
    with (
        locked(paths.driver_lock, wait=False, what="a driver"),
        pytest.raises(BlockingIOError, match="is already being run by process"),
    ):
        fix(check(paths), print)
    assert not evaluation(paths).damaged.exists()


def test_what_only_its_owner_can_put_right_is_left_alone(paths: RunPaths, tmp_path: Path) -> None:
    declaration = paths.sweep_json.read_bytes()
    paths.sweep_json.write_text("[]")
    left_alone(paths, "sweep.json: cannot be read", "`run` writes it again")
    paths.sweep_json.write_bytes(declaration)
    train, warmup, aside = paths.point(TRAIN).folder, paths.warmup(11).folder, tmp_path / "aside"
    for source, target in ((train, aside), (warmup, train), (aside, warmup)):
        source.rename(target)
    left_alone(paths, f"{TRAIN}/DONE.json: is of another stage", "were two of them swapped?")


def test_a_model_that_stands_elsewhere_is_its_owners_to_restore(
    paths: RunPaths, tmp_path: Path
) -> None:
    folder = paths.warmup(11).checkpoint(0)
    elsewhere = tmp_path / "models" / "mine"
    elsewhere.parent.mkdir()
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    flip(elsewhere / "model.safetensors")
    left_alone(paths, str(elsewhere), "restore it there")
    assert main(["check", "smoke", "--fix", f"run_root={paths.root}"]) == 1


def outputs(paths: RunPaths) -> dict[str, tuple[bytes, int]]:
    """Content and inode of every file that a marker lists, but for the seconds in the metrics."""
    return {
        f"{stage.name}/{name}": (
            b"" if name == "metrics.parquet" else (paths.folder / stage.name / name).read_bytes(),
            (paths.folder / stage.name / name).stat().st_ino,
        )
        for stage in read_stages(paths, read_plan(paths).stages)
        for name in read_json(paths.folder / stage.name / "DONE.json").get("outputs", {})
    }


def states(paths: RunPaths) -> dict[str, str]:
    return {s.name: s.state for s in read_stages(paths, read_plan(paths).stages)}


def bytes_of(paths: RunPaths) -> dict[str, bytes]:
    return {name: content for name, (content, _) in outputs(paths).items()}


def make_again(paths: RunPaths) -> None:
    """Run all stages."""
    assert set(run_stages(read_plan(paths), paths).values()) == {0}


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def junk(path: Path) -> None:
    """Other bytes, as many: no marker tells that without reading the file."""
    path.write_bytes(b"\xff" * path.stat().st_size)


OF_EVALUATION = {
    "countdown/passk.parquet": {"passk"},
    "countdown/grades.countdown-1.parquet": {"grades", "passk"},
    "countdown/draws.parquet": {"draws", "grades", "passk"},
    "countdown/draws.json": {"draws.json", "passk"},
}
"""What is made again where a file of an evaluation is gone; pass@k always is."""


@pytest.mark.slow
@pytest.mark.parametrize("damage", [Path.unlink, halve])
@pytest.mark.parametrize("name", OF_EVALUATION)
def test_what_an_evaluation_lacks_is_made_again_equal_and_nothing_else(
    paths: RunPaths, name: str, damage: Callable[[Path], None]
) -> None:
    before, stage = outputs(paths), evaluation(paths)
    damage(stage.folder / name)
    damaged = [name for name, state in states(paths).items() if state == "damaged"]
    assert [paths.folder / name for name in damaged] == [stage.folder]
    make_again(paths)
    assert set(states(paths).values()) == {"done"}
    after = outputs(paths)
    assert {k: v[0] for k, v in after.items()} == {k: v[0] for k, v in before.items()}
    made = {key.rpartition("/")[2] for key in after if after[key][1] != before[key][1]}
    parts = OF_EVALUATION[name]
    assert all(any(each.startswith(part) for part in parts) for each in made), made
    if damage is halve:
        assert (stage.damaged / name).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["metrics.parquet", "checkpoints/step-00002/model.safetensors"])
def test_training_is_repeated_where_only_training_makes_what_is_missing_and_says_so(
    paths: RunPaths, name: str
) -> None:
    before = bytes_of(paths)
    (paths.point(TRAIN).folder / name).unlink()
    stages = read_stages(paths, read_plan(paths).stages, rerun_hint=rerun_hint)
    (stage,) = (s for s in stages if s.why)
    assert stage.name == TRAIN and "trains it again from its start" in str(stage.why)
    make_again(paths)
    assert bytes_of(paths) == before


def test_draws_without_their_origin_are_moved_aside_and_drawn_again(
    paths: RunPaths,
) -> None:
    before, stage = bytes_of(paths), evaluation(paths)
    stage.done.write_text("[]")
    stage.benchmark("countdown").manifest.unlink()
    make_again(paths)
    assert (stage.benchmark("countdown").damaged / "draws.parquet").exists()
    assert bytes_of(paths) == before


def test_draws_that_lost_their_origin_alone_keep_the_engine_that_made_them(
    paths: RunPaths,
) -> None:
    stage = evaluation(paths)
    manifest = stage.benchmark("countdown").manifest
    known = read_json(manifest)
    (engine,) = known["engines"]
    manifest.unlink()
    make_again(paths)
    assert read_json(manifest) == known and engine["engine"] == "embedded"
    assert read_json(stage.done)["engines"] == {"countdown": [engine]}


@pytest.mark.parametrize(
    ("name", "said_by"),
    [
        ("eval/*/*/countdown/passk.parquet", []),
        pytest.param(
            "eval/*/*/countdown/grades.countdown-1.parquet", ["--verify"], marks=pytest.mark.rare
        ),
        ("eval/*/*/countdown/draws.parquet", ["--verify", "--regrade"]),
        pytest.param("metrics.parquet", [], marks=pytest.mark.rare),
    ],
)
@pytest.mark.slow
@pytest.mark.usefixtures("plain_figures")
def test_a_damaged_table_is_named_and_the_printed_remedy_mends_it(
    paths: RunPaths, capsys, name: str, said_by: list[str]
) -> None:
    (path,) = paths.point(TRAIN).folder.glob(name)
    junk(path)
    table = str(paths.report / "results.csv")
    asked = [*said_by[:1], table, *said_by[1:]] if said_by else ["smoke", "--root", str(paths.root)]
    assert report(asked) == 1
    said = capsys.readouterr().err
    named = re.search(r"error: (.*?) is no readable Parquet file", said)
    assert named and Path(named[1]) == path and "delete it and run" in said
    path.unlink()
    make_again(paths)
    assert report(["smoke", "--root", str(paths.root)]) == 0
    assert report(["--verify", table, "--regrade"]) == 0, capsys.readouterr()


def test_a_file_written_again_by_regrading_leaves_the_stage_done(paths: RunPaths, capsys) -> None:
    from evaluators.__main__ import main as evaluators

    stage = evaluation(paths)
    grades = stage.benchmark("countdown").grades("countdown-1")
    grades.unlink()
    assert TRAIN in str(stage.folder) and "damaged" in states(paths).values()
    assert evaluators(["grade", str(stage.folder)]) == 0
    assert set(states(paths).values()) == {"done"}
    write_json(stage.done, read_json(stage.done) | {"outputs": {}})
    assert evaluators(["grade", str(stage.folder)]) == 0
    listed = read_json(stage.done)["outputs"]
    assert set(listed) == {"countdown/grades.countdown-1.parquet", "countdown/passk.parquet"}
