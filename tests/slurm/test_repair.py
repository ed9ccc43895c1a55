"""`check --repair` on SLURM: the damaged stage alone is submitted, and comes out as it was."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from sweeps.check.compare import REPORT
from sweeps.check.examine import Examined, examine, repair
from sweeps.slurm import decide, drive, submissions
from tests.slurm.running import POINT, all_done, fake_until, hold, start_fake
from tests.support.fake_stage import fake_command

pytestmark = pytest.mark.usefixtures("cluster")


def look(paths: RunPaths) -> Examined:
    return examine(paths, lambda total: lambda part: None)


def damaged(paths: RunPaths) -> list[str]:
    return [each.name for each in look(paths).damage if each.of != REPORT]


@pytest.mark.fault
def test_a_damaged_result_is_made_again_by_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = start_fake(tmp_path, monkeypatch)
    hold(tmp_path).unlink(missing_ok=True)
    fake_until(paths, all_done)
    assert damaged(paths) == []
    result = paths.point(POINT).folder / "result.json"
    before, sent = result.read_bytes(), set(submissions.read(paths.submissions).batches)
    result.write_bytes(before.replace(b"8", b"9", 1))
    assert damaged(paths) == [f"{POINT}/result.json"]
    monkeypatch.setattr(decide, "GRACE_SECONDS", 0.0)
    run = partial(drive.run, command=fake_command)
    assert repair(look(paths), say=print, run=run) == 0
    fake_until(paths, all_done)
    assert damaged(paths) == [] and result.read_bytes() == before
    history = submissions.read(paths.submissions)
    stages = [
        name for batch in set(history.batches) - sent for name in history.batches[batch].stages
    ]
    assert stages == [POINT]
