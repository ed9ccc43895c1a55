"""A sweep that the version before sent, on a cluster that has forgotten it, followed to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.stages.attempts import attempts
from fgrpo_bench.stages.paths import RunPaths
from sweeps.slurm import drive
from tests.slurm.cluster import Cluster
from tests.slurm.processes import wait_until
from tests.slurm.running import check_complete
from tests.support.former import unpacked


@pytest.fixture
def paths(cluster: Cluster, tmp_path: Path) -> RunPaths:
    return unpacked("slurm", tmp_path)


def test_it_is_followed_to_its_end_with_its_own_code(paths: RunPaths, cluster: Cluster) -> None:
    plan = paths.plan.read_bytes()
    done = paths.point("grpo-n4-g0-s11").done.read_bytes()
    with pytest.raises(ValueError, match=r"passk\.parquet has columns .* by another version; move"):
        drive.follow(paths, seconds=0.5)  # its results are not read any more, and all are there
    check_complete(paths)
    assert paths.plan.read_bytes() == plan, "what was stored is compared, and nothing made anew"
    assert paths.point("grpo-n4-g0-s11").done.read_bytes() == done
    notes = attempts(paths.point("grpo-n4-g1-s11"))
    assert notes[-1]["outcome"] == "done"
    wait_until(lambda: not cluster.squeue(), what="the last job's end")
