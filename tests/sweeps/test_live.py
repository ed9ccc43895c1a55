"""MLflow while runs train: which looks sync what."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.files.journal import append_line
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.tracking import sync
from sweeps import reporting
from sweeps.reporting import SHARE, SYNC_SECONDS, LiveSync
from tests.support.synthetic import SMALL, write_sweep
from tests.support.watched import note


@pytest.fixture
def results(tmp_path: Path) -> SweepResults:
    """A sweep whose first two trained points train, and the others are done."""
    few = ["sweep.grid.seed=[11]", "sweep.grid.group_size=[2,4]", "sweep.family=null"]
    found = write_sweep(tmp_path, overrides=[*SMALL, *few])
    for point in found.points:
        if point.point_id in TRAINING:
            point.train.done.unlink()
            point.evaluate.done.unlink()
    return found


TRAINING = ("grpo-n2-g0-s11", "grpo-n4-g0-s11")


class Clock:
    """Time as the tests want it, and what was synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.calls, self.said = 1000.0, list[Any](), list[str]()
        self.takes, self.knows = 0.0, True
        self.fails: Exception | None = None
        monkeypatch.setattr(reporting.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(sync, "sync_training", self.training)
        monkeypatch.setattr(sync, "sync_run", self.whole)

    def training(self, paths: RunPaths, points: Collection[str]) -> bool:
        self.now += self.takes
        if self.fails is not None:
            raise self.fails
        self.calls.append(sorted(points))
        return self.knows

    def whole(self, paths: RunPaths) -> None:
        self.calls.append("whole")

    def looks(self, looking: LiveSync, *, later: float = SYNC_SECONDS) -> list[Any]:
        self.now += later
        looking.look()
        calls, self.calls = self.calls, []
        return calls


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def grow(stage: StagePaths) -> None:
    append_line(stage.step_rows, {"step": 1})


def test_a_look_syncs_the_runs_that_have_grown_and_no_others(
    results: SweepResults, clock: Clock
) -> None:
    by_name = {point.point_id: point for point in results.points}
    looking = LiveSync(results.paths, clock.said.append)
    assert clock.looks(looking) == [sorted(TRAINING)]
    assert clock.looks(looking) == []
    grow(by_name[TRAINING[1]].train)
    assert clock.looks(looking) == [[TRAINING[1]]]
    assert clock.said == []
    clock.knows = False
    grow(by_name[TRAINING[1]].train)
    assert clock.looks(looking) == [[TRAINING[1]], "whole"], "MLflow does not know the run yet"


def test_looks_between_syncs_do_nothing_and_a_slow_sync_comes_seldom(
    results: SweepResults, clock: Clock
) -> None:
    train = results.points[-1].train
    train.done.unlink()
    clock.takes = 60.0
    looking = LiveSync(results.paths, clock.said.append)
    assert len(clock.looks(looking)) == 1
    grow(train)
    assert clock.looks(looking) == []
    assert clock.looks(looking, later=60.0 * SHARE) == [[results.points[-1].point_id]]
    clock.takes = 0.0
    grow(train)
    looking.look(last=True)
    assert clock.calls == [[results.points[-1].point_id]], "nothing follows that would bring it"


def test_a_run_that_failed_is_synced_though_nothing_grew(
    results: SweepResults, clock: Clock
) -> None:
    looking = LiveSync(results.paths, clock.said.append)
    clock.looks(looking)
    point = results.points[-1]
    note(point.evaluate, outcome="failed")
    assert clock.looks(looking) == [], "its marker stands"
    point.evaluate.done.unlink()
    assert clock.looks(looking) == [[point.point_id]]
    assert clock.looks(looking) == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            ConnectionError("nobody answers at http://127.0.0.1:9"),
            ["warning: MLflow was not synced (ConnectionError: nobody"],
        ),
        (BlockingIOError("a sync of MLflow is already being run"), []),
    ],
)
def test_an_mlflow_that_is_away_costs_a_warning_another_sync_none_and_both_are_tried_again(
    results: SweepResults, clock: Clock, error: Exception, said: list[str]
) -> None:
    clock.fails = error
    looking = LiveSync(results.paths, clock.said.append)
    assert clock.looks(looking) == []
    assert [line[: len(words)] for line, words in zip(clock.said, said, strict=True)] == said
    clock.fails = None
    assert clock.looks(looking) == [sorted(TRAINING)]
