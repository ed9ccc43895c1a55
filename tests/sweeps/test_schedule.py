"""The time that is left of a sweep, and the schedule that estimates set."""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.kinds import Stage
from sweeps import estimate
from sweeps.estimate import assumed_seconds
from sweeps.plan import Plan, make_plan
from sweeps.schedule import in_order, ready, wall_seconds
from tests.support.plans import loaded

RECORDED = json.loads(Path(__file__).with_name("stage-seconds.json").read_text())
"""Processor seconds of every stage of sweeps that were run, by kind and point."""
FRONTIER = json.loads(Path(__file__).with_name("frontier-stages.json").read_text())
"""Of every stage of the sweep frontier as it ran on two processors beside other work: begin, end,
and the wall and processor seconds that its worker counted, by kind, point and step."""
FIRST, EVERY, LAST = 60.0, 30.0, 0.85
"""Seconds until the estimate is looked at, and between looks; the part of a sweep's time after
which it is not: then a single stage is a large share of what is left."""
Spans = Mapping[str, tuple[float, float]]
"""When each stage began and ended, in seconds, by name."""


def played(
    stages: Sequence[Stage],
    seconds: Mapping[str, float],
    workers: int,
    estimated: Mapping[str, float],
) -> Spans:
    """The spans of stages that take so long, as the pool starts them on an idle machine."""
    waiting = in_order(stages, estimated)
    spans: dict[str, tuple[float, float]] = {}
    done: set[str] = set()
    running: list[tuple[float, str]] = []
    clock = 0.0
    while waiting or running:
        for stage in list(islice(ready(waiting, done), workers - len(running))):
            del waiting[stage.name]
            spans[stage.name] = (clock, clock + seconds[stage.name])
            heapq.heappush(running, (spans[stage.name][1], stage.name))
        clock, ended = heapq.heappop(running)
        done.add(ended)
    return spans


def errors(
    plan: Plan,
    spans: Spans,
    workers: int,
    loads: Mapping[str, float] = MappingProxyType({}),
) -> list[float]:
    """How far the estimate was off at each look: 0.1 is 10% too long.

    A worker is taken to know its own end once it may tell (estimate.MIN_MEASURED_SECONDS); the
    report and the sync behind the last stage take the seconds that the estimate says. loads: wall
    over processor seconds, by name.
    """
    begun, end = min(b for b, _ in spans.values()), max(e for _, e in spans.values())
    stages, estimated = plan.stages, assumed_seconds(plan)
    kinds = {stage.name: stage.kind for stage in stages}
    off = []
    for now in np.arange(begun + FIRST, begun + LAST * (end - begun), EVERY).tolist():
        done = sorted((e, name) for name, (_, e) in spans.items() if e <= now)
        names = {name for _, name in done}
        walls = estimate.at_mean_load(
            {n: spans[n][1] - spans[n][0] for _, n in done},
            {n: loads[n] for _, n in done if n in loads},
        )
        measured = [(kinds[n], estimated[n], wall) for n, wall in walls.items()]
        at_work = {
            name: estimate.AtWork(
                elapsed=now - b,
                seconds_remaining=e - now if now - b >= estimate.MIN_MEASURED_SECONDS else None,
            )
            for name, (b, e) in spans.items()
            if b <= now < e
        }
        left = [stage for stage in stages if stage.name not in names]
        told = estimate.remaining_seconds(left, estimated, measured, at_work, workers)
        off.append(told / (end - now + estimate.finish_seconds(len(stages))) - 1)
    return off


def stage(name: str, *needs: str, kind: str = "train") -> Stage:
    return Stage(
        name=name,
        spec=StageSpec(kind=kind, fingerprint="", target={}),
        needs=needs,
        point_id=name,
        environment="base",
    )


@pytest.mark.parametrize("chosen", RECORDED)
def test_a_sweep_takes_what_its_plan_estimates(chosen: str) -> None:
    """On the machine whose seconds are recorded, within a quarter."""
    sweep, *overrides = chosen.split()
    estimated = sum(assumed_seconds(make_plan(loaded(sweep, *overrides))).values())
    assert estimated == pytest.approx(sum(RECORDED[chosen].values()), rel=0.25)


def test_constant_prompts_make_large_groups_dear() -> None:
    seconds = assumed_seconds(make_plan(loaded("groupsize", "experiment=countdown-prompts")))
    assert seconds["grpo-n32-g0-s11"] > 5 * seconds["grpo-n2-g0-s11"]


def test_calibration_takes_the_median_so_that_an_interrupted_stage_does_not_count() -> None:
    measured = [("train", 10.0, 20.0), ("train", 10.0, 21.0), ("train", 10.0, 0.5)]
    factors = estimate.calibration(measured)
    assert factors == {"train": 2.0}
    assert estimate.kind_factor("train", factors) == 2.0
    assert estimate.kind_factor("evaluate", factors) == 2.0
    assert estimate.kind_factor("evaluate", {}) == 1.0


def test_warm_ups_go_first_and_then_the_longest() -> None:
    stages = [stage("short"), stage("long"), stage("base", kind="warmup")]
    assert list(in_order(stages, {"short": 1, "long": 9, "base": 2})) == ["base", "long", "short"]


