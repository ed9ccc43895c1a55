"""What other packages add: found, refused, recorded, part of what it defines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench import engines
from fgrpo_bench.core import registry
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import read_spec_as
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.graders import grader_version
from fgrpo_bench.kinds import fetch
from fgrpo_bench.specs import DatasetSpec, config, from_dict, to_dict, withheld
from fgrpo_bench.specs.stored import TrainStageSpec, stored_profile
from sweeps.freeze import freeze, provenance, run_paths
from sweeps.plan import Plan, check, expand, make_plan
from tests.plugin.overrides import MODULE, PARITY

NAMES = {
    "tasks": ("parity", "countdown"),
    "graders": ("parity", "math"),
    "benchmarks": ("parity", "aime24"),
    "layouts": ("reversed", "plain"),
    "advantages": ("centred", "grpo"),
    "objectives": ("plain", "clip"),
    "engines": ("parity", "openrlhf"),
}
"""In each table a name of the plug-in here and one of ours."""
OWN = [
    "algorithms.grpo.objective=plain",
    "+algorithms.grpo.advantage=centred",
]


def planned(*overrides: str, root: Path = Path("runs")) -> Plan:
    chosen = [f"plugins=[{MODULE}]", f"run_root='{root}'"]
    return make_plan(config.load("smoke", [*chosen, *PARITY, *overrides]))


def stage_of(plan: Plan, kind: str) -> dict[str, Any]:
    return next(stage.spec.as_json() for stage in plan.stages if stage.kind == kind)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_to_every_table_and_is_named_as_the_origin() -> None:
    assert NAMES.keys() == registry.TABLES.keys()
    for table, (theirs, ours) in NAMES.items():
        assert registry.entry(table, theirs) is not None
        assert registry.origin(table, theirs) == {"package": "fgrpo-parity", "version": "0.3"}
        assert registry.entry(table, ours) is not None
        assert registry.origin(table, ours) is None
    assert registry.record() == {"plugins": {"fgrpo-parity": "0.3"}}
    registry.load(["fgrpo_parity"])  # which is installed and named, and adds once
    assert "parity" in registry.table("graders")


def test_a_module_of_the_checkout_adds_likewise_once_it_is_named() -> None:
    for table, (theirs, _) in NAMES.items():
        with pytest.raises(ValueError, match=f"unknown {table[:-1]} {theirs!r}: valid ones are"):
            registry.entry(table, theirs)
    registry.load([MODULE])
    for table, (theirs, _) in NAMES.items():
        assert registry.origin(table, theirs) == {"package": MODULE, "version": "0.3"}


def test_without_a_plugin_nothing_is_recorded_and_nothing_joins_an_identity() -> None:
    names = {table: ours for table, (_, ours) in NAMES.items()}
    assert registry.record() == {} == registry.identity(**names) == registry.identity(tasks=None)
    assert provenance()["plugins"] is None


@pytest.mark.parametrize(
    ("added", "others", "said"),
    [
        ("GRADERS = {'math': (9, print)}", [], "'math' is both greedy's and fgrpo_bench's"),
        ("LAYOUTS = {'plain': print}", [], "'plain' is both greedy's and fgrpo_bench's: rename on"),
        ("GRADERS = {'parity': (1, print)}", [MODULE], f"'parity' is both greedy's and {MODULE}'s"),
    ],
)
def test_a_name_that_is_taken_is_refused_with_both_packages(
    added: str, others: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _module(tmp_path, monkeypatch, "greedy", f"__version__ = '1'\n{added}\n")
    registry.load([*others, "greedy"])
    with pytest.raises(ValueError, match=said):
        registry.table(added.partition(" ")[0].lower())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("GRADERS = {'g': (1, print)}", "'lacking', which has no __version__: give it one"),
        ("__version__ = '1'", "lacking adds to no table: give it one of TASKS, GRADERS"),
        ("import nothing_of_that_name", "'lacking', which cannot be imported .*: install it where"),
    ],
)
def test_a_module_that_is_no_plugin_is_refused_where_it_is_declared(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _module(tmp_path, monkeypatch, "lacking", text + "\n")
    with pytest.raises(ValueError, match=said):
        config.load("smoke", ["plugins=[lacking]"])


def _module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_plan_with_a_plugins_task_says_so_in_every_stage_and_identity() -> None:
    plan = planned(*OWN)
    brought = {"package": MODULE, "version": "0.3"}
    assert all(stage.spec.as_json()["plugins"] == [MODULE] for stage in plan.stages)
    assert stage_of(plan, "warmup")["identity"]["plugins"] == {"tasks": brought}
    trained = stage_of(plan, "train")["identity"]
    assert trained["plugins"] == dict.fromkeys(("objectives", "advantages", "tasks"), brought)
    assert trained["algorithm"]["advantage"] == "centred"
    evaluated = stage_of(plan, "evaluate")
    assert evaluated["identity"]["sampling"]["plugins"] == {"tasks": brought}
    assert evaluated["target"]["graders"] == {"parity": f"parity-1+{MODULE}-0.3"}
    assert grader_version("countdown") == "countdown-1"


def test_whoever_reads_a_stages_spec_or_the_stored_profile_has_its_plugins(
    tmp_path: Path, forget: Callable[[], None]
) -> None:
    plan = planned(*OWN)
    stored = {"plugins": [MODULE], "profile": to_dict(plan.declaration.profile)}
    forget()
    write_json(StagePaths(tmp_path).spec, stage_of(plan, "train"))
    read = read_spec_as(TrainStageSpec, StagePaths(tmp_path)).sweep_point
    assert read == plan.points[0] and "parity" in registry.table("engines")
    forget()
    assert stored_profile(stored, tmp_path).name == "local"
    assert "parity" in registry.table("engines")


def test_a_dataset_in_a_plugins_layout_has_it_in_its_identity_and_may_be_shown() -> None:
    registry.load([MODULE])
    fields = to_dict(config.load_benchmark("math500").dataset)
    assert "plugins" not in fetch.dataset_identity(from_dict(DatasetSpec, fields))
    spec = from_dict(DatasetSpec, fields | {"layout": "reversed"})
    assert fetch.dataset_identity(spec)["plugins"]["layouts"]["package"] == MODULE
    assert not withheld({"dataset": to_dict(spec)}) and withheld({"dataset": {"layout": "gpqa"}})


def test_what_an_engine_does_not_have_is_refused_with_engine_and_names() -> None:
    declaration = config.load(
        "smoke", [f"plugins=[{MODULE}]", *PARITY, "experiment.train.engine=parity", *OWN[1:]]
    )
    assert engines.engine_for(declaration.experiment.train).name == "parity"
    with pytest.raises(ValueError, match="has advantage=centred, and engine parity has grpo: excl"):
        check(declaration, expand(declaration))


@pytest.mark.slow
@pytest.mark.parametrize("field", ["objective", "advantage"])
def test_an_unknown_objective_or_advantage_is_refused_with_those_that_exist(field: str) -> None:
    names = {"objective": "cispo, clip", "advantage": "curverl, dr_grpo, ds_grpo"}
    with pytest.raises(ValueError, match=f"unknown {field} 'nope': valid ones are {names[field]}"):
        config.load("smoke", [f"++algorithms.grpo.{field}=nope"])


@pytest.mark.slow
def test_a_sweep_of_a_plugins_task_trains_and_is_graded_and_records_the_plugin(
    tmp_path: Path,
) -> None:
    from evaluators.__main__ import main as evaluate
    from fgrpo_bench.engines.embedded.__main__ import main as train

    few = ["steps=2", "save_every=2", "eval_every=0", "warmup.steps=4", "rollouts_per_step=16"]
    plan = planned(*OWN, *(f"experiment.train.{each}" for each in few), root=tmp_path)
    paths = run_paths(plan.declaration)
    freeze(paths, plan, nothing_to_run=False)
    assert read_json(paths.sweep_json)["plugins"] == {MODULE: "0.3"}
    trained = next(stage for stage in plan.stages if stage.kind == "train")
    own = [stage for stage in plan.stages if stage.name in (*trained.needs, trained.name)]
    own += [s for s in plan.stages if s.kind == "evaluate" and trained.name in s.needs]
    for stage in own:
        folder = str(paths.folder / stage.name)
        assert (evaluate(["run", folder]) if stage.kind == "evaluate" else train([folder])) == 0
        assert read_json(StagePaths(Path(folder)).done)["plugins"] == {MODULE: "0.3"}
    drawn = StagePaths(Path(folder)).benchmark("parity")
    assert read_json(drawn.manifest)["plugins"] == {MODULE: "0.3"}
    assert drawn.grades(f"parity-1+{MODULE}-0.3").exists()
