"""Drivers that die at every line they write into the record of submissions, and around sbatch.

The drivers are processes that really end; whoever comes next is the same command, given again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import config, to_dict
from sweeps import REPOSITORY
from sweeps.freeze import run_paths
from sweeps.slurm import submissions
from tests.slurm.cluster import Cluster
from tests.slurm.config import user_name
from tests.slurm.fake_slurm_driver import DIED, kind_of
from tests.slurm.processes import wait_until
from tests.slurm.running import (
    SLURM,
    check_begun_once,
    check_fake,
    check_sent_once,
    fake_settings,
    hold,
    job_at_hold,
)
from tests.support.faults import contents

pytestmark = pytest.mark.usefixtures("cluster")

WRITES = [
    "allow::1",
    *(f"{event}:warmup:1" for event in ("intent", "submitted")),
    *(f"{event}:train:1" for event in ("intent", "submitted")),
    *(f"{event}:evaluate:1" for event in ("intent", "submitted")),
    *(f"{event}:evaluate:2" for event in ("intent", "submitted")),
    *(f"{event}:report:1" for event in ("intent", "submitted")),
    "synced::1",
]
"""All lines of the sweep `smoke` in their order; `synced` may come again."""
QUICK = ["submitted:train:1:before"]
"""The death that CI sees, between sbatch and its line."""
AROUND = ("before", "after")


class Drivers:
    """Drivers of one sweep of fake stages under a root, each a process of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        declaration = config.load("smoke", [f"run_root='{root}'", *SLURM])
        self.paths: RunPaths = run_paths(declaration)
        self.declared = root / "declaration.json"
        write_json(self.declared, to_dict(declaration))

    def run(self, death: str | None = None, *, verb: str = "run", path: str = "") -> int:
        """Exit code; path: folder of programs that stand in for others."""
        command = [sys.executable, "-m", "tests.slurm.fake_slurm_driver", verb]
        environment = os.environ | fake_settings(self.root)
        environment["PATH"] = os.pathsep.join(filter(None, [path, environment["PATH"]]))
        given = [str(self.declared), *([death] if death else [])]
        driver = subprocess.run(
            [*command, *given], cwd=REPOSITORY, env=environment, timeout=240, check=False
        )
        return driver.returncode


@pytest.fixture
def drivers(tmp_path: Path) -> Drivers:
    return Drivers(tmp_path)


def lines(paths: RunPaths) -> list[str]:
    """The lines of the record as WRITES has them."""
    seen: list[str] = []
    for row in read_lines(paths.submissions):
        label = f"{row['event']}:{kind_of(row)}"
        seen.append(f"{label}:{1 + sum(one.rpartition(':')[0] == label for one in seen)}")
    return seen


def check_survived(drivers: Drivers, results: dict[str, str]) -> None:
    """The next driver brings the sweep to its end."""
    assert drivers.run() == 0
    check_fake(drivers.paths)
    check_begun_once(drivers.paths)
    check_sent_once(drivers.paths)
    assert contents(drivers.paths, "**/result.json") == results


@pytest.mark.fault
def test_two_drivers_at_once_never_submit_twice(
    drivers: Drivers, fake_results: dict[str, str]
) -> None:
    with ThreadPoolExecutor(2) as pool:
        codes = [*pool.map(lambda _: drivers.run(), range(2))]
    assert 0 in codes
    check_fake(drivers.paths)
    check_begun_once(drivers.paths)
    check_sent_once(drivers.paths)
    assert contents(drivers.paths, "**/result.json") == fake_results


@pytest.mark.slow
def test_the_lines_at_which_drivers_die_here_are_all_there_are(drivers: Drivers) -> None:
    assert drivers.run() == 0
    found = lines(drivers.paths)
    assert found[: len(WRITES)] == WRITES
    assert {line.split(":")[0] for line in found[len(WRITES) :]} <= {"synced"}


