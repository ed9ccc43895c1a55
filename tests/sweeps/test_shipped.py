"""What is shipped: every sweep with every experiment is planned, priced, and marked as agreed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.analysis.results import read_declared
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import Declaration, config
from fgrpo_bench.stages.digests import with_checksum
from fgrpo_bench.stages.plan import SweepRecord
from sweeps.estimate import plan_cost
from sweeps.freeze import run_paths, stored_declaration
from sweeps.plan import Plan, make_plan, plan_record
from tests.support.plans import loaded, shipped

SWEEPS, EXPERIMENTS = shipped("sweep"), shipped("experiment")
OF_ONE_EXPERIMENT = {
    *("smoke", "rehearsal", "methods-tuned", "transfer-llama3.2-3b", "transfer-qwen3-4b-base"),
    *("maze", "frontier", "frontier-tuned", "factorial", "smollm2", "methods-newer"),
}
"""Sweeps that name or alter their experiment; the others are meant for all that no sweep names."""


def meant_together() -> dict[str, Declaration]:
    """Every sweep with every experiment that it is meant for, and rare answers."""
    rare = loaded("smoke", "+rare@experiment.rare=paper").experiment.rare
    shipped = {name: loaded(name) for name in SWEEPS}
    plans = {name: shipped[name] for name in OF_ONE_EXPERIMENT}
    # Some sweeps have formulas for rewards of 0 and 1, which partial credit is not.
    named = {"maze", "countdown-partial", *(plan.experiment.name for plan in plans.values())}
    further = set(EXPERIMENTS) - (named - {"countdown", "llama3.2-3b", "qwen3-4b-base"})
    for name in further:  # as `sweep` with experiment=... is composed
        experiment = loaded("groupsize", f"experiment={name}").experiment
        for sweep in set(SWEEPS) - OF_ONE_EXPERIMENT:
            plans[f"{sweep} {name}"] = replace(shipped[sweep], experiment=experiment)
        plans[f"controls {name}"] = loaded("controls", f"experiment={name}")  # seeds of its own
    for name, declared in plans.items():
        plans[name] = replace(declared, experiment=replace(declared.experiment, rare=rare))
    for name, experiment in {"maze": "maze", "groupsize": "countdown-partial"}.items():
        plans[f"{name} {experiment}"] = loaded(name, f"experiment={experiment}")
    return dict(sorted(plans.items()))


def is_priced(plan: Plan, root: Path) -> bool:
    paths = RunPaths(root=root, sweep="any", experiment="any", version="v1")
    cost = plan_cost(plan, paths, list(plan.stages))
    seconds = cost["cpu_seconds"] > 0 or cost["on_gpus"]["gpu_hours"] > 0
    return cost["not_estimated"] == 0 and seconds


@pytest.mark.slow
def test_every_sweep_with_every_experiment_is_priced_and_has_its_fingerprints(
    tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    on_gpus, marks = loaded("groupsize", "profile=slurm-8gpu").profile, {}
    for name, declared in meant_together().items():
        assert declared.sweep.name == name.partition(" ")[0]
        assert declared.experiment.name == (name.partition(" ")[2] or declared.experiment.name)
        plan = make_plan(declared)
        marks[name] = {stage.name: stage.fingerprint for stage in plan.stages}
        assert is_priced(plan, tmp_path), name
        if declared.experiment.name != "rehearsal":
            assert is_priced(make_plan(replace(declared, profile=on_gpus)), tmp_path), name
    golden("fingerprints.json", json.dumps(marks, indent=0) + "\n")


@pytest.mark.slow
@pytest.mark.parametrize("name", SWEEPS)
def test_what_a_sweep_stores_of_its_declaration_is_read_again(name: str, tmp_path: Path) -> None:
    declared = loaded(name, f"run_root={tmp_path}")
    paths = run_paths(declared)
    record = SweepRecord(declaration=stored_declaration(declared), versions={}, created="today")
    paths.folder.mkdir(parents=True)
    paths.sweep_json.write_text(json.dumps(with_checksum(record.as_json())))
    assert read_declared(paths).declaration == record.declaration


def test_what_new_wrote_is_planned_and_priced(tmp_path: Path) -> None:
    for sweep in set(config.option_names("sweep")) - {*SWEEPS}:
        assert is_priced(make_plan(loaded(sweep)), tmp_path), sweep
    for experiment in set(config.option_names("experiment")) - {*EXPERIMENTS}:
        assert is_priced(make_plan(loaded("transfer", f"experiment={experiment}")), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("profile", config.option_names("profile"))
def test_every_profile_is_priced(profile: str, tmp_path: Path) -> None:
    experiment = "rehearsal" if profile == "slurm-rehearsal" else "qwen2.5-7b"
    declared = loaded("groupsize", f"experiment={experiment}", f"profile={profile}")
    assert declared.profile.name == profile and is_priced(make_plan(declared), tmp_path)


@pytest.mark.slow
def test_every_other_yaml_is_valid_and_named_by_its_file() -> None:
    for name in config.option_names("benchmark"):
        assert config.load_benchmark(name).name == name
    for name in config.option_names("evaluation"):
        experiment = "countdown" if "pass" in name else "qwen2.5-7b"
        experiment = "rehearsal" if name == "rehearsal" else experiment
        chosen = [f"experiment={experiment}", f"evaluation@experiment.evaluation={name}"]
        assert loaded("groupsize", *chosen).experiment.evaluation.name == name


def test_every_algorithm_is_named_by_its_entry() -> None:
    algorithms = loaded("groupsize").algorithms
    assert [item.name for item in algorithms.values()] == [*algorithms]


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("plan-groupsize.json", []),
        ("plan-groupsize-openrlhf.json", ["experiment=qwen2.5-7b", "profile=slurm-8gpu"]),
    ],
)
def test_the_plan_record_of_groupsize_is_as_agreed(
    name: str, chosen: list[str], golden: Callable[[str, str], None]
) -> None:
    record = plan_record(make_plan(loaded("groupsize", *chosen)))
    golden(name, json.dumps(record.as_json(), indent=1) + "\n")


def test_the_paper_mazes_are_its_grid() -> None:
    assert {
        (p.group_size, p.focal_gamma) for p in make_plan(loaded("maze", "experiment=maze")).points
    } == {(n, gamma) for n in (4, 8, 16, 32, 64, 128) for gamma in (0.0, 0.5, 1.0)}
    assert len(make_plan(loaded("maze")).points) == 9 * 3
