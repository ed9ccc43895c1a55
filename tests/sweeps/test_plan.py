"""From a declaration to points, stages and fingerprints."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.engines.table import ENGINES
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.kinds import Stage, kind
from fgrpo_bench.specs import Cell, Declaration, Profile, SweepPoint, config, from_dict, to_dict
from fgrpo_bench.specs.fingerprint import differences, fingerprint
from fgrpo_bench.specs.stored import TrainStageSpec
from sweeps import preview
from sweeps.cli import main
from sweeps.cost import estimate
from sweeps.freeze import plan_over
from sweeps.plan import Plan, expand, make_plan, plan_record

BASE = to_dict(config.load("smoke", ["run_root=runs"]))


def planned(change: Callable[[dict[str, Any]], object] = lambda declared: None) -> Plan:
    declared = copy.deepcopy(BASE)
    change(declared)
    return make_plan(config.validate(declared))


def stage(plan: Plan, name: str) -> Stage:
    (found,) = [each for each in plan.stages if each.name == name]
    return found


def leaves(value: Any, *path: str) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, *path, key)
    else:
        yield path


def put(path: tuple[str, ...], value: Any) -> Callable[[dict[str, Any]], None]:
    def change(declared: dict[str, Any]) -> None:
        for key in path[:-1]:
            declared = declared[key]
        declared[path[-1]] = value

    return change


def at(path: tuple[str, ...]) -> Any:
    value = BASE
    for key in path:
        value = value[key]
    return value


OTHERS = {"hidden_size": 192, "n_kv_heads": 1, "n_heads": 6, "n_digits": 2, "max_target": 50}
OTHERS |= {"vocabulary_size": 32, "n_positions": 128, "autocast": "bfloat16", "beta2": 0.9}
OTHERS |= {"schedule": "constant", "max_batch_tokens": 4096}


def another(path: tuple[str, ...]) -> Any:
    """Another valid value of a field."""
    value = at(path)
    if path[-1] in OTHERS:
        return OTHERS[path[-1]]
    return {int: lambda: value + 1, float: lambda: value * 0.5 or 0.1, str: lambda: f"{value}-2"}[
        type(value)
    ]()


UNCHANGEABLE = {"engine", "budget", "rollouts_per_step", "prompts_per_step", "lr_warmup_steps"}
"""Fields of which this version has one valid value, or which change only together."""
TRAIN_FIELDS = [
    path
    for path in leaves(BASE["experiment"]["train"], "experiment", "train")
    if path[-1] not in UNCHANGEABLE and path[-2:] not in (("task", "name"), ("model", "name"))
]
NO_IDENTITY = ("save_every", "eval_every", "eval_n_problems", "eval_n_samples", "max_batch_tokens")
"""What changes no weight."""


def test_the_grid_is_a_product_and_cells_come_after_it() -> None:
    points = expand(config.load("groupsize"))
    assert len(points) == (5 + 2) * 3
    assert points[0].point_id == "grpo-n2-g0-s11"
    assert [point.point_id for point in points[-3:]] == [f"grpo-n8-g1-s{s}" for s in (11, 12, 13)]


def test_a_cell_that_the_grid_holds_already_is_one_point() -> None:
    cell = {"algorithm": "grpo", "group_size": 4, "focal_gamma": 1.0}
    plan = planned(put(("sweep", "cells"), [cell, cell]))
    assert [point.point_id for point in plan.points] == ["grpo-n4-g0-s11", "grpo-n4-g1-s11"]


LARGE = {"algorithm": ["grpo", "dapo"], "group_size": [2, 4, 8, 16, 32]}
LARGE |= {"focal_gamma": [0.0, 0.5, 1.0], "seed": list(range(4_000))}
FURTHER = {"algorithm": "grpo", "group_size": 64, "focal_gamma": 0.0}


@pytest.mark.parametrize(
    ("grid", "cells", "words"),
    [
        (
            LARGE,
            [],
            "2 algorithms x 5 group sizes x 3 gammas x 1 rate x 4,000 seeds = 120,000 points, "
            "more than 20,000 (",
        ),
        (
            {"seed": list(range(4_000)), "learning_rate_factor": [0.5, 2.0]},
            [FURTHER, FURTHER | {"group_size": 32, "learning_rate_factor": 1.0}],
            "1 algorithm x 1 group size x 2 gammas x 2 rates x 4,000 seeds + 3 further cells x "
            "4,000 seeds = 28,000 points, more than 20,000 (",
        ),
    ],
)
def test_a_grid_is_counted_before_it_is_expanded(
    grid: dict, cells: list, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeps.plan.expand", lambda _: pytest.fail("it was expanded"))

    def change(declared: dict[str, Any]) -> None:
        declared["sweep"]["grid"] |= grid
        declared["sweep"]["cells"] = cells

    with pytest.raises(ValueError, match=r"name fewer values in sweep\.grid") as refused:
        planned(change)
    assert f"sweep: {words}" in str(refused.value)


def test_as_many_points_as_may_be_are_declared() -> None:
    seeds = copy.deepcopy(BASE)
    seeds["sweep"]["grid"]["seed"] = list(range(10_000))
    assert len(config.validate(seeds).sweep.grid.seed) == 10_000, "with two gammas 20,000 points"


def test_an_override_of_more_values_than_points_is_refused_before_it_is_parsed() -> None:
    override = f"sweep.grid.seed=[{','.join(map(str, range(20_001)))}]"
    with pytest.raises(ValueError, match=r"^sweep\.grid\.seed is given 20,001 values, more than"):
        config.load("smoke", [override])


def test_what_is_asked_of_a_point_does_not_grow_with_their_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            asked[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(Cell, "name", property(counting("cell_name", Cell.__dict__["name"].fget)))
    monkeypatch.setattr(kind, "inputs", counting("inputs", kind.inputs))
    counts = []
    for n in (10, 20, 40):
        asked.clear()
        seeds = f"sweep.grid.seed=[{','.join(map(str, range(n)))}]"
        plan, paths = plan_over(config.load("smoke", [seeds, f"run_root={tmp_path}"]))
        preview.preview(plan, paths)
        counts.append(Counter(asked))
    few, some, many = counts
    assert few["cell_name"] >= 20 and few["inputs"] >= 10
    for name in asked:
        assert many[name] - some[name] == 2 * (some[name] - few[name]), name


RATES = ["sweep.grid.learning_rate_factor=[0.5,1]", "sweep.grid.seed=[11]"]


def test_a_learning_rate_factor_is_an_axis_that_explicit_cells_follow() -> None:
    before = {each.point_id: each for each in expand(config.load("methods"))}
    points = {each.point_id: each for each in expand(config.load("methods", RATES))}
    assert len(points) == 2 * 23 and len(before) == 3 * 23
    half, whole = points["maxrl-n8-g0.5-lr0.5-s11"], points["maxrl-n8-g0.5-s11"]
    assert half.learning_rate == whole.learning_rate / 2 == whole.train.learning_rate / 2
    assert (half.cell.method, whole.cell.method) == ("F-MaxRL (lr x0.5)", "F-MaxRL")
    assert whole == before["maxrl-n8-g0.5-s11"], "1 changes nothing"
    own = "{algorithm: grpo, group_size: 8, focal_gamma: 0.0, learning_rate_factor: 2.0}"
    cells = ["sweep.grid.algorithm=[]", f"sweep.cells=[{own}]", RATES[1]]
    assert [each.point_id for each in expand(config.load("methods", cells))] == [
        "grpo-n8-g0-lr2-s11"
    ]
    exclusion = "sweep.exclude=[{learning_rate_factor: 0.5}]"
    left = [each.point_id for each in expand(config.load("methods", [*RATES, exclusion]))]
    assert left == [name for name, each in points.items() if each.learning_rate_factor == 1]


def test_a_learning_rate_factor_is_identity_but_where_it_is_1() -> None:
    stages = {s.name: s for s in make_plan(config.load("methods", RATES)).stages}
    half, whole = stages["nsr-n8-g0-lr0.5-s11"], stages["nsr-n8-g0-s11"]
    assert list(differences(whole.spec.identity, half.spec.identity)) == [
        ("learning_rate_factor", None, 0.5)
    ]
    point = half.spec.of(TrainStageSpec).point
    del (former := dict(whole.spec.of(TrainStageSpec).point))["learning_rate_factor"]
    assert from_dict(SweepPoint, former).learning_rate_factor == 1, "specs of before have none"
    assert from_dict(SweepPoint, point).learning_rate_factor == 0.5
    record = plan_record(make_plan(config.load("methods", RATES))).as_json()["points"]
    factors = {each["point_id"]: each.get("learning_rate_factor") for each in record}
    assert (factors["nsr-n8-g0-s11"], factors["nsr-n8-g0-lr0.5-s11"]) == (None, 0.5)
    assert factors["base-s11"] is None


def test_a_sweep_leaves_out_what_an_engine_does_not_have_where_it_says_so() -> None:
    paper = ["experiment=qwen2.5-7b", "profile=slurm-8gpu"]
    names = {point.algorithm.name for point in make_plan(config.load("methods", paper)).points}
    embedded = {point.algorithm.name for point in make_plan(config.load("methods")).points}
    assert embedded - names == {"dr_grpo"} and names < embedded
    with pytest.raises(ValueError, match="has loss_aggregation=constant_length, and engine"):
        make_plan(config.load("methods", [*paper, "sweep.exclude=[]"]))


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ({"focal_gamma": 1.0}, ["grpo-n4-g0-s11", "grpo-n4-g0-s12"]),
        ({"seed": 11}, ["grpo-n4-g0-s12", "grpo-n4-g1-s12"]),
        ({"focal_gamma": 1.0, "seed": 11}, ["grpo-n4-g0-s11", "grpo-n4-g0-s12", "grpo-n4-g1-s12"]),
        (
            {"group_size": 2},
            ["grpo-n4-g0-s11", "grpo-n4-g0-s12", "grpo-n4-g1-s11", "grpo-n4-g1-s12"],
        ),
    ],
)
def test_an_exclusion_leaves_out_what_matches_all_of_it(rule: dict, left: list[str]) -> None:
    def change(declared: dict[str, Any]) -> None:
        declared["sweep"]["grid"]["seed"] = [11, 12]
        nothing = dict.fromkeys(("algorithm", "group_size", "focal_gamma", "seed"))
        declared["sweep"]["exclude"] = [nothing | rule]

    assert sorted(point.point_id for point in planned(change).points) == left


def test_stages_come_after_what_they_need_and_points_of_a_seed_share_a_warm_up() -> None:
    plan = make_plan(config.load("groupsize"))
    seen: set[str] = set()
    for each in plan.stages:
        assert seen.issuperset(each.needs)
        seen.add(each.name)
    kinds = [each.kind for each in plan.stages]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "warmup": 3,
        "train": 21,
        "evaluate": 24,
    }
    of_seed = {each.needs for each in plan.stages if each.point_id.endswith("-s11")}
    assert ("_warmup/s11",) in of_seed


@pytest.mark.parametrize("path", TRAIN_FIELDS, ids=".".join)
def test_every_field_that_makes_weights_changes_the_fingerprint(path: tuple[str, ...]) -> None:
    before, after = planned(), planned(put(path, another(path)))
    name = "grpo-n4-g0-s11"
    if path[-1] in NO_IDENTITY:
        assert [s.fingerprint for s in before.stages] == [s.fingerprint for s in after.stages]
        assert (
            stage(before, name).spec.of(TrainStageSpec).point
            != stage(after, name).spec.of(TrainStageSpec).point
        )
        return
    assert stage(before, name).fingerprint != stage(after, name).fingerprint
    (found,) = differences(
        stage(before, name).spec.identity,
        stage(after, name).spec.identity,
    )
    assert found == (".".join(path[1:]), at(path), another(path))
    base = path[2] in ("warmup", "model", "task", "beta1", "beta2", "grad_clip")
    warmups = stage(before, "_warmup/s11").fingerprint, stage(after, "_warmup/s11").fingerprint
    assert (warmups[0] != warmups[1]) == base, "only what makes the base model marks it"


def test_points_of_two_sweeps_are_the_same_run_where_cell_and_seed_are_the_same() -> None:
    stages = [*make_plan(config.load("gamma")).stages, *make_plan(config.load("groupsize")).stages]
    trained = {(each.point_id, each.fingerprint) for each in stages if each.kind == "train"}
    assert len(trained) == 4 * 3 * 3 + 7 * 3 - 3 * 3, (
        "GRPO at N = 8 with gamma 0, 0.5, 1 is in both"
    )
    assert len({mark for _, mark in trained}) == len({name for name, _ in trained}) == len(trained)


def test_a_clip_bound_changes_the_fingerprint() -> None:
    before, after = planned(), planned(put(("algorithms", "grpo", "clip_high"), 0.28))
    assert before.stages[1].fingerprint != after.stages[1].fingerprint
    assert before.stages[0].fingerprint == after.stages[0].fingerprint


@pytest.mark.parametrize(
    "path",
    [path for path in leaves(BASE["profile"], "profile") if path[-1] in ("threads_per_worker",)]
    + [("run_root",), ("version",), ("sweep", "question")],
    ids=".".join,
)
def test_where_and_how_wide_a_sweep_runs_is_no_identity(path: tuple[str, ...]) -> None:
    before, after = planned(), planned(put(path, another(path)))
    assert [s.fingerprint for s in before.stages] == [s.fingerprint for s in after.stages]


def test_more_draws_are_a_target_and_other_sampling_is_another_evaluation() -> None:
    evaluation = ("experiment", "evaluation")
    more, hotter = (
        planned(put((*evaluation, "n_samples"), 64)),
        planned(put((*evaluation, "temperature"), 0.5)),
    )
    before = planned()
    assert [s.name for s in more.stages] == [s.name for s in before.stages]
    assert [s.fingerprint for s in more.stages] == [s.fingerprint for s in before.stages]
    assert more.stages[-1].target["n_samples"] == 64
    assert hotter.stages[-1].name != before.stages[-1].name
    assert hotter.stages[1].fingerprint == before.stages[1].fingerprint


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def test_the_stream_of_draws_is_the_training_seed_and_0_for_a_base_model_that_seeds_share() -> None:
    """Of each stage that draws, the stream by the training run that it looks at."""

    def streams(plan: Plan) -> dict[str, int]:
        return {
            stage.source: stage.spec.identity["sampling"]["stream"]
            for stage in plan.stages
            if stage.kind in ("evaluate", "rare") and stage.source is not None
        }

    assert streams(planned(put(("sweep", "grid", "seed"), [11, 12]))) == {
        "_warmup/s11": 11,
        "_warmup/s12": 12,
        "grpo-n4-g0-s11": 11,
        "grpo-n4-g0-s12": 12,
        "grpo-n4-g1-s11": 11,
        "grpo-n4-g1-s12": 12,
    }
    overrides = ["experiment=qwen2.5-7b", "sweep.grid.seed=[11,12]"]
    published = streams(make_plan(config.load("controls", [*overrides, "run_root=runs"])))
    assert {source for source, stream in published.items() if stream == 0} == {"_base/qwen2.5-7b"}
    assert {source[-3:] for source, stream in published.items() if stream == 12} == {"s12"}


def test_the_checkpoints_that_are_evaluated_change_no_training_and_no_evaluation() -> None:
    last, every = planned(), planned(put(("experiment", "checkpoints"), "every"))
    kept = {each.name: each.fingerprint for each in every.stages}
    assert kept.items() > {each.name: each.fingerprint for each in last.stages}.items()
    train = last.points[0].train
    steps = [*range(train.save_every, train.steps, train.save_every), train.steps]
    (point,) = (p for p in plan_record(every).points if p.point_id == last.points[0].point_id)
    assert [checkpoint.step for checkpoint in point.checkpoints] == steps
    two = planned(put(("experiment", "checkpoints"), [steps[-1], steps[0]]))
    (point,) = (p for p in plan_record(two).points if p.point_id == last.points[0].point_id)
    assert [checkpoint.step for checkpoint in point.checkpoints] == [steps[0], steps[-1]]


def test_a_step_without_a_checkpoint_is_refused_with_those_that_have_one() -> None:
    with pytest.raises(ValueError, match=r"leaves none at step 5: choose from 6, 12"):
        planned(put(("experiment", "checkpoints"), [5, 12]))


@given(st.dictionaries(st.text(), json_values), st.randoms(use_true_random=False))
@pytest.mark.slow
def test_the_order_of_keys_does_not_change_a_fingerprint(value: dict, random: Any) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert fingerprint({key: value[key] for key in keys}) == fingerprint(value)


@given(json_values, json_values)
def test_values_that_differ_have_other_fingerprints(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (fingerprint(one) == fingerprint(other)) == same


def test_a_declaration_survives_json() -> None:
    declaration = config.load("groupsize")
    assert from_dict(Declaration, json.loads(json.dumps(to_dict(declaration)))) == declaration


def test_the_plan_record_of_groupsize_is_as_agreed(golden: Callable[[str, str], None]) -> None:
    record = plan_record(make_plan(config.load("groupsize", ["run_root=runs"])))
    golden("plan-groupsize.json", json.dumps(record.as_json(), indent=1) + "\n")


def test_the_plan_of_a_staged_sweep_differs_in_where_it_evaluates_and_what_is_asked_for() -> None:
    fixed, staged = (
        plan_record(make_plan(config.load("groupsize", ["run_root=runs", *more]))).stages
        for more in ([], ["evaluation@experiment.evaluation=staged"])
    )
    for old, new in zip(fixed, staged, strict=True):
        if old.kind != "evaluate":
            assert old == new
            continue
        assert new.fingerprint == old.fingerprint
        assert new.name == old.name.replace("/pass256-", "/staged-")
        design = {"stages": [64, 128, 256, 512, 1024], "enough": 8}
        assert new.target == old.target | {"n_samples": 1024, "design": design}


STAGED = ["evaluation@experiment.evaluation=staged"]
DESIGN = "experiment.evaluation.design"


@pytest.mark.parametrize(
    ("sweep", "overrides", "stages", "enough"),
    [
        ("groupsize", [*STAGED, f"{DESIGN}.enough=4"], (64, 128, 256, 512, 1024), 4),
        ("groupsize", [f"{DESIGN}={{stages:[64,512],enough:8}}"], (64, 512), 8),
        (
            "transfer",
            [
                *("experiment=qwen2.5-7b", "evaluation@experiment.evaluation=paper"),
                f"+design@{DESIGN}=staged",
            ],
            (64, 128, 256, 512, 1024),
            8,
        ),
    ],
)
def test_a_design_is_a_file_or_a_value(sweep, overrides, stages, enough) -> None:
    evaluation = config.load(sweep, overrides).experiment.evaluation
    assert (evaluation.design.stages, evaluation.design.enough) == (stages, enough)
    assert evaluation.n_samples == stages[-1]


def test_a_design_is_left_with_null() -> None:
    evaluation = config.load("groupsize", [*STAGED, f"{DESIGN}=null"]).experiment.evaluation
    assert (evaluation.design, evaluation.n_samples) == (None, 1024)


def test_rare_answers_of_a_staged_sweep_are_of_all_draws() -> None:
    plan = make_plan(config.load("groupsize", [*STAGED, "+rare@experiment.rare=paper"]))
    rare = next(stage for stage in plan.stages if stage.kind == "rare")
    assert rare.spec.as_json()["evaluation"]["design"] is None


@pytest.fixture(scope="module")
def profiles() -> dict[str, Profile]:
    names = config.options("profile")
    return {name: config.load("groupsize", [f"profile={name}"]).profile for name in names}


def refused(declared: Declaration) -> str | None:
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


@pytest.mark.parametrize("sweep", config.options("sweep"))
@pytest.mark.parametrize("experiment", [None, *config.options("experiment")])
def test_every_shipped_sweep_and_experiment_is_loaded_planned_and_priced(
    sweep: str, experiment: str | None, profiles: dict[str, Profile], tmp_path: Path
) -> None:
    declared = config.load(sweep, [] if experiment is None else [f"experiment={experiment}"])
    assert declared.sweep.name == sweep
    assert declared.experiment.name == (experiment or declared.experiment.name)
    refusal = refused(declared)
    # a sweep's own experiment with every profile, any other on processors and on GPUs
    chosen = profiles if experiment is None else {n: profiles[n] for n in ("local", "slurm-8gpu")}
    for name, profile in chosen.items():
        declaration = replace(declared, profile=profile)
        if refusal is not None:
            with pytest.raises(ValueError, match=refusal):
                make_plan(declaration)
        elif declared.experiment.name != "rehearsal" or profile.device == "cpu":
            plan = make_plan(declaration)
            assert plan.declaration.profile.name == name
            paths = RunPaths(root=tmp_path, sweep=sweep, experiment="any", version="v1")
            cost = estimate(plan, paths, list(plan.stages))
            assert cost["not_estimated"] == 0
            assert cost["cpu_seconds"] > 0 or cost["on_gpus"]["gpu_hours"] > 0


@pytest.mark.parametrize("group", ["algorithm", "evaluation", "benchmark"])
@pytest.mark.slow
def test_every_other_yaml_is_named_by_its_file(group: str) -> None:
    for name in config.options(group):
        key = f"{group}@chosen"
        composed = config.compose([f"+{key}={name}"])
        assert composed["chosen"]["name"] == name


def test_a_single_update_a_batch_refuses_several_algorithms() -> None:
    with pytest.raises(ValueError, match="updates_per_batch to 2 or more") as refused:
        make_plan(config.load("gamma", ["experiment.train.updates_per_batch=1"]))
    assert "cispo, dapo, grpo" in str(refused.value)


def test_a_single_update_a_batch_may_compare_advantages() -> None:
    algorithms = ["experiment.train.updates_per_batch=1", "sweep.grid.algorithm=[grpo,rloo,nsr]"]
    assert len(make_plan(config.load("gamma", algorithms)).points) == 3 * 4 * 3


@pytest.mark.parametrize(
    ("algorithm", "override", "said"),
    [
        (
            "pkpo",
            "++algorithms.pkpo.parameters.k=9",
            "k=9 of pkpo: must be a whole number from 1 to 8 with baseline sloo_minus_one and "
            "group_size=8; change algorithms.pkpo.parameters, or leave the point out",
        ),
        (
            "pkpo",
            "++algorithms.pkpo.parameters={k: 8, baseline: sloo}",
            "k=8 of pkpo: must be a whole number from 1 to 7 with baseline sloo and group_size=8",
        ),
        (
            "pkpo",
            "++algorithms.pkpo.parameters.baseline=mean",
            "baseline='mean' of pkpo: choose one of none, sloo, sloo_minus_one",
        ),
        ("passk", "++algorithms.passk.parameters.k=9", "k=9 of passk: must be a whole number from"),
        ("passk", "++algorithms.passk.parameters.k=0", "k=0 of passk: must be a whole number from"),
        (
            "passk",
            "~algorithms.passk.parameters.k",
            "the advantage passk needs its parameter k; change algorithms.passk.parameters",
        ),
        (
            "rloo",
            "++algorithms.rloo.parameters={k: 2}",
            "k=2: the advantage rloo has no parameters",
        ),
        (
            "nsr",
            "algorithms.nsr.dynamic_sampling=true",
            "set algorithms.nsr.dynamic_sampling=false",
        ),
        (
            "maxrl",
            "algorithms.maxrl.dynamic_sampling=true",
            "the advantage maxrl teaches from some of these",
        ),
        (
            "w_reinforce",
            "++algorithms.w_reinforce.parameters.weight=-1",
            "weight=-1 of w_reinforce: must be a number of at least 0",
        ),
        (
            "w_reinforce",
            "++algorithms.w_reinforce.parameters.weight=high",
            "weight='high' of w_reinforce: must be a finite number",
        ),
        (
            "ds_grpo",
            "++algorithms.ds_grpo.parameters.beta=0",
            "beta=0 of ds_grpo: must be a number above 0",
        ),
        (
            "rs_grpo",
            "++algorithms.rs_grpo.parameters.beta=high",
            "beta='high' of rs_grpo: must be a finite number",
        ),
    ],
)
def test_an_advantage_that_cannot_be_is_refused_with_its_point(algorithm, override, said) -> None:
    with pytest.raises(ValueError, match=re.escape(said)) as refused:
        make_plan(config.load("gamma", [f"sweep.grid.algorithm=[{algorithm}]", override]))
    assert str(refused.value).startswith(f"{algorithm}-n8-g0-s11")


def test_one_rollout_of_pkpo_has_no_baseline_but_its_own_choice_and_is_planned() -> None:
    declared = config.load(
        "gamma", ["sweep.grid.algorithm=[pkpo]", "++algorithms.pkpo.parameters.k=1"]
    )
    assert {point.algorithm.parameters["k"] for point in make_plan(declared).points} == {1}


def test_an_advantage_that_reads_log_probabilities_needs_an_engine_that_gives_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declared = config.load("gamma", ["sweep.grid.algorithm=[ds_grpo]"])
    make_plan(declared)
    monkeypatch.setitem(ENGINES, "embedded", replace(ENGINES["embedded"], gives_log_probs=False))
    with pytest.raises(ValueError, match="engine embedded gives none: exclude that") as refused:
        make_plan(declared)
    assert str(refused.value).startswith("ds_grpo-n8-g0-s11 has advantage=ds_grpo")


def test_a_rollout_budget_must_hold_whole_groups() -> None:
    with pytest.raises(ValueError, match="rollouts_per_step=64 is no multiple of group_size=5"):
        planned(put(("sweep", "grid", "group_size"), [5]))


def test_a_step_must_have_a_prompt_for_every_update() -> None:
    with pytest.raises(ValueError, match="every update needs a prompt"):
        planned(put(("sweep", "grid", "group_size"), [64]))


def test_the_paper_mazes_are_its_grid_and_priced_on_a_gpu(capsys, tmp_path) -> None:
    overrides = ["experiment=maze", "profile.device=cuda", f"run_root={tmp_path}"]
    plan = make_plan(config.load("maze", overrides))
    assert {(p.group_size, p.focal_gamma) for p in plan.points} == {
        (n, gamma) for n in (4, 8, 16, 32, 64, 128) for gamma in (0.0, 0.5, 1.0)
    }
    assert len(make_plan(config.load("maze")).points) == 9 * 3
    assert main(["plan", "maze", *overrides]) == 0
    said = capsys.readouterr().out
    assert "estimated on GPUs: 30 GPU-hours (1 warm-up 0.0, 18 trainings 30," in said
    assert "from operations and not from a measured step: 5.4e+18 of training" in said
    assert main(["plan", "maze", "experiment=maze", f"run_root={tmp_path}"]) == 0
    said = capsys.readouterr().out
    assert "days of processor time" in said
    assert "on a GPU (profile.device=cuda) the training would take about 30 GPU-hours" in said