TORN = ("allow::1", "intent:train:1", "submitted:train:1", "synced::1")
DEATHS = [
    *([f"{line}:{moment}"] for line in WRITES for moment in AROUND),
    *([f"{line}:torn"] for line in TORN),
    # The second driver dies while it adopts what the first one sent, or gives up what it did not.
    *(["submitted:train:1:before", f"submitted:train:1:{moment}"] for moment in AROUND),
    *(["intent:train:1:after", f"void:train:1:{moment}"] for moment in AROUND),
]


@pytest.mark.fault
@pytest.mark.parametrize(
    "deaths",
    [pytest.param(one, marks=[] if one == QUICK else pytest.mark.slow) for one in DEATHS],
    ids=",".join,
)
def test_drivers_that_die_at_any_line_or_halfway_through_it_are_made_up_for(
    drivers: Drivers, fake_results: dict[str, str], deaths: list[str]
) -> None:
    for death in deaths:
        assert drivers.run(death) == DIED
    check_survived(drivers, fake_results)


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("moment", AROUND)
def test_a_driver_that_dies_while_it_forgives_a_job_that_never_began_is_made_up_for(
    drivers: Drivers, cluster: Cluster, fake_results: dict[str, str], moment: str
) -> None:
    with cluster.drained():
        assert drivers.run("submitted:report:1:after") == DIED
        cluster.run("scancel", "--state=PENDING", f"--user={user_name()}")
    takes_jobs = ("sbatch", "--test-only", "--wrap=true")  # SLURM needs a moment to see them back
    wait_until(lambda: cluster.answers(*takes_jobs), what="nodes that take jobs")
    assert drivers.run(f"uncount::1:{moment}") == DIED
    assert drivers.run() == 0
    check_fake(drivers.paths)
    check_begun_once(drivers.paths)
    assert contents(drivers.paths, "**/result.json") == fake_results


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("moment", AROUND)
def test_a_cancel_that_dies_leaves_a_sweep_that_can_be_cancelled_or_gone_on_with(
    drivers: Drivers, cluster: Cluster, fake_results: dict[str, str], moment: str
) -> None:
    hold(drivers.root).touch()
    assert drivers.run("submitted:report:1:after") == DIED
    job_at_hold(drivers.paths)
    assert drivers.run(f"hold::1:{moment}", verb="cancel") == DIED
    assert submissions.read(drivers.paths.submissions).held == (moment == "after")
    assert drivers.run(verb="cancel") == 0
    wait_until(lambda: not cluster.squeue(), what="an empty queue")
    hold(drivers.root).unlink()
    assert drivers.run() == 0
    check_fake(drivers.paths)
    assert contents(drivers.paths, "**/result.json") == fake_results


AFTER = '{sbatch} "$@"; kill -KILL $PPID'
BEFORE = 'kill -KILL $PPID; sleep 2; exec {sbatch} "$@"'
SBATCH = """\
#!/bin/sh
case "$*" in *--test-only*) exec {sbatch} "$@";; esac
echo >> {calls}
if [ $(wc -l < {calls}) != {nth} ]; then exec {sbatch} "$@"; fi
{dying}
"""


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize(
    "script", [pytest.param(AFTER, id="after"), pytest.param(BEFORE, id="and-outlived-by-it")]
)
def test_a_driver_that_is_killed_by_its_own_sbatch_is_made_up_for(
    drivers: Drivers, fake_results: dict[str, str], script: str, nth: int
) -> None:
    """Before submitit has put what to run where the jobs look for it."""
    program = drivers.root / "bin" / "sbatch"
    program.parent.mkdir()
    real, calls = shutil.which("sbatch"), program.with_suffix(".calls")
    dying = script.format(sbatch=real)
    program.write_text(SBATCH.format(sbatch=real, calls=calls, nth=nth, dying=dying))
    program.chmod(0o755)
    assert drivers.run(path=str(program.parent)) == -9
    check_survived(drivers, fake_results)
