"""What is missing or damaged is made again and nothing else, and every printed remedy works."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.kinds import rerun_hint
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import read_stages
from sweeps.plan import Plan
from tests.support.tiny_run import run_stages, tiny_plan

POINT = "grpo-n4-g0-s11"


@pytest.fixture
def run(real_run: RunPaths, tmp_path: Path) -> tuple[Plan, RunPaths]:
    """A copy of the finished sweep, to be changed."""
    plan, paths = tiny_plan(tmp_path)
    shutil.copytree(real_run.folder, paths.folder, symlinks=True)
    return plan, paths


def evaluation(paths: RunPaths) -> StagePaths:
    return next(p for p in load_results(paths).points if p.point_id == POINT).evaluate


def results(paths: RunPaths) -> dict[str, tuple[bytes, int]]:
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


def remove(path: Path) -> None:
    path.unlink()


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


OF_EVALUATION = {
    "countdown/passk.parquet": {"passk"},
    "countdown/grades.countdown-1.parquet": {"grades", "passk"},
    "countdown/draws.parquet": {"draws", "grades", "passk"},
    "countdown/draws.json": {"draws.json", "passk"},
}
"""What is made again where a file of an evaluation is gone; pass@k always is."""


@pytest.mark.parametrize("damage", [remove, halve])
@pytest.mark.parametrize("name", OF_EVALUATION)
def test_what_an_evaluation_lacks_is_made_again_equal_and_nothing_else(
    run: tuple[Plan, RunPaths], name: str, damage: Callable[[Path], None]
) -> None:
    plan, paths = run
    before, stage = results(paths), evaluation(paths)
    damage(stage.folder / name)
    damaged = [name for name, state in states(paths).items() if state == "damaged"]
    assert [paths.folder / each for each in damaged] == [stage.folder]
    assert set(run_stages(plan, paths).values()) == {0}
    assert set(states(paths).values()) == {"done"}
    after = results(paths)
    assert {key: value[0] for key, value in after.items()} == {
        key: value[0] for key, value in before.items()
    }
    made = {key.rpartition("/")[2] for key in after if after[key][1] != before[key][1]}
    parts = OF_EVALUATION[name]
    assert all(any(each.startswith(part) for part in parts) for each in made), made
    if damage is halve:
        assert (stage.damaged / name).exists()


@pytest.mark.parametrize("name", ["metrics.parquet", "checkpoints/step-00002/model.safetensors"])
def test_training_is_repeated_where_only_training_makes_what_is_missing_and_says_so(
    run: tuple[Plan, RunPaths], name: str
) -> None:
    plan, paths = run
    before = results(paths)
    (paths.point(POINT).folder / name).unlink()
    stages = read_stages(paths, read_plan(paths).stages, rerun_hint=rerun_hint)
    (stage,) = (s for s in stages if s.why)
    assert stage.name == POINT and "trains it again from its start" in str(stage.why)
    assert set(run_stages(plan, paths).values()) == {0}
    assert {k: v[0] for k, v in results(paths).items()} == {k: v[0] for k, v in before.items()}


def test_draws_without_their_origin_are_moved_aside_and_drawn_again(
    run: tuple[Plan, RunPaths],
) -> None:
    plan, paths = run
    before, stage = results(paths), evaluation(paths)
    stage.done.write_text("[]")
    stage.benchmark("countdown").manifest.unlink()
    assert set(run_stages(plan, paths).values()) == {0}
    assert (stage.benchmark("countdown").damaged / "draws.parquet").exists()
    assert {k: v[0] for k, v in results(paths).items()} == {k: v[0] for k, v in before.items()}


def test_draws_that_lost_their_origin_alone_keep_the_engine_that_made_them(
    run: tuple[Plan, RunPaths],
) -> None:
    plan, paths = run
    stage = evaluation(paths)
    manifest = stage.benchmark("countdown").manifest
    known = read_json(manifest)
    (canaries,) = known["canaries"]
    assert canaries["start"] == canaries["end"] and canaries["draws"] == 192
    assert canaries["start"]["alone"] == canaries["start"]["batch"]
    manifest.unlink()
    run_stages(plan, paths)
    assert read_json(manifest) == known and known["engine"]["engine"] == "embedded"
    assert read_json(stage.done)["canaries"] == {"countdown": [canaries]}


def junk(path: Path) -> None:
    """Other bytes, as many: no marker tells that without reading the file."""
    path.write_bytes(b"\xff" * path.stat().st_size)


@pytest.mark.parametrize(
    ("name", "said_by"),
    [
        ("eval/*/*/countdown/passk.parquet", []),
        ("eval/*/*/countdown/grades.countdown-1.parquet", ["--verify"]),
        ("eval/*/*/countdown/draws.parquet", ["--verify", "--regrade"]),
        ("metrics.parquet", []),
    ],
)
@pytest.mark.slow
def test_a_damaged_table_is_named_and_the_printed_remedy_mends_it(
    run: tuple[Plan, RunPaths], capsys, name: str, said_by: list[str]
) -> None:
    plan, paths = run
    (path,) = paths.point(POINT).folder.glob(name)
    junk(path)
    table = str(paths.report / "results.csv")
    asked = [*said_by[:1], table, *said_by[1:]] if said_by else ["smoke", "--root", str(paths.root)]
    assert report(asked) == 1
    said = capsys.readouterr().err
    named = re.search(r"error: (.*?) is no readable Parquet file", said)
    assert named and Path(named[1]) == path and "delete it and run" in said
    path.unlink()
    assert set(run_stages(plan, paths).values()) == {0}
    assert report(["smoke", "--root", str(paths.root)]) == 0
    assert report(["--verify", table, "--regrade"]) == 0, capsys.readouterr()


def test_a_file_written_again_by_regrading_leaves_the_stage_done(
    run: tuple[Plan, RunPaths], capsys
) -> None:
    from evaluators.__main__ import main as evaluators

    _, paths = run
    stage = evaluation(paths)
    grades = stage.benchmark("countdown").grades("countdown-1")
    grades.unlink()
    assert POINT in str(stage.folder) and "damaged" in states(paths).values()
    assert evaluators(["grade", str(stage.folder)]) == 0
    assert set(states(paths).values()) == {"done"}
    write_json(stage.done, read_json(stage.done) | {"outputs": {}})
    assert evaluators(["grade", str(stage.folder)]) == 0
    listed = read_json(stage.done)["outputs"]
    assert set(listed) == {"countdown/grades.countdown-1.parquet", "countdown/passk.parquet"}
