"""Frozen code that loses files or has them changed while jobs wait for it on a real SLURM."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from sweeps.check import check
from sweeps.cli import main
from sweeps.slurm import drive, submissions
from sweeps.slurm.code import damage
from sweeps.slurm.tick import tick
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    all_done,
    check_fake,
    fake_until,
    hold,
    job_at_hold,
    start_fake,
)
from tests.support.fake_stage import fake_command
from tests.support.faults import contents

pytestmark = pytest.mark.usefixtures("cluster")
FILE = "sweeps/slurm/payload.py"


def lose_a_file(code: Path) -> None:
    (code / FILE).unlink()


def only_the_held_point_is_left(paths: RunPaths) -> None:
    """So that no other job is struck between its look at the code and its start."""
    job_at_hold(paths)
    others = len(read_json(paths.plan)["stages"]) - 2
    wait_until(lambda: len([*paths.folder.glob("**/DONE.json")]) == others, what="all others")


def code_of(paths: RunPaths) -> Path:
    return Path(str(submissions.read(paths.submissions).code))


def wait_for_a_job_that_says_so(paths: RunPaths) -> None:
    wait_until(lambda: any(paths.folder.glob("slurm/*/*.damaged")), what="a job that finds it")


@pytest.mark.fault
def test_nothing_is_sent_with_damaged_code_until_retry_freezes_it_anew(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fake_results: dict[str, str],
) -> None:
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    only_the_held_point_is_left(paths)
    lose_a_file(code_of(paths))
    hold(tmp_path).unlink()
    wait_for_a_job_that_says_so(paths)
    remedy = f"`fgrpo-bench sweep retry smoke run_root={tmp_path}` freezes the code as it is now"
    with pytest.raises(ValueError, match=f"damaged \\({FILE} is missing\\): nothing.*") as said:
        fake_until(paths, all_done)
    assert remedy in str(said.value)
    before = paths.submissions.read_bytes()
    assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert f"its code was damaged: {FILE} is missing" in capsys.readouterr().out
    (fault,) = (fault for fault in check(paths).faults if fault.name.endswith(FILE))
    assert fault.what == "is missing" and fault.remedy == remedy
    assert paths.submissions.read_bytes() == before
    monkeypatch.setattr(drive, "tick", partial(tick, command=fake_command))
    assert main(["retry", "smoke", f"run_root={tmp_path}"]) == 0
    assert "the frozen code was damaged: it is frozen anew in " in capsys.readouterr().out
    fake_until(paths, all_done)
    assert damage(code_of(paths)) == {}
    check_fake(paths)
    assert contents(paths, "**/result.json") == fake_results
