"""How stages become arrays and what each waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.specs import config
from fgrpo_bench.stages.plan import StageRecord
from sweeps.plan import make_plan, plan_record
from sweeps.slurm.submissions import Place, Sending, arrange, beyond, throttle


def records(seeds: str, sizes: str) -> Sequence[StageRecord]:
    chosen = [f"sweep.grid.seed={seeds}", f"sweep.grid.group_size={sizes}"]
    return plan_record(make_plan(config.load("smoke", chosen))).stages


TWO_SEEDS = records("[1,2]", "[2,4]")


def arranged(
    stages: Sequence[StageRecord],
    *,
    limit: int = 100,
    done: tuple[str, ...] = (),
    places: dict[str, Place] | None = None,
    at_once: int = 8,
) -> list[Sending]:
    count = Counter[str]()

    def name(kind: str) -> str:
        count[kind] += 1
        return f"{kind}-{count[kind]}"

    sendings = arrange(
        stages, done=done, places=places or {}, limit=limit, at_once=at_once, name=name, now=0.0
    )
    for job, sending in enumerate(sendings, start=1):
        sending.batch.job_id = str(job)
    return sendings


def shown(sendings: list[Sending]) -> list[tuple[str, int, str | None]]:
    return [(s.batch.kind, s.batch.size, s.dependency()) for s in sendings]


def test_a_sweep_of_two_seeds_waits_element_by_element() -> None:
    assert shown(arranged(records("[1,2]", "[2,4]"))) == [
        ("warmup", 2, None),
        ("train", 4, "afterok:1_0"),
        ("train", 4, "afterok:1_1"),
        ("evaluate", 2, "aftercorr:1"),
        ("evaluate", 4, "aftercorr:2"),
        ("evaluate", 4, "aftercorr:3"),
        ("report", 1, "afterany:4:5:6"),
    ]


def test_every_checkpoint_waits_for_its_own_training() -> None:
    chosen = [
        "sweep.grid.seed=[1]",
        "sweep.grid.group_size=[2,4,8]",
        "sweep.grid.focal_gamma=[0.0]",
    ]
    every = config.load("smoke", [*chosen, "experiment.checkpoints=every"])
    assert shown(arranged(plan_record(make_plan(every)).stages)) == [
        ("warmup", 1, None),
        ("train", 3, "afterok:1"),
        ("evaluate", 1, "afterok:1"),
        ("evaluate", 3, "aftercorr:2"),
        ("evaluate", 3, "aftercorr:2"),
        ("report", 1, "afterany:3:4:5"),
    ]


def test_arrays_are_cut_at_the_sites_limit() -> None:
    stages = records("[1]", "[2,4,8]")
    assert shown(arranged(stages[1:], limit=4, done=("_warmup/s1",)))[:2] == [
        ("train", 4, None),
        ("train", 2, None),
    ]
    assert shown(arranged(stages, limit=4))[:3] == [
        ("warmup", 1, None),
        ("train", 4, "afterok:1"),
        ("train", 2, "afterok:1"),
    ]


def test_some_of_an_arrays_evaluations_each_wait_for_their_own_training() -> None:
    stages = records("[1]", "[2,4]")
    first = arranged([s for s in stages if s.kind == "train"], done=("_warmup/s1",))
    batch = first[0].batch
    places = {name: Place(batch=batch, index=i) for i, name in enumerate(batch.stages)}
    some = [s for s in stages if s.kind == "evaluate"][1:3]
    batch.job_id = "70"
    sendings = arranged(some, done=("_warmup/s1",), places=places)
    assert shown(sendings)[:2] == [("evaluate", 1, "afterok:70_0"), ("evaluate", 1, "afterok:70_1")]


@given(limit=st.integers(1, 9), n_done=st.integers(0, 20), data=st.data())
def test_every_stage_is_sent_once_after_what_it_needs(
    limit: int, n_done: int, data: st.DataObject
) -> None:
    stages = TWO_SEEDS
    done: set[str] = set()
    for stage in stages[:n_done]:
        if done.issuperset(stage.needs) and data.draw(st.booleans()):
            done.add(stage.name)
    left = [stage for stage in stages if stage.name not in done]
    sendings = arranged(left, limit=limit, done=tuple(done))
    sent = [name for sending in sendings for name in sending.batch.stages]
    assert sorted(sent) == sorted(stage.name for stage in left)
    assert max((sending.batch.size for sending in sendings), default=0) <= limit
    where = {name: s for s in sendings for name in s.batch.stages}
    for stage in left:
        sending = where[stage.name]
        for need in set(stage.needs) - done:
            place = sending.after[0]
            index = sending.batch.stages.index(stage.name)
            if sending.relation == "afterok":
                assert place.batch.stages[place.index] == need
            else:
                assert sending.relation == "aftercorr"
                assert place.batch.stages[index] == need
                assert place.batch.size == sending.batch.size


def test_the_report_does_not_wait_for_a_batch_whose_job_nobody_knows() -> None:
    """Its driver died, so there is no id that sbatch could be given."""
    stages = records("[1]", "[2,4]")
    trained = tuple(s.name for s in stages if s.kind != "evaluate")
    lost, *left = [s for s in stages if s.kind == "evaluate"]
    batch = arranged([lost], done=trained)[0].batch
    batch.name, batch.job_id = "of-a-dead-driver", None
    sendings = arranged(left, done=trained, places={lost.name: Place(batch=batch, index=0)})
    assert shown(sendings)[-1] == ("report", 1, "afterany:1")


@given(st.lists(st.integers(1, 30), max_size=8), st.integers(1, 40))
def test_batches_that_are_sent_together_share_what_may_run_at_once(
    sizes: list[int], at_once: int
) -> None:
    shares = throttle(sizes, at_once)
    assert all(1 <= share <= size for share, size in zip(shares, sizes, strict=True))
    assert sum(shares) <= max(at_once, len(sizes))
    if len(sizes) <= at_once:
        assert sum(shares) == min(at_once, sum(sizes))


def test_a_small_batch_leaves_its_share_to_a_large_one() -> None:
    assert throttle([20, 1], 4) == [3, 1]
    assert throttle([20, 20], 5) == [2, 3]
    assert throttle([20, 20, 20], 2) == [1, 1, 1], "SLURM has no common throttle"


def test_arrays_that_together_run_more_than_was_asked_for_are_warned_of() -> None:
    sendings = arranged(TWO_SEEDS)
    assert [*beyond(sendings, 8)] == []
    small = arranged(records("[1,2,3]", "[2,4]"), limit=2, at_once=1)
    warmup, train, evaluate = beyond(small, 1)
    assert warmup.startswith("warning: 2 warmup jobs may run at once although profile.max_parallel")
    assert train.startswith("warning: 6 train jobs may run at once although profile.max_parallel=1")
    assert "are sent in 6 arrays" in train and "GrpJobs of an account" in train
    assert "evaluate jobs" in evaluate
