"""The stages of Delta NLL in a plan."""

import pytest

from fgrpo_bench.specs import config
from sweeps.plan import Plan, make_plan, plan_record
from sweeps.slurm.submissions import arrange

ON = "+rare@experiment.rare=paper"


def planned(*overrides: str, sweep: str = "groupsize") -> Plan:
    return make_plan(config.load(sweep, list(overrides)))


def test_they_come_last_and_change_no_other_stage() -> None:
    without, with_them = planned(), planned(ON)
    kinds = [stage.kind for stage in with_them.stages]
    assert with_them.stages[: len(without.stages)] == without.stages
    assert kinds[len(without.stages) :] == ["rare"] * 3 + ["likelihood"] * 21


def test_every_base_model_has_one_set_that_its_points_share() -> None:
    stages = {stage.name: stage for stage in planned(ON).stages}
    sets = {name: stage for name, stage in stages.items() if stage.kind == "rare"}
    assert [stage.needs for stage in sets.values()] == [(f"_warmup/s{s}",) for s in (11, 12, 13)]
    assert len({stage.fingerprint for stage in sets.values()}) == 3
    for stage in stages.values():
        if stage.kind == "likelihood":
            point, of = stage.needs
            assert of in sets
            assert point.rsplit("-s")[-1] == stages[of].needs[0].rsplit("/s")[-1]


def test_the_set_depends_on_what_makes_it_and_on_no_cell() -> None:
    marks = [
        next(stage.fingerprint for stage in planned(*more).stages if stage.kind == "rare")
        for more in (
            [ON],
            [ON, "sweep.grid.group_size=[4]", "sweep.family=null"],
            [ON, "experiment.rare.share=0.02"],
            [ON, "experiment.train.warmup.steps=400"],
            [ON, "experiment.train.temperature=0.9"],
        )
    ]
    assert marks[0] == marks[1]
    assert len(set(marks)) == 4


def test_every_evaluated_checkpoint_is_scored_and_the_plan_says_where() -> None:
    plan = planned(ON, "experiment.checkpoints=every")
    assert sum(stage.kind == "likelihood" for stage in plan.stages) == 21 * 3
    base, *_, last = plan_record(plan).points
    assert all(checkpoint.likelihood is None for checkpoint in base.checkpoints)
    names = {stage.name for stage in plan.stages}
    assert [checkpoint.likelihood in names for checkpoint in last.checkpoints] == [True] * 3
    without = plan_record(planned()).points
    assert all(checkpoint.likelihood is None for p in without for checkpoint in p.checkpoints)


def test_a_published_model_has_one_set_for_all_seeds_from_its_training_data() -> None:
    plan = planned("experiment=qwen2.5-7b", ON)
    (made,) = [stage for stage in plan.stages if stage.kind == "rare"]
    train = config.load("groupsize", ["experiment=qwen2.5-7b"]).experiment.train
    assert train.engine == "openrlhf"
    assert train.dataset is not None
    assert made.needs == ("_base/qwen2.5-7b", f"_data/{train.dataset.name}")
    assert made.environment == "openrlhf"
    assert made.spec.as_json()["evaluation"]["temperature"] == train.temperature


def test_on_slurm_a_score_waits_for_its_training_and_its_set() -> None:
    chosen = ["sweep.grid.seed=[1]", "sweep.grid.group_size=[2,4]", "sweep.family=null"]
    chosen += ["sweep.cells=[]"]
    numbers = iter(range(1, 20))
    sendings = arrange(
        plan_record(planned(ON, *chosen)).stages,
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


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"experiment\.rare\.share"):
        planned(ON, "experiment.rare.share=0.0")
