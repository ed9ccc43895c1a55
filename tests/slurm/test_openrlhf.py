"""Real OpenRLHF on a real SLURM: into its evaluation, over two nodes, and when one of them fails.

The stages run in the environment of `make setup-openrlhf-cpu`; without it these tests fail and say
so. A two-node Ray cluster is one of two slurmd nodes of this host.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import config
from fgrpo_bench.stages.attempts import attempts
from sweeps.freeze import run_paths
from sweeps.slurm import drive, tick
from tests.slurm.cluster import Cluster
from tests.slurm.processes import job_processes, kill, wait_until
from tests.slurm.running import all_done, check_begun_once, logs

pytestmark = [pytest.mark.openrlhf, pytest.mark.usefixtures("cluster")]

SMALL = [
    "profile=slurm",
    "profile.partition=gpu",
    "profile.mem_gb=12",
    "profile.time_minutes=20",
    "sweep.grid.algorithm=[grpo]",
    "experiment.train.warmup.steps=40",
    "experiment.train.eval_every=0",
]
POINT = "grpo-n4-g0.5-s11"
PATIENCE = 600
"""Seconds, on a machine that is busy with other things."""


def start(root: Path, nodes: int = 2, steps: int = 4, gammas: str = "[0.5]") -> RunPaths:
    """Submit the sweep `rehearsal` of one point, or of more with several focal_gamma."""
    chosen = [f"experiment.train.steps={steps}", f"sweep.grid.focal_gamma={gammas}"]
    chosen += [f"run_root='{root}'", f"profile.nodes={nodes}"]
    declaration = config.load("rehearsal", [*SMALL, *chosen])
    assert drive.run(declaration) == 0
    return run_paths(declaration)


def wait_for(paths: RunPaths, condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds; the last lines of the training run's logs where it does not."""
    try:
        wait_until(condition, what=what, within_s=PATIENCE)
    except TimeoutError as error:
        error.add_note("\n".join(log[-3000:] for log in logs(paths.point(POINT))))
        raise


def wait_for_end(cluster: Cluster, paths: RunPaths) -> None:
    """Wait until no job is left, and see that all is done."""
    wait_for(paths, lambda: not cluster.squeue(), "the last job's end")
    decision = tick.tick(paths, say=print)
    assert all_done(decision), (
        decision.standings,
        [log[-3000:] for log in logs(paths.point(POINT))],
    )


def actors(cluster: Cluster) -> dict[str, list[int]]:
    """Process ids of Ray's actors by the node on which SLURM started them."""
    return on_nodes(cluster, lambda line: line.startswith("ray::") and "Actor" in line)


def on_nodes(cluster: Cluster, chosen: Callable[[str], bool]) -> dict[str, list[int]]:
    """Process ids of jobs by node, of those whose command line is chosen."""
    found: dict[str, list[int]] = {}
    for pid in job_processes(cluster.settings.slurm_conf):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
            variables = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if chosen(line):
            node = dict(each.partition("=")[::2] for each in variables).get("SLURMD_NODENAME", "")
            found.setdefault(node, []).append(pid)
    return found


def test_points_go_from_training_into_their_evaluations_with_no_driver(
    tmp_path: Path, cluster: Cluster
) -> None:
    paths = start(tmp_path, nodes=1, steps=2, gammas="[0.0,0.5]")
    wait_for_end(cluster, paths)
    check_begun_once(paths)
    sent = [file.read_text() for file in paths.folder.glob("slurm/*-evaluate-*/*_submission.sh")]
    assert any("--dependency=aftercorr:" in text for text in sent)
    assert (paths.report / "report.md").exists()
    assert read_json(paths.point(POINT).done)["engine"]["engine"] == "openrlhf"


@pytest.mark.parametrize(
    "nodes",
    [
        pytest.param(2, id="over-two-nodes"),
        pytest.param(1, id="on-one-node", marks=pytest.mark.slow),
    ],
)
def test_a_run_saves_when_it_is_told_to_and_goes_on(
    tmp_path: Path, cluster: Cluster, nodes: int
) -> None:
    paths = start(tmp_path, nodes)
    stage = paths.point(POINT)
    rows = stage.step_rows
    wait_for(paths, lambda: bool(list(read_lines(rows))), "a step")
    assert len(actors(cluster)) == nodes
    job = attempts(stage)[-1].job_id
    cluster.run("scancel", "--signal=TERM", job)  # as SLURM sends it: to every process
    wait_for_end(cluster, paths)
    first, second = attempts(stage)
    assert (first.outcome, first.exit_code) == ("stopped", 75)
    assert (second.outcome, second.restarts, second.job_id) == ("done", 1, job)
    assert 1 <= second.from_step < 4
    assert [row["step"] for row in read_lines(rows)] == [1, 2, 3, 4]


@pytest.mark.fault
@pytest.mark.parametrize(
    ("struck", "words"),
    [
        pytest.param(
            "ray.scripts.scripts start", "Ray ended there with exit code -9", id="its-ray"
        ),
        pytest.param("", "Ray lost it without a word", id="all-of-it", marks=pytest.mark.slow),
    ],
)
def test_a_node_that_fails_ends_the_job_with_the_reason(
    tmp_path: Path, cluster: Cluster, struck: str, words: str
) -> None:
    paths = start(tmp_path)
    stage = paths.point(POINT)
    wait_for(paths, lambda: any("Ray runs at" in log for log in logs(stage)), "Ray on all nodes")
    kill(on_nodes(cluster, lambda line: struck in line)["n2"], signal.SIGKILL)
    wait_for(paths, lambda: attempts(stage)[-1].outcome is not None, "the attempt's end")
    note = attempts(stage)[-1]
    assert (note.outcome, note.exit_code) == ("failed", 1)
    assert f"RuntimeError: node n2 failed: {words}" in logs(stage)[-1]