def test_only_stages_whose_needs_are_done_are_ready() -> None:
    waiting = {each.name: each for each in (stage("a"), stage("b", "a"), stage("c", "a", "b"))}
    assert [each.name for each in ready(waiting, set())] == ["a"]
    assert [each.name for each in ready(waiting, {"a"})] == ["a", "b"]


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(1, 9), st.sets(st.integers(0, 19))), max_size=20),
    st.integers(1, 5),
)
def test_wall_time_is_that_of_asking_at_every_end_what_is_ready(
    drawn: list[tuple[int, set[int]]], workers: int
) -> None:
    stages = [
        stage(str(i), *(str(need) for need in sorted(needs) if need < i))
        for i, (_, needs) in enumerate(drawn)
    ]
    seconds = {str(i): float(length) for i, (length, _) in enumerate(drawn)}
    ends = [end for _, end in played(stages, seconds, workers, estimated=seconds).values()]
    assert wall_seconds(stages, seconds, workers) == max(ends, default=0.0)
    assert wall_seconds([stage("c", "b")], {"c": 1.0}, workers) == 1, "what is not asked is done"


@pytest.mark.parametrize("chosen", RECORDED)
@pytest.mark.parametrize(("workers", "slower"), [(2, 3.0), (4, 1.0)])
def test_the_time_left_is_within_a_quarter_from_the_first_minute_on(
    chosen: str, workers: int, slower: float
) -> None:
    sweep, *overrides = chosen.split()
    plan = make_plan(loaded(sweep, *overrides))
    seconds = {s.name: RECORDED[chosen][f"{s.kind} {s.point_id}"] * slower for s in plan.stages}
    off = errors(plan, played(plan.stages, seconds, workers, assumed_seconds(plan)), workers)
    assert max(map(abs, off)) <= 0.25, off


@pytest.mark.slow
def test_the_time_left_holds_on_a_long_sweep_quiet_or_beside_other_work() -> None:
    plan = make_plan(loaded("frontier"))
    rows = {s.name: FRONTIER[f"{s.kind} {s.point_id} {s.step}"] for s in plan.stages}
    assert len(rows) == len(FRONTIER)
    processor = {name: seconds for name, (*_, seconds) in rows.items()}
    off = errors(plan, played(plan.stages, processor, 2, assumed_seconds(plan)), 2)
    assert max(map(abs, off)) <= 0.25, off
    spans = {name: (begun, end) for name, (begun, end, *_) in rows.items()}
    loads = {name: wall / seconds for name, (_, _, wall, seconds) in rows.items()}
    assert max(loads.values()) > 1.8 * min(loads.values()), "what else the machine did varied"
    # At first only warm-ups tell of the load, which then doubled.
    _, _, _, *off = errors(plan, spans, 2, loads)
    assert max(map(abs, off)) <= 0.27, off


def test_what_a_worker_says_of_itself_counts_before_any_stage_is_done() -> None:
    stages = [stage("a"), stage("b"), stage("c")]
    estimated = dict.fromkeys("abc", 10.0)
    quiet = {"a": estimate.AtWork(elapsed=20.0, seconds_remaining=None)}
    told = {"a": estimate.AtWork(elapsed=20.0, seconds_remaining=80.0)}
    after = estimate.finish_seconds(3)
    assert estimate.remaining_seconds(stages, estimated, [], quiet, 1) == 1 + 10 + 10 + after
    assert estimate.remaining_seconds(stages, estimated, [], told, 1) == 80 + 100 + 100 + after
    early = {"a": estimate.AtWork(elapsed=1.0, seconds_remaining=80.0)}
    assert estimate.remaining_seconds(stages, estimated, [], early, 1) == 80 + 10 + 10 + after


@pytest.mark.parametrize("chosen", RECORDED)
def test_a_first_evaluation_beside_other_work_does_not_spoil_the_time_left(chosen: str) -> None:
    sweep, *overrides = chosen.split()
    plan = make_plan(loaded(sweep, *overrides))
    seconds = {s.name: RECORDED[chosen][f"{s.kind} {s.point_id}"] for s in plan.stages}
    loads = dict.fromkeys(seconds, 1.02)
    first = next(s.name for s in plan.stages if s.kind == "evaluate" and s.step == 0)
    seconds[first], loads[first] = 2 * seconds[first], 2 * loads[first]
    off = errors(plan, played(plan.stages, seconds, 2, assumed_seconds(plan)), 2, loads)
    assert max(map(abs, off)) <= 0.25, off


def test_walls_are_those_of_the_mean_load() -> None:
    walls = {"first": 40.0, "other": 7.0} | {str(i): 10.0 for i in range(6)}
    assert estimate.at_mean_load(walls, {}) == walls
    loads = {"first": 2.0} | {str(i): 1.0 for i in range(6)}
    assert estimate.at_mean_load(walls, loads) == {
        "first": 25.0,
        "other": 7.0,
        **{str(i): 12.5 for i in range(6)},
    }
