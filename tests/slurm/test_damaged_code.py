"""Frozen code that loses files or has them changed while jobs wait for it on a real SLURM."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from sweeps.cli import main
from sweeps.slurm import code as snapshot
from sweeps.slurm import tick
from sweeps.slurm.code import damage
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    all_done,
    check_fake,
    fake_until,
    finish_fake,
    hold,
    job_at_hold,
    start_fake,
)
from tests.support.fake_stage import fake_command
from tests.support.faults import contents

pytestmark = pytest.mark.usefixtures("cluster")
FILE = "sweeps/slurm/payload.py"


def lose_a_file(code: Path) -> str:
    (code / FILE).unlink()
    return f"{FILE} is missing"


def only_the_held_point_is_left(paths: RunPaths) -> None:
    """So that no other job is struck between its look at the code and its start."""
    job_at_hold(paths)
    others = len(read_json(paths.plan)["stages"]) - 2
    wait_until(lambda: len([*paths.folder.glob("**/DONE.json")]) == others, what="all others")


def code_of(paths: RunPaths) -> Path:
    (code,) = (path for path in paths.code.iterdir() if path.is_dir())
    return code


def wait_for_a_job_that_says_so(paths: RunPaths) -> None:
    wait_until(lambda: any(paths.folder.glob("slurm/*/*.damaged")), what="a job that finds it")


@pytest.mark.fault
def test_jobs_that_find_their_code_damaged_say_so_and_run_once_it_is_made_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fake_results: dict[str, str],
) -> None:
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    only_the_held_point_is_left(paths)
    words = lose_a_file(code_of(paths))
    hold(tmp_path).unlink()
    wait_for_a_job_that_says_so(paths)
    capsys.readouterr()
    fake_until(paths, all_done)
    said = capsys.readouterr().out
    assert f"the frozen code was damaged ({words}" in said
    assert "): it was made again as it was" in said
    assert ": its code was damaged: " in said
    assert "never started" not in said
    assert damage(code_of(paths)) == {}
    check_fake(paths)
    assert contents(paths, "**/result.json") == fake_results


@pytest.mark.slow
@pytest.mark.fault
def test_where_the_code_cannot_be_made_again_nothing_is_sent_with_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hold(tmp_path).touch()
    paths = start_fake(tmp_path, monkeypatch)
    only_the_held_point_is_left(paths)
    lose_a_file(code_of(paths))
    hold(tmp_path).unlink()
    wait_for_a_job_that_says_so(paths)
    with monkeypatch.context() as patch:
        patch.setattr(tick, "mend", partial(snapshot.mend, repository=tmp_path / "changed"))
        with pytest.raises(ValueError, match=f"{FILE} is missing.* cannot be made again as it was"):
            fake_until(paths, all_done)
    before = paths.submissions.read_bytes()
    assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
    assert f"its code was damaged: {FILE} is missing" in capsys.readouterr().out
    assert paths.submissions.read_bytes() == before
    tick.tick(paths, say=print, command=fake_command)
    finish_fake(paths)
