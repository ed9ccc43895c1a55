"""From a declaration to points, stages and fingerprints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.engines.table import ENGINES
from fgrpo_bench.graders import GRADERS, PartialCredit, countdown, grader_version
from fgrpo_bench.kinds import Stage, kind
from fgrpo_bench.specs import Cell, Declaration, SweepPoint, config, from_dict, to_dict
from fgrpo_bench.specs.fingerprint import differences, fingerprint
from fgrpo_bench.specs.stored import TrainStageSpec
from sweeps import preview
from sweeps.plan import Plan, expand, make_plan, plan_record
from sweeps.slurm.submissions import arrange
from tests.support.plans import loaded, planned

NAME = "grpo-n4-g0-s11"
TRAIN, EVALUATION = "experiment.train", "experiment.evaluation"
RARE = "+rare@experiment.rare=paper"
STAGED = f"evaluation@{EVALUATION}=staged"


def plan_of(sweep: str, *overrides: str) -> Plan:
    return make_plan(loaded(sweep, *overrides))


def stages(plan: Plan) -> dict[str, Stage]:
    return {stage.name: stage for stage in plan.stages}


def marks(plan: Plan) -> dict[str, str]:
    return {stage.name: stage.fingerprint for stage in plan.stages}


def ids(plan: Plan) -> list[str]:
    return [point.point_id for point in plan.points]


def leaves(value: Any, *path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, *path, key)
    else:
        yield ".".join(path), value


OTHERS = {"hidden_size": 192, "n_kv_heads": 1, "n_heads": 6, "n_digits": 2, "max_target": 50}
OTHERS |= {"vocabulary_size": 32, "n_positions": 128, "autocast": "bfloat16", "beta2": 0.9}
OTHERS |= {"schedule": "constant", "max_batch_tokens": 4096, "reward": "countdown-partial"}
OTHERS |= {"overlong_buffer_tokens": 4}


def another(name: str, value: Any) -> Any:
    """Another valid value of a field of training."""
    if name in OTHERS:
        return OTHERS[name]
    return value * 0.5 or 0.1 if isinstance(value, float) else value + 1


UNCHANGEABLE = {"engine", "budget", "rollouts_per_step", "prompts_per_step", "lr_warmup_steps"}
UNCHANGEABLE |= {"pretrained", "prompt_tokens", "response_tokens"}
"""Fields of which this version has one valid value, or which change only together."""
TRAIN_FIELDS = {
    path: value
    for path, value in leaves(to_dict(loaded("smoke").experiment.train))
    if path not in UNCHANGEABLE | {"task.name", "model.name"}
}
NO_IDENTITY = ("save_every", "eval_every", "eval_n_problems", "eval_n_samples", "max_batch_tokens")
NO_IDENTITY += ("stored_groups",)
"""What changes no weight."""
OF_THE_BASE = ("warmup", "model", "task", "beta1", "beta2", "grad_clip")


def test_the_grid_is_a_product_and_cells_come_after_it_where_it_does_not_hold_them() -> None:
    points = expand(loaded("groupsize"))
    assert len(points) == 4 * 3 + 3 * 6
    assert points[0].point_id == "grpo-n2-g0-s11"
    assert [point.point_id for point in points[-3:]] == [f"grpo-n8-g1-s{s}" for s in (14, 15, 16)]
    cell = "{algorithm:grpo,group_size:4,focal_gamma:1.0}"
    assert ids(plan_of("smoke", f"sweep.cells=[{cell},{cell}]")) == [NAME, "grpo-n4-g1-s11"]


def test_a_cell_may_have_more_seeds_than_the_grid_and_typed_seeds_are_those_of_every_cell() -> None:
    more = "sweep.cells=[{algorithm:grpo,group_size:4,focal_gamma:0.0,seed:[11,12]}]"
    plan = plan_of("smoke", "sweep.grid.focal_gamma=[0.0,1.0]", more)
    assert ids(plan) == [NAME, "grpo-n4-g0-s12", "grpo-n4-g1-s11"]
    assert {point.seed for point in plan_of("groupsize", "sweep.grid.seed=[3]").points} == {3}


LARGE = {"algorithm": ["grpo", "dapo"], "group_size": [2, 4, 8, 16, 32]}
LARGE |= {"focal_gamma": [0.0, 0.5, 1.0], "seed": list(range(4_000))}
RATES_OF_MANY = {"seed": list(range(4_000)), "learning_rate_factor": [0.5, 2.0]}
FURTHER = {"algorithm": "grpo", "group_size": 64, "focal_gamma": 0.0}


@pytest.mark.parametrize(
    ("grid", "cells", "words"),
    [
        (
            LARGE,
            [],
            "2 algorithms x 5 group sizes x 3 gammas x 1 rate x 4,000 seeds = 120,000 runs, ",
        ),
        (
            RATES_OF_MANY,
            [FURTHER, FURTHER | {"group_size": 32, "learning_rate_factor": 1.0}],
            "1 algorithm x 1 group size x 2 gammas x 2 rates x 4,000 seeds + 12,000 runs of "
            "further cells = 28,000 runs, ",
        ),
    ],
)
def test_a_grid_is_counted_before_it_is_expanded(grid: dict, cells: list, words: str) -> None:
    declared = to_dict(loaded("smoke"))
    declared["sweep"]["grid"] |= grid
    declared["sweep"]["cells"] = cells
    with pytest.raises(ValueError, match=r"name fewer values in sweep\.grid") as refused:
        config.validate(declared)
    assert f"sweep: {words}more than 20,000 (" in str(refused.value)


def test_as_many_points_as_may_be_are_declared_and_more_values_are_not_parsed() -> None:
    declared = to_dict(loaded("smoke"))
    declared["sweep"]["grid"]["seed"] = list(range(10_000))
    assert len(config.validate(declared).sweep.grid.seed) == 10_000, "with two gammas 20,000 points"
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
    monkeypatch.setattr(kind, "training_inputs", counting("inputs", kind.training_inputs))
    counts = []
    for n in (10, 20, 40):
        asked.clear()
        paths, plan = planned(
            tmp_path, "smoke", f"sweep.grid.seed=[{','.join(map(str, range(n)))}]"
        )
        preview.preview(plan, paths)
        counts.append(Counter(asked))
    few, some, many = counts
    assert few["cell_name"] >= 20 and few["inputs"] >= 10
    for name in asked:
        assert many[name] - some[name] == 2 * (some[name] - few[name]), name


RATES = ["sweep.grid.learning_rate_factor=[0.5,1]", "sweep.grid.seed=[11]"]


def test_a_learning_rate_factor_is_an_axis_that_explicit_cells_follow() -> None:
    before = {point.point_id: point for point in expand(loaded("methods"))}
    points = {point.point_id: point for point in expand(loaded("methods", *RATES))}
    assert len(points) == 2 * 26 and len(before) == 3 * 26
    half, whole = points["maxrl-n8-g0.5-lr0.5-s11"], points["maxrl-n8-g0.5-s11"]
    assert half.learning_rate == whole.learning_rate / 2 == whole.train.learning_rate / 2
    assert (half.cell.method, whole.cell.method) == ("F-MaxRL (lr x0.5)", "F-MaxRL")
    assert whole == before["maxrl-n8-g0.5-s11"], "1 changes nothing"
    cell = "{algorithm: grpo, group_size: 8, focal_gamma: 0.0, learning_rate_factor: 2.0}"
    cells = ["sweep.grid.algorithm=[]", f"sweep.cells=[{cell}]", RATES[1]]
    assert ids(plan_of("methods", *cells)) == ["grpo-n8-g0-lr2-s11"]
    left = ids(plan_of("methods", *RATES, "sweep.exclude=[{learning_rate_factor: 0.5}]"))
    assert left == [name for name, point in points.items() if point.learning_rate_factor == 1]


def test_a_learning_rate_factor_is_identity_but_where_it_is_1() -> None:
    plan = plan_of("methods", *RATES)
    half, whole = (stages(plan)[name] for name in ("nsr-n8-g0-lr0.5-s11", "nsr-n8-g0-s11"))
    assert list(differences(whole.spec.identity, half.spec.identity)) == [
        ("learning_rate_factor", None, 0.5)
    ]
    point = half.spec.as_kind(TrainStageSpec).point
    del (former := dict(whole.spec.as_kind(TrainStageSpec).point))["learning_rate_factor"]
    assert from_dict(SweepPoint, former).learning_rate_factor == 1, "specs of before have none"
    assert from_dict(SweepPoint, point).learning_rate_factor == 0.5
    record = plan_record(plan).as_json()["points"]
    factors = {point["point_id"]: point.get("learning_rate_factor") for point in record}
    assert (factors["nsr-n8-g0-s11"], factors["nsr-n8-g0-lr0.5-s11"]) == (None, 0.5)
    assert factors["base-s11"] is None


PROMPTS = ["+sweep.grid.prompts_per_step=[null,8,32]", "sweep.grid.seed=[11]"]


def test_prompts_per_step_are_an_axis_that_explicit_cells_follow() -> None:
    before = {point.point_id: point for point in expand(loaded("methods"))}
    points = {point.point_id: point for point in expand(loaded("methods", *PROMPTS))}
    assert len(points) == 3 * 26
    own, of_budget = points["maxrl-n8-g0.5-p8-s11"], points["maxrl-n8-g0.5-s11"]
    assert (own.n_prompts, of_budget.n_prompts) == (8, 256 // 8)
    assert own.learning_rate == of_budget.learning_rate
    assert (own.cell.method, of_budget.cell.method) == ("F-MaxRL (8 prompts)", "F-MaxRL")
    assert of_budget == before["maxrl-n8-g0.5-s11"], "null changes nothing"
    cell = "{algorithm: grpo, group_size: 6, focal_gamma: 0.0, prompts_per_step: 5}"
    cells = ["sweep.grid.algorithm=[]", f"sweep.cells=[{cell}]", PROMPTS[1]]
    assert ids(plan_of("methods", *cells)) == ["grpo-n6-g0-p5-s11"], "256 is no multiple of 6"
    left = ids(plan_of("methods", *PROMPTS, "sweep.exclude=[{prompts_per_step: 8}]"))
    assert left == [name for name, point in points.items() if point.prompts_per_step != 8]


def test_prompts_per_step_are_identity_but_where_the_budget_says_them() -> None:
    plan = plan_of("methods", *PROMPTS)
    own, of_budget = (stages(plan)[name] for name in ("nsr-n8-g0-p32-s11", "nsr-n8-g0-s11"))
    assert list(differences(of_budget.spec.identity, own.spec.identity)) == [
        ("prompts_per_step", None, 32)
    ]
    record = plan_record(plan).as_json()["points"]
    prompts = {point["point_id"]: point.get("prompts_per_step") for point in record}
    assert (prompts["nsr-n8-g0-s11"], prompts["nsr-n8-g0-p32-s11"]) == (None, 32)
    assert prompts["base-s11"] is None


@pytest.mark.slow
def test_a_sweep_leaves_out_what_an_engine_does_not_have_where_it_says_so() -> None:
    paper = ["experiment=qwen2.5-7b", "profile=slurm-8gpu"]
    names = {point.algorithm.name for point in plan_of("methods", *paper).points}
    embedded = {point.algorithm.name for point in plan_of("methods").points}
    assert embedded - names == {"dr_grpo", "curverl"} and names < embedded
    with pytest.raises(ValueError, match="has loss_aggregation=constant_length, and engine"):
        plan_of("methods", *paper, "sweep.exclude=[]")


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ("focal_gamma:1.0", "g0-s11 g0-s12"),
        ("seed:11", "g0-s12 g1-s12"),
        ("focal_gamma:1.0,seed:11", "g0-s11 g0-s12 g1-s12"),
        ("group_size:2", "g0-s11 g0-s12 g1-s11 g1-s12"),
    ],
)
def test_an_exclusion_leaves_out_what_matches_all_of_it(rule: str, left: str) -> None:
    plan = plan_of("smoke", "sweep.grid.seed=[11,12]", f"sweep.exclude=[{{{rule}}}]")
    assert sorted(ids(plan)) == [f"grpo-n4-{point}" for point in left.split()]


def test_stages_come_after_what_they_need_and_points_of_a_seed_share_a_warm_up() -> None:
    plan = plan_of("groupsize")
    seen: set[str] = set()
    for stage in plan.stages:
        assert seen.issuperset(stage.needs)
        seen.add(stage.name)
    kinds = Counter(stage.kind for stage in plan.stages)
    assert kinds == {"warmup": 6, "train": 30, "evaluate": 36}
    of_seed = {stage.needs for stage in plan.stages if stage.point_id.endswith("-s11")}
    assert ("_warmup/s11",) in of_seed


@pytest.mark.parametrize("path", TRAIN_FIELDS)
def test_every_field_that_makes_weights_changes_the_fingerprint(path: str) -> None:
    known, name = TRAIN_FIELDS[path], path.rpartition(".")[2]
    value = another(name, known)
    before, after = plan_of("smoke"), plan_of("smoke", f"++{TRAIN}.{path}={value}")
    old, new = stages(before)[NAME], stages(after)[NAME]
    if name in NO_IDENTITY:
        assert marks(before) == marks(after)
        assert old.spec.as_kind(TrainStageSpec).point != new.spec.as_kind(TrainStageSpec).point
        return
    assert old.fingerprint != new.fingerprint
    (found,) = differences(old.spec.identity, new.spec.identity)
    judged = ("reward", None, grader_version(value)) if path == "reward" else None
    assert found == (judged or (f"train.{path}", known, value))
    warmups = marks(before)["_warmup/s11"], marks(after)["_warmup/s11"]
    is_of_the_base = path.partition(".")[0] in OF_THE_BASE
    assert (warmups[0] != warmups[1]) == is_of_the_base, "only what makes the base model marks it"


def test_a_clip_bound_changes_the_fingerprint_of_training_alone() -> None:
    before, after = plan_of("smoke"), plan_of("smoke", "algorithms.grpo.clip_high=0.28")
    assert before.stages[1].fingerprint != after.stages[1].fingerprint
    assert before.stages[0].fingerprint == after.stages[0].fingerprint


@pytest.mark.parametrize(
    "override",
    ["profile.threads_per_worker=2", "run_root=runs-2", "version=v1-2", "sweep.question=Why"],
)
def test_where_and_how_wide_a_sweep_runs_is_no_identity(override: str) -> None:
    assert marks(plan_of("smoke")) == marks(plan_of("smoke", override))


def test_points_of_two_sweeps_are_the_same_run_where_cell_and_seed_are_the_same() -> None:
    both = [*plan_of("gamma").stages, *plan_of("groupsize").stages]
    trained = {(stage.point_id, stage.fingerprint) for stage in both if stage.kind == "train"}
    assert len(trained) == 4 * 3 * 3 + 30 - 3 * 3, "GRPO at N = 8 with gamma 0, 0.5, 1 is in both"
    assert len({mark for _, mark in trained}) == len({name for name, _ in trained}) == len(trained)


def test_more_draws_are_a_target_and_other_sampling_is_another_evaluation() -> None:
    before, more = plan_of("smoke"), plan_of("smoke", f"{EVALUATION}.n_samples=64")
    hotter = plan_of("smoke", f"{EVALUATION}.temperature=0.5")
    assert marks(more) == marks(before)
    assert more.stages[-1].target["n_samples"] == 64
    assert hotter.stages[-1].name != before.stages[-1].name
    assert hotter.stages[1].fingerprint == before.stages[1].fingerprint


@pytest.mark.slow
def test_a_prompt_is_part_of_an_evaluations_identity_and_a_further_grader_is_not() -> None:
    chosen = ["experiment=qwen2.5-7b", f"evaluation@{EVALUATION}=paper"]
    no_grader = f"{EVALUATION}.benchmarks.minerva.extra_graders=[]"
    plain, prompted, ungraded = (
        plan_of("groupsize", *chosen, *more)
        for more in ([], [f"{EVALUATION}.prompts.instructions.system=Obey."], [no_grader])
    )
    assert marks(plain) == marks(ungraded)
    asked, other, fewer = (
        next(stage for stage in plan.stages if stage.kind == "evaluate")
        for plan in (plain, prompted, ungraded)
    )
    benchmarks = asked.spec.identity["sampling"]["benchmarks"]
    others = other.spec.identity["sampling"]["benchmarks"]
    assert benchmarks["ifeval"]["prompt"] != others["ifeval"]["prompt"]
    assert "prompt" not in benchmarks["gpqa"]
    untouched = {stage.name for stage in plain.stages if stage.kind != "evaluate"}
    assert {n: m for n, m in marks(prompted).items() if n in untouched}.items() <= marks(
        plain
    ).items()
    graders = asked.target["graders"]
    assert graders["minerva/math-tolerance"] == grader_version("math-tolerance")
    assert "minerva/math-tolerance" not in fewer.target["graders"]
    assert {f"_data/{name}" for name in benchmarks} < untouched, "each is fetched"


@pytest.mark.slow
def test_pass_at_k_of_mazes_is_of_the_simple_path_and_arrivals_stand_beside_it() -> None:
    stage = next(stage for stage in plan_of("maze").stages if stage.kind == "evaluate")
    assert stage.target["graders"] == {"maze": "maze-1", "maze/maze-reached": "maze-reached-1"}


def test_a_plan_says_how_often_training_mazes_repeat() -> None:
    few = [f"experiment.train.task.{name}" for name in ("size=9", "n_train=900")]
    equal, seen = plan_of("maze", *few).warnings
    assert "of the n_train=900 training mazes" in equal and "100,352 of size 9" in equal
    assert "prompts are drawn of n_train=900 training mazes: each is seen" in seen


@pytest.mark.slow
def test_the_stream_of_draws_is_the_training_seed_and_0_for_a_base_model_that_seeds_share() -> None:
    """Of each stage that draws, the stream by the training run that it looks at."""

    def streams(plan: Plan) -> dict[str, int]:
        return {
            stage.source: stage.spec.identity["sampling"]["stream"]
            for stage in plan.stages
            if stage.kind in ("evaluate", "rare") and stage.source is not None
        }

    assert streams(plan_of("smoke", "sweep.grid.seed=[11,12]")) == {
        f"{source}-s{seed}".replace("warmup-", "warmup/"): seed
        for source in ("_warmup", "grpo-n4-g0", "grpo-n4-g1")
        for seed in (11, 12)
    }
    published = streams(plan_of("controls", "experiment=qwen2.5-7b", "sweep.grid.seed=[11,12]"))
    assert {source for source, stream in published.items() if stream == 0} == {"_base/qwen2.5-7b"}
    assert {source[-3:] for source, stream in published.items() if stream == 12} == {"s12"}


def test_the_checkpoints_that_are_evaluated_change_no_training_and_no_evaluation() -> None:
    def evaluated(plan: Plan) -> list[int]:
        (point,) = (p for p in plan_record(plan).points if p.point_id == last.points[0].point_id)
        return [checkpoint.step for checkpoint in point.checkpoints]

    last, every = plan_of("smoke"), plan_of("smoke", "experiment.checkpoints=every")
    assert marks(every).items() > marks(last).items()
    train = last.points[0].train
    steps = [*range(train.save_every, train.steps, train.save_every), train.steps]
    assert evaluated(every) == steps
    two = plan_of("smoke", f"experiment.checkpoints=[{steps[-1]},{steps[0]}]")
    assert evaluated(two) == [steps[0], steps[-1]]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.slow
@given(json_values, json_values)
def test_values_that_differ_have_other_fingerprints_and_the_order_of_keys_is_none(
    one: Any, other: Any
) -> None:
    texts = [json.dumps(value, sort_keys=True) for value in (one, other)]
    assert (fingerprint(one) == fingerprint(other)) == (texts[0] == texts[1])
    assert fingerprint(json.loads(texts[0])) == fingerprint(one)


def test_a_declaration_survives_json() -> None:
    declaration = loaded("groupsize")
    assert from_dict(Declaration, json.loads(json.dumps(to_dict(declaration)))) == declaration


@pytest.mark.slow
def test_the_plan_of_a_staged_sweep_differs_in_where_it_evaluates_and_what_is_asked_for() -> None:
    fixed, staged = (
        plan_record(plan_of("groupsize", RARE, *more)).stages for more in ([], [STAGED])
    )
    for old, new in zip(fixed, staged, strict=True):
        if old.kind != "evaluate":
            assert old == new, "rare answers are of all draws"
            continue
        assert new.fingerprint == old.fingerprint
        assert new.name == old.name.replace("/pass256-", "/staged-")
        design = {"stages": [64, 128, 256, 512, 1024], "enough": 8}
        assert new.target == old.target | {"n_samples": 1024, "design": design}


DESIGN = f"{EVALUATION}.design"
PAPER = f"experiment=qwen2.5-7b evaluation@{EVALUATION}=paper"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "stages_and_enough"),
    [
        (f"{STAGED} {DESIGN}.enough=4", ((64, 128, 256, 512, 1024), 4)),
        (f"{DESIGN}={{stages:[64,512],enough:8}}", ((64, 512), 8)),
        (f"{PAPER} +design@{DESIGN}=staged", ((64, 128, 256, 512, 1024), 8)),
        (f"{STAGED} {DESIGN}=null", None),
    ],
)
def test_a_design_is_a_file_or_a_value_or_left_with_null(
    overrides: str, stages_and_enough: tuple[tuple[int, ...], int] | None
) -> None:
    evaluation = loaded("groupsize", *overrides.split()).experiment.evaluation
    design = evaluation.design
    assert (design and (design.stages, design.enough)) == stages_and_enough
    assert evaluation.n_samples == (design.stages[-1] if design else 1024)


def test_rare_stages_come_last_change_no_other_and_share_a_set_for_every_base_model() -> None:
    without, with_them = plan_of("groupsize"), plan_of("groupsize", RARE)
    assert with_them.stages[: len(without.stages)] == without.stages
    added = with_them.stages[len(without.stages) :]
    assert [stage.kind for stage in added] == ["rare"] * 6 + ["likelihood"] * 30
    sets = {stage.name: stage for stage in added[:6]}
    assert {stage.needs for stage in sets.values()} == {(f"_warmup/s{s}",) for s in range(11, 17)}
    assert len({stage.fingerprint for stage in sets.values()}) == 6
    for stage in added[6:]:
        point, of = stage.needs
        assert point.rsplit("-s")[-1] == sets[of].needs[0].rsplit("/s")[-1]


@pytest.mark.slow
def test_the_rare_set_depends_on_what_makes_it_and_on_no_cell() -> None:
    plain, *others = (
        next(stage.fingerprint for stage in plan.stages if stage.kind == "rare")
        for plan in (
            plan_of("smoke", RARE, *more.split())
            for more in (
                "",
                "sweep.grid.group_size=[8] sweep.family=null",
                "experiment.rare.share=0.02",
                "experiment.train.warmup.steps=400",
                "experiment.train.temperature=0.9",
            )
        )
    )
    assert plain == others[0]
    assert len({plain, *others}) == 4


def test_every_evaluated_checkpoint_is_scored_and_the_plan_says_where() -> None:
    plan = plan_of("smoke", RARE, "experiment.checkpoints=every")
    names = {stage.name for stage in plan.stages if stage.kind == "likelihood"}
    base, *trained = plan_record(plan).points
    scored = [[c.likelihood for c in point.checkpoints] for point in trained]
    assert {name for point in scored for name in point} == names and len(names) == 2 * 2
    assert all(checkpoint.likelihood is None for checkpoint in base.checkpoints)
    without = plan_record(plan_of("smoke")).points
    assert all(checkpoint.likelihood is None for p in without for checkpoint in p.checkpoints)


@pytest.mark.slow
def test_a_published_model_has_one_rare_set_for_all_seeds_from_its_training_data() -> None:
    plan = plan_of("groupsize", "experiment=qwen2.5-7b", RARE)
    (made,) = [stage for stage in plan.stages if stage.kind == "rare"]
    train = plan.declaration.experiment.train
    assert train.engine == "openrlhf"
    assert train.dataset is not None
    assert made.needs == ("_base/qwen2.5-7b", f"_data/{train.dataset.name}")
    assert made.environment == "openrlhf"
    assert made.spec.as_json()["evaluation"]["temperature"] == train.temperature


def test_on_slurm_a_score_waits_for_its_training_and_its_set() -> None:
    numbers = iter(range(1, 20))
    sendings = arrange(
        plan_record(plan_of("smoke", RARE)).stages,
        done=(),
        places={},
        limit=100,
        at_once=8,
        name=lambda kind: f"{kind}-{next(numbers)}",
        now=0.0,
    )
    for job, sending in enumerate(sendings, start=1):
        sending.batch.job_id = str(job)
    assert [(s.batch.kind, s.batch.size, s.dependency()) for s in sendings] == [
        ("warmup", 1, None),
        ("train", 2, "afterok:1"),
        ("evaluate", 1, "afterok:1"),
        ("evaluate", 2, "aftercorr:2"),
        ("rare", 1, "afterok:1"),
        ("likelihood", 1, "afterok:2_0:5"),
        ("likelihood", 1, "afterok:2_1:5"),
        ("report", 1, "afterany:3:4:6:7"),
    ]


def test_a_single_update_a_batch_may_compare_advantages_and_pkpo_may_have_k_1() -> None:
    single = "experiment.train.updates_per_batch=1"
    advantages = plan_of("gamma", single, "sweep.grid.algorithm=[grpo,rloo,nsr]")
    assert len(advantages.points) == 3 * 4 * 3
    assert plan_of("gamma", "sweep.grid.algorithm=[pkpo]", "algorithms.pkpo.parameters.k=1").points


def test_an_advantage_that_reads_log_probabilities_needs_an_engine_that_gives_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading_log_probs = loaded("smoke", "sweep.grid.algorithm=[ds_grpo]")
    make_plan(reading_log_probs)
    monkeypatch.setitem(ENGINES, "embedded", replace(ENGINES["embedded"], gives_log_probs=False))
    with pytest.raises(ValueError, match="engine embedded gives none: exclude that") as refused:
        make_plan(reading_log_probs)
    assert str(refused.value).startswith("ds_grpo-n4-g0-s11 has advantage=ds_grpo")


def test_a_state_across_steps_needs_an_engine_that_keeps_it_and_openrlhf_keeps_none() -> None:
    assert plan_of("smoke", "sweep.grid.algorithm=[curverl]").points
    with pytest.raises(ValueError, match="engine openrlhf keeps none: exclude that") as refused:
        plan_of("gamma", "experiment=qwen2.5-7b", "sweep.grid.algorithm=[curverl]")
    assert "has advantage=curverl, which carries a state from step to step" in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("reward=countdown-partial", "reward=countdown-partial gives others: set .*reward=null"),
        ("overlong_buffer_tokens=4", "overlong_buffer_tokens=4 gives others: set .*tokens=null"),
        ("reward=null", "reward=countdown gives others: set .*reward to a grader of 0 and 1"),
    ],
)
def test_advantages_of_0_and_1_refuse_what_changes_rewards(
    changed: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if changed == "reward=null":
        with_credit = (1, PartialCredit(countdown.grade_partial))
        monkeypatch.setitem(GRADERS, "countdown", with_credit)
    field = f"experiment.train.{changed}"
    plan_of("gamma", "sweep.grid.algorithm=[grpo,rs_grpo]", field)
    for name in ("maxrl", "passk", "psr", "nsr", "w_reinforce", "ds_grpo"):
        defined = f"advantage {name}, whose rewards must be 0 and 1, and {said}"
        with pytest.raises(ValueError, match=defined):
            plan_of("gamma", f"sweep.grid.algorithm=[{name}]", field)


@pytest.mark.parametrize(
    "changed", ["reward=mine:score@0.5", "reward=mine:formatted", "overlong_buffer_tokens=4"]
)
def test_an_advantage_that_divides_by_the_mean_refuses_rewards_that_may_be_below_0(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "from fgrpo_bench.core.problems import Grade\n"
        "def score(response, answer):\n    return -1.0\n"
        "def formatted(response, answer):\n"
        "    reward = 1 if response else -1\n"
        "    return Grade(outcome='correct', extracted=None, reason='', reward=reward)\n"
    )
    coded = "sweep.grid.algorithm=[maxrl_coded]"
    plan_of("gamma", coded, "experiment.train.reward=countdown-partial")
    with pytest.raises(ValueError, match=f"a mean above 0 or be all 0, and {changed} gives"):
        plan_of("gamma", coded, f"experiment.train.{changed}")


def test_a_function_as_a_reward_is_identity_by_its_digest_and_found_by_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text("def score(response, answer):\n    return len(response) / 10\n")
    rewarded = "experiment.train.reward=mine:score@0.5"
    first = plan_of("smoke", rewarded)
    trained = stages(first)["grpo-n4-g0-s11"].spec.as_kind(TrainStageSpec)
    assert trained.reward == f"{tmp_path}::mine:score@0.5" and trained.judge() == trained.reward
    assert stages(plan_of("smoke"))["grpo-n4-g0-s11"].spec.as_kind(TrainStageSpec).judge() is None
    file.write_text("def score(response, answer):\n    return 1.0\n")
    changed = {name for name, mark in marks(plan_of("smoke", rewarded)).items()
               if mark != marks(first)[name]}  # fmt: skip
    assert "grpo-n4-g0-s11" in changed and "_warmup/s11" not in changed
    with pytest.raises(ValueError, match="was changed since this run was planned: put it back"):
        trained.judge()
    file.write_text("def score(response, answer):\n    return None\n")
    with pytest.raises(ValueError, match=r"reward=mine:score@0.5, called with .*returned None"):
        plan_of("smoke", rewarded)


@pytest.mark.slow
def test_mazes_alone_can_be_drawn_under_a_design() -> None:
    staged = [f"+design@{DESIGN}=staged", f"{EVALUATION}.n_samples=1024"]
    plan_of("maze", *staged, f"{EVALUATION}.benchmarks.maze.extra_graders=[]")
