"""What is shipped: every sweep with every experiment is planned, priced, and marked as agreed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.specs import Declaration, config
from sweeps.cost import estimate
from sweeps.plan import make_plan, plan_record
from tests.support.plans import loaded

SWEEPS, EXPERIMENTS = config.options("sweep"), config.options("experiment")
RARE = "+rare@experiment.rare=paper"
OF_ONE_EXPERIMENT = {
    *("smoke", "rehearsal", "methods-tuned", "transfer-llama3.2-3b", "transfer-qwen3-4b-base"),
    "maze",
}
"""Sweeps that name their experiment; the others are meant for all that no sweep names."""


def together(sweep: str, experiment: str, *overrides: str) -> Declaration:
    """As `sweep` with experiment=... is composed, but for the paper's grid of mazes."""
    chosen = loaded("groupsize", f"experiment={experiment}", *overrides).experiment
    return replace(loaded(sweep, *overrides), experiment=chosen)


def meant_together() -> dict[str, Declaration]:
    """Every sweep with every experiment that it is meant for."""
    paper_maze = loaded("maze", "experiment=maze")
    plans = {name: loaded(name, RARE) for name in OF_ONE_EXPERIMENT}
    plans["maze maze"] = paper_maze
    named = {plan.experiment.name for plan in plans.values()}
    further = set(EXPERIMENTS) - (named - {"countdown", "llama3.2-3b", "qwen3-4b-base"})
    for sweep in set(SWEEPS) - OF_ONE_EXPERIMENT:
        for experiment in further:
            declared = together(sweep, experiment, RARE)
            if sweep != "controls" or declared.experiment.train.engine == "openrlhf":
                plans[f"{sweep} {experiment}"] = declared
    return plans


def test_fingerprints_of_every_shipped_plan(golden: Callable[[str, str], None]) -> None:
    marks = {
        name: {stage.name: stage.fingerprint for stage in make_plan(declaration).stages}
        for name, declaration in sorted(meant_together().items())
    }
    golden("fingerprints.json", json.dumps(marks, indent=0) + "\n")


def refusal(declared: Declaration) -> str | None:
    """What a plan says of a sweep with an experiment that it cannot be asked of."""
    sweep, train = declared.sweep.name, declared.experiment.train
    # Sweeps whose algorithms differ in their advantages, or that have a single one.
    comparable = ("smoke", "groupsize", "maze", "methods-declared")
    if train.updates_per_batch == 1 and sweep not in comparable:
        return "with updates_per_batch=1"
    if train.engine == "embedded" and sweep == "controls":
        return "choose an experiment of engine openrlhf"
    if (sweep, declared.experiment.name) == ("maze", "countdown-tiny"):
        return "every update needs a prompt"
    return None


@pytest.mark.parametrize("sweep", SWEEPS)
def test_every_sweep_with_every_experiment_is_planned_and_priced_or_refused(
    sweep: str, tmp_path: Path
) -> None:
    """With its own experiment on every profile, with any other on processors and on GPUs."""
    shipped = loaded(sweep)
    assert shipped.sweep.name == sweep
    on = {
        name: loaded("groupsize", f"profile={name}").profile for name in config.options("profile")
    }
    chosen = [(shipped, profile) for profile in on.values()]
    for experiment in EXPERIMENTS:
        declared = together(sweep, experiment)
        assert declared.experiment.name == experiment
        chosen += [(declared, on[name]) for name in ("local", "slurm-8gpu")]
    paths = RunPaths(root=tmp_path, sweep=sweep, experiment="any", version="v1")
    for declared, profile in chosen:
        declaration = replace(declared, profile=profile)
        if (said := refusal(declared)) is not None:
            with pytest.raises(ValueError, match=said):
                make_plan(declaration)
        elif declared.experiment.name != "rehearsal" or profile.device == "cpu":
            plan = make_plan(declaration)
            cost = estimate(plan, paths, list(plan.stages))
            assert cost["not_estimated"] == 0, (declared.experiment.name, profile.name)
            assert cost["cpu_seconds"] > 0 or cost["on_gpus"]["gpu_hours"] > 0


@pytest.mark.parametrize("evaluation", config.options("evaluation"))
def test_every_evaluation_is_valid_and_named_by_its_file(evaluation: str) -> None:
    experiment = "countdown" if "pass" in evaluation else "qwen2.5-7b"
    experiment = "rehearsal" if evaluation == "rehearsal" else experiment
    chosen = [f"experiment={experiment}", f"evaluation@experiment.evaluation={evaluation}"]
    assert loaded("groupsize", *chosen).experiment.evaluation.name == evaluation


@pytest.mark.parametrize("group", ["profile", "benchmark"])
@pytest.mark.slow
def test_every_other_yaml_is_named_by_its_file(group: str) -> None:
    for name in config.options(group):
        assert config.compose([f"+{group}@chosen={name}"])["chosen"]["name"] == name


def test_every_algorithm_is_named_by_its_entry() -> None:
    algorithms = loaded("groupsize").algorithms
    assert [item.name for item in algorithms.values()] == [*algorithms]


def test_the_plan_record_of_groupsize_is_as_agreed(golden: Callable[[str, str], None]) -> None:
    record = plan_record(make_plan(loaded("groupsize")))
    golden("plan-groupsize.json", json.dumps(record.as_json(), indent=1) + "\n")


def test_the_paper_mazes_are_its_grid() -> None:
    assert {
        (p.group_size, p.focal_gamma) for p in make_plan(loaded("maze", "experiment=maze")).points
    } == {(n, gamma) for n in (4, 8, 16, 32, 64, 128) for gamma in (0.0, 0.5, 1.0)}
    assert len(make_plan(loaded("maze")).points) == 9 * 3
