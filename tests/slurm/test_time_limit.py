"""SLURM's own warning ahead of a time limit, which comes when its clock next looks (every 30 s)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.stages.attempts import attempts
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    POINT,
    all_done,
    check_fake,
    fake_until,
    hold,
    job_at_hold,
    start_fake,
)
from tests.support.faults import contents

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]
LIMIT = ["profile.time_minutes=1", "profile.signal_seconds=50"]


@pytest.mark.fault
def test_a_stage_that_is_warned_of_its_time_limit_saves_and_goes_on_in_the_same_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_results: dict[str, str]
) -> None:
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch, *LIMIT)
    job, stage = job_at_hold(paths), paths.point(POINT)
    wait_until(lambda: attempts(stage)[0].outcome is not None, what="the warning")
    hold(tmp_path).unlink()
    fake_until(paths, all_done)
    check_fake(paths)
    assert contents(paths, "**/result.json") == fake_results
    assert [(note.job_id, note.outcome) for note in attempts(stage)] == [
        (job, "stopped"),
        (job, "done"),
    ]
