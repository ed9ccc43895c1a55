"""What the stage tells of a driver at work."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.analysis.results import metrics_so_far
from fgrpo_bench.engines.openrlhf import stage
from fgrpo_bench.engines.openrlhf.__main__ import offload_threads
from fgrpo_bench.engines.openrlhf.metrics import Sampled, Totals, step_row
from fgrpo_bench.files.journal import append_line
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.stages.states import read_progress
from tests.support.plans import loaded

STATUS = {
    "rollout/reward_mean": 0.25,
    "entropy": 0.5,
    "clip_fraction": 0.01,
    "rollout_kl": 0.002,
    "timing/generation": 1.5,
    "timing/ppo_train": 0.5,
    "learning_rates": [1e-6, 1e-6],
}
"""What OpenRLHF logs of a step, with what our policy actor adds."""
DRIVER = """
import sys, time
from pathlib import Path
rows, target = Path(sys.argv[1]).read_text().splitlines(), Path(sys.argv[2])
for row in rows:
    with target.open("a") as file:
        file.write(row + "\\n")
time.sleep(1)
"""


def write_rows(path: Path) -> None:
    """Three steps of two groups of two, one of them active, one rollout cut off."""
    before = Totals(rollouts=0, tokens=0)
    for step in (1, 2, 3):
        sampled = [
            Sampled(
                correct=correct,
                unscored=False,
                tokens=100,
                truncated=cut,
                response=0,
                solution=None,
            )
            for correct, cut in ((True, False), (False, True), (False, False), (False, False))
        ]
        row = step_row(
            step=step,
            status=STATUS,
            sampled=sampled,
            taught_rates=[0.5],
            group_size=2,
            focal_gamma=0.5,
            gpus=8,
            before=before,
        )
        append_line(path, row)
        before = Totals(rollouts=row["rollouts"], tokens=row["tokens"])


@pytest.mark.slow
def test_rows_of_a_driver_become_the_numbers_that_are_watched(tmp_path: Path) -> None:
    paths, made = StagePaths(tmp_path / "stage"), tmp_path / "rows.jsonl"
    write_rows(made)
    paths.step_rows.parent.mkdir(parents=True)
    command = [sys.executable, "-c", DRIVER, str(made), str(paths.step_rows)]
    assert stage.follow(command, StageRun(paths), paths.step_rows, steps=3) == 0
    progress = read_progress(paths)
    assert (progress.step, progress.of) == (3, 3)
    assert progress.numbers == {
        "reward": 0.25,
        "active_fraction": 0.5,
        "clip_fraction": 0.01,
        "entropy": 0.5,
        "rollout_kl": 0.002,
        "truncated_fraction": 0.25,
        "tokens_per_second": pytest.approx(200.0),
    }
    assert metrics_so_far(paths)["tokens"].to_list() == [400, 800, 1200]


def test_an_optimizer_on_processors_gets_its_ranks_share_of_them() -> None:
    placement = loaded("rehearsal").profile.placement
    job = {"SLURM_CPUS_PER_TASK": "64"}
    for ranks, processors, environment, threads in (
        (8, 128, {}, 16),
        (8, 128, job, 8),  # the node is open, the job's share is not
        (1, 12, job, 12),  # bound to fewer
        (8, 4, {}, 1),
    ):
        of_ranks = replace(placement, actor_gpus_per_node=ranks)
        assert offload_threads(of_ranks, environment, processors=processors) == threads
