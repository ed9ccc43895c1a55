"""What a run writes into its folder before it starts, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.specs.stored import stored_profile
from fgrpo_bench.stages.digests import CHECKSUM_KEY, checksum_mismatch, with_checksum
from fgrpo_bench.stages.plan import FORMAT, declared_now, read_plan, read_sweep
from sweeps.cli import main as sweeps
from sweeps.freeze import check_conflicts, freeze, next_version
from tests.support.plans import frozen, planned

NAME = "grpo-n4-g0-s11"


def test_a_reader_finds_everything_that_was_frozen(tmp_path: Path) -> None:
    paths, plan = frozen(tmp_path)
    results = load_results(paths)
    assert [point.point_id for point in results.points] == ["base-s11", NAME, "grpo-n4-g1-s11"]
    assert results.benchmarks == ["countdown"]
    recorded = read_json(paths.sweep_json)
    made_by = {"git_commit", "git_dirty", "versions", "created"}
    assert recorded.keys() == {"declaration", "families", "first", CHECKSUM_KEY, *made_by}
    assert recorded["versions"]["polars"]
    for stage in plan.stages:
        spec = read_json(paths.folder / stage.name / "spec.json")
        assert spec == with_checksum(stage.spec.as_json())


def test_freezing_twice_rewrites_nothing(tmp_path: Path) -> None:
    paths, _ = frozen(tmp_path)
    files = sorted(path for path in paths.folder.rglob("*.json"))
    before = {path: path.stat().st_mtime_ns for path in files}
    frozen(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in files} == before


def test_results_that_stand_keep_the_commit_that_made_them(tmp_path: Path) -> None:
    paths, plan = frozen(tmp_path)
    older = with_checksum(read_json(paths.sweep_json) | {"git_commit": "0" * 40, "created": "then"})
    write_json(paths.sweep_json, older)
    freeze(paths, plan, nothing_to_run=True)
    assert read_json(paths.sweep_json) == older
    freeze(paths, plan, nothing_to_run=False)
    assert read_json(paths.sweep_json)["git_commit"] != "0" * 40
    assert read_json(paths.sweep_json)["created"] == "then"


def test_when_which_family_was_declared_stays_recorded(tmp_path: Path) -> None:
    frozen(tmp_path)
    frozen(tmp_path)
    paths, other = frozen(tmp_path, "sweep.family={pairs:[base]}")
    first, last = read_json(paths.sweep_json)["families"]
    assert first["family"].startswith("focal weight against none; ") and first["declared"]
    assert last["family"] == other.family.name
    assert (first["trained"], last["trained"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("override", "n_declared"),
    [
        ("sweep.family={ks:[1]}", 2),
        ("sweep.question='Another one?'", 2),
        ("sweep.grid.focal_gamma=[0,1,2]", 2),
        ("sweep.grid.seed=[11,12]", 1),
        ("experiment.evaluation.n_samples=64", 1),
    ],
)
def test_another_question_is_recorded_with_the_runs_that_had_finished_and_the_first_stays(
    tmp_path: Path, override: str, n_declared: int
) -> None:
    paths, _ = frozen(tmp_path)
    before = read_json(paths.sweep_json)
    assert before["first"] == declared_now(read_sweep(paths), read_plan(paths)).as_json()
    write_json(paths.point(NAME).done, {})
    paths, plan = frozen(tmp_path, override)
    after = read_json(paths.sweep_json)
    assert after["first"] == before["first"]
    assert after["families"][:1] == before["families"]
    assert [each["trained"] for each in after["families"]] == [0, 1][:n_declared]
    assert after["families"][-1]["sha256"] == plan.family.sha256
    assert after["families"][-1]["comparisons"] == len(plan.family.comparisons)


def test_what_is_frozen_is_sealed_and_an_edited_declaration_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    paths, plan = frozen(tmp_path)
    for path in (paths.sweep_json, paths.plan):
        assert not checksum_mismatch(read_json(path))
    frozen(tmp_path, "sweep.family={ks:[1]}")
    declared = read_json(paths.sweep_json)
    declared["families"] = declared["families"][1:]
    lost = {key: value for key, value in declared.items() if key != CHECKSUM_KEY}
    for edited in (declared, lost):
        write_json(paths.sweep_json, edited)
        with pytest.raises(ValueError, match="was changed after it was written, or lost its seal"):
            check_conflicts(paths, plan)
    paths.sweep_json.unlink()
    write_json(paths.point(NAME).done, {"step": 1})
    check_conflicts(paths, plan)
    freeze(paths, plan, nothing_to_run=True)
    assert [each["trained"] for each in read_json(paths.sweep_json)["families"]] == [1]


def test_more_draws_are_frozen_over_the_same_identity(tmp_path: Path) -> None:
    frozen(tmp_path)
    paths, plan = frozen(tmp_path, "experiment.evaluation.n_samples=64")
    spec = read_json(paths.folder / plan.stages[-1].name / "spec.json")
    assert spec["target"]["n_samples"] == spec["evaluation"]["n_samples"] == 64


def test_other_settings_under_one_address_are_refused_field_by_field(tmp_path: Path) -> None:
    frozen(tmp_path)
    learning_rate = read_json(tmp_path / "smoke/countdown-tiny/v1" / NAME / "spec.json")[
        "identity"
    ]["train"]["learning_rate"]
    paths, plan = planned(
        tmp_path,
        "smoke",
        "experiment.train.learning_rate=0.5",
        "algorithms.grpo.clip_high=0.25",
    )
    before = {path: path.read_bytes() for path in paths.folder.rglob("*.json")}
    with pytest.raises(ValueError, match="holds stages of other settings") as refused:
        check_conflicts(paths, plan)
    lines = str(refused.value).splitlines()
    assert f"  algorithm.clip_high: 0.2 there, 0.25 asked for  ({NAME} and 1 more)" in lines
    assert (
        f"  train.learning_rate: {learning_rate} there, 0.5 asked for  ({NAME} and 1 more)" in lines
    )
    assert "version=v2, or restore the values" in lines[-1]
    assert len(lines) == 4, "the warm-up is the same, the evaluations only follow the training"
    assert {path: path.read_bytes() for path in paths.folder.rglob("*.json")} == before


def test_a_version_of_its_own_and_a_larger_grid_stand_beside_the_old_runs(tmp_path: Path) -> None:
    frozen(tmp_path)
    frozen(tmp_path, "experiment.train.learning_rate=0.5", "version=v2")
    assert next_version(planned(tmp_path)[0]) == "v3"
    assert next_version(planned(tmp_path, "smoke", "version=pilot")[0]) == "pilot2"
    paths, _ = frozen(tmp_path, "sweep.grid.seed=[11,12]")
    assert len(load_results(paths).points) == 2 + 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("commit", "said"),
    [("c0ffee", "the code of commit c0ffee, which wrote it"), (None, "names no commit")],
)
def test_a_folder_of_another_format_is_refused_in_a_sentence_with_its_commit(
    commit: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, _ = frozen(tmp_path)
    plan = {key: value for key, value in read_json(paths.plan).items() if key != "format"}
    write_json(paths.plan, plan if commit is None else plan | {"format": FORMAT + 1})
    write_json(paths.sweep_json, read_json(paths.sweep_json) | {"git_commit": commit})
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.json")}
    root = f"run_root={tmp_path}"
    for words in (
        ["status", "smoke"],
        ["check", "smoke"],
        ["run", "smoke"],
        ["logs", "smoke", NAME],
    ):
        assert sweeps([*words, root]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and f"reads format {FORMAT} alone" in error and said in error
    assert report(["smoke", "--root", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.json")} == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"time_minutes": None}, "time_minutes is None: "),
        ({"nodes": 0}, "nodes is 0: "),
        ({"dispatcher": "pbs"}, "dispatcher is 'pbs', which this"),
    ],
)
def test_a_stored_profile_that_cannot_be_read_is_refused_in_a_sentence(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    paths, _ = frozen(tmp_path, "profile=slurm")
    declaration = read_json(paths.sweep_json)["declaration"]
    declaration["profile"] |= change
    with pytest.raises(ValueError, match=said) as refused:
        stored_profile(declaration, paths.sweep_json)
    assert "\n" not in str(refused.value) and "pydantic" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "begun", "said"),
    [
        ('{"kind": "train", "fingerprint": "0", "target": {}}', False, "no identity: it was chang"),
        ("[]", True, "it is .*, not an object"),
        ('{"train"', True, "holds no valid JSON"),
    ],
)
def test_a_damaged_spec_is_refused_by_name(
    tmp_path: Path, text: str, begun: bool, said: str
) -> None:
    paths, plan = frozen(tmp_path)
    paths.point(NAME).spec.write_text(text)
    if begun:
        write_json(paths.point(NAME).owner, {})
    with pytest.raises(ValueError, match=said) as refused:
        check_conflicts(paths, plan)
    assert NAME in str(refused.value)


def test_another_recipe_version_is_refused(tmp_path: Path) -> None:
    paths, plan = frozen(tmp_path)
    spec = read_json(paths.point(NAME).spec)
    spec["identity"]["recipe_version"] = 0
    write_json(paths.point(NAME).spec, spec | {"fingerprint": "0" * 64})
    with pytest.raises(ValueError, match="recipe_version: 0 there, 2 asked for"):
        check_conflicts(paths, plan)


def test_an_edited_plan_and_a_spec_cut_short_are_written_again_of_the_declaration(
    tmp_path: Path,
) -> None:
    paths, _ = frozen(tmp_path)
    before, whole = read_json(paths.plan), paths.point(NAME).spec.read_text()
    write_json(paths.plan, before | {"points": before["points"][1:]})
    paths.point(NAME).spec.write_text("")
    frozen(tmp_path)
    assert read_json(paths.plan) == before
    assert paths.point(NAME).spec.read_text() == whole
