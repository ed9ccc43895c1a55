"""Drivers that die at every line they write into the record of submissions, and around sbatch.

In this process a death is an exception that nothing catches, and SLURM a queue that remembers;
whoever comes next is the same command, given again. On the real cluster drivers are killed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs import config, to_dict
from sweeps import REPOSITORY
from sweeps.freeze import run_paths
from sweeps.slurm import drive, submissions, tick
from sweeps.slurm.code import freeze_code
from sweeps.slurm.packing import is_packed
from tests.slurm.running import (
    SLURM,
    check_begun_once,
    check_fake,
    check_sent_once,
    fake_settings,
)
from tests.support.faults import contents
from tests.support.sent import Queue, submitted

LINES = [
    "allow",
    *(
        f"{event}:{kind}"
        for kind in ("warmup", "train", "evaluate", "report")
        for event in ("intent", "submitted")
    ),
]
"""Events and kinds of batches in the record of the sweep `smoke`; evaluations come twice."""
MOMENTS = ("before", "torn", "after")


class Died(BaseException):
    """The driver's process has ended."""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code, frozen once."""
    return freeze_code(tmp_path_factory.mktemp("code"))


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch, code: Path) -> Callable[..., None]:
    """dying(line, moment, command): the command dies at the first line of this event and kind,
    before it is written, after half of it, or after all of it."""

    def die(label: str, moment: str, command: Callable[[], object]) -> None:
        append = submissions.append

        def fatal(path: Path, line: submissions.Event) -> None:
            if label not in (line.event, f"{line.event}:{kind_of(line)}"):
                return append(path, line)
            if moment == "torn":
                text = json.dumps(submissions.as_row(line))
                with path.open("a") as file:
                    file.write(text[: len(text) // 2])
            elif moment == "after":
                append(path, line)
            raise Died

        with monkeypatch.context() as patch, pytest.raises(Died):
            patch.setattr(submissions, "append", fatal)
            command()

    monkeypatch.setattr(tick, "ORPHAN_SECONDS", 0.0)
    monkeypatch.setattr(drive, "freeze_code", lambda folder: code)
    return die


def kind_of(line: submissions.Event) -> str:
    return submissions.batch_kind(str(getattr(line, "batch", "")))


def check_whole(paths: RunPaths, queue: Queue) -> None:
    """Each stage is in one job that waits, with what it runs."""
    batches, queued = submissions.read(paths.submissions).batches, queue.active()
    held = {job.name: batches[job.name] for job in queued}
    assert not any(batch.void for batch in held.values())
    stages = sorted(name for batch in held.values() for name in batch.stages)
    assert stages == sorted(stage["name"] for stage in read_json(paths.plan)["stages"])
    assert len(queued) == sum(batch.size for batch in held.values())
    assert all(is_packed(paths.batch(job.name), job.job_id) for job in queued)


def at_all_moments(line: str) -> list[list[str]]:
    return [[f"{line}@{moment}"] for moment in MOMENTS]


DEATHS = [
    *(death for line in LINES for death in at_all_moments(line)),
    # The second driver dies while it adopts what the first one sent, or gives up what it did not.
    *(["submitted:train@before", *death] for death in at_all_moments("submitted:train")),
    *(["intent:train@after", *death] for death in at_all_moments("void:train")),
]


@pytest.mark.fault
@pytest.mark.parametrize("deaths", DEATHS, ids=",".join)
def test_drivers_that_die_at_any_line_or_halfway_through_it_are_made_up_for(
    tmp_path: Path, dying: Callable[..., None], deaths: list[str]
) -> None:
    queue = Queue()
    for death in deaths:
        line, _, moment = death.partition("@")
        dying(line, moment, lambda: submitted(tmp_path, call=queue))
    paths = submitted(tmp_path, call=queue)
    check_whole(paths, queue)
    check_sent_once(paths)


@pytest.mark.fault
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_driver_that_dies_while_it_forgives_jobs_that_never_began_is_made_up_for(
    tmp_path: Path, dying: Callable[..., None], moment: str
) -> None:
    queue = Queue()
    paths = submitted(tmp_path, call=queue)
    for job in queue.active():
        queue.change(job.job_id, state="CANCELLED")
    dying("uncount", moment, lambda: tick.tick(paths, say=print, call=queue))
    tick.tick(paths, say=print, call=queue)
    check_whole(paths, queue)
    assert set(submissions.read(paths.submissions).attempts.values()) == {1}


@pytest.mark.fault
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_cancel_that_dies_leaves_a_sweep_that_can_be_cancelled_or_resumed(
    tmp_path: Path, dying: Callable[..., None], moment: str
) -> None:
    queue = Queue()
    paths = submitted(tmp_path, call=queue)
    dying("hold", moment, lambda: drive.cancel(paths, call=queue))
    assert submissions.read(paths.submissions).held == (moment == "after")
    assert drive.cancel(paths, call=queue) == 0
    assert queue.active() == []
    check_whole(submitted(tmp_path, call=queue), queue)


class Drivers:
    """Drivers of one sweep of fake stages under a root, each a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        declaration = config.load("smoke", [f"run_root='{root}'", *SLURM])
        self.paths: RunPaths = run_paths(declaration)
        self.declared = root / "declaration.json"
        write_json(self.declared, to_dict(declaration))

    def run(self, *, path: str = "") -> int:
        """Exit code; path: folder of programs that stand in for others."""
        environment = os.environ | fake_settings(self.root)
        environment["PATH"] = os.pathsep.join(filter(None, [path, environment["PATH"]]))
        driver = subprocess.run(
            [sys.executable, "-m", "tests.slurm.fake_slurm_driver", str(self.declared)],
            cwd=REPOSITORY,
            env=environment,
            timeout=240,
            check=False,
        )
        return driver.returncode

    def check(self, results: dict[str, str]) -> None:
        """Every stage is done by one job, with the results of a sweep that nothing befell."""
        check_fake(self.paths)
        check_begun_once(self.paths)
        check_sent_once(self.paths)
        assert contents(self.paths, "**/result.json") == results


@pytest.mark.fault
@pytest.mark.usefixtures("cluster")
def test_two_drivers_at_once_never_submit_twice(
    tmp_path: Path, fake_results: dict[str, str]
) -> None:
    drivers = Drivers(tmp_path)
    with ThreadPoolExecutor(2) as pool:
        codes = [*pool.map(lambda _: drivers.run(), range(2))]
    assert 0 in codes
    drivers.check(fake_results)


OUTLIVED = """\
#!/bin/sh
case "$*" in *--test-only*) exec {sbatch} "$@";; esac
echo >> {calls}
if [ $(wc -l < {calls}) != 2 ]; then exec {sbatch} "$@"; fi
kill -KILL $PPID; sleep 2; exec {sbatch} "$@"
"""


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.usefixtures("cluster")
def test_a_driver_that_is_killed_and_outlived_by_its_sbatch_is_made_up_for(
    tmp_path: Path, fake_results: dict[str, str]
) -> None:
    """Before what to run has been put where the jobs look for it."""
    drivers = Drivers(tmp_path)
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(
        OUTLIVED.format(sbatch=shutil.which("sbatch"), calls=program.with_suffix(".calls"))
    )
    program.chmod(0o755)
    assert drivers.run(path=str(program.parent)) == -9
    assert drivers.run() == 0
    drivers.check(fake_results)
