"""What would be sent, to the letter, and what is said where nothing can be."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.specs import config
from sweeps.cli import main
from sweeps.freeze import run_paths
from sweeps.plan import make_plan
from sweeps.slurm import drive
from sweeps.slurm.code import code_folder
from tests.support.slurm_programs import Programs, link_programs

GOLDEN = Path(__file__).parents[1] / "golden" / "sbatch.txt"
CHOSEN = [
    "profile=slurm",
    "profile.partition=gpu",
    "profile.account=lab",
    "profile.qos=long",
    "profile.constraint=a100",
    "profile.exclude='n[1-2]'",
    "profile.gpus_per_node=1",
    "profile.device=cuda",
    "profile.setup=[module load cuda]",
    "profile.max_parallel=8",
    "profile.max_array_size=100",
    "+profile.additional_parameters.reservation=spring",
    "sweep.grid.seed=[11,12]",
]


@pytest.fixture
def no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    link_programs(programs, "git")
    monkeypatch.setenv("PATH", str(programs))


@pytest.mark.usefixtures("no_slurm")
def test_a_dry_run_prints_the_files_and_writes_nothing(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    plan = make_plan(config.load("smoke", [f"run_root='{root}'", *CHOSEN]))
    paths = run_paths(plan.declaration)
    said = "\n".join(drive.dry_run(plan, paths, limit=1001))
    said = said.replace(str(code_folder(paths.code)), "CODE").replace(str(root), "ROOT")
    assert said.replace(sys.executable, "PYTHON") == GOLDEN.read_text()
    assert not root.exists()


@pytest.mark.usefixtures("no_slurm")
def test_openrlhf_trains_with_a_task_on_each_node_and_all_else_takes_one(tmp_path: Path) -> None:
    chosen = ["profile=slurm-multinode", f"run_root='{tmp_path}'"]
    plan = make_plan(config.load("rehearsal", chosen))
    for text in drive.dry_run(plan, run_paths(plan.declaration), limit=1001):
        nodes = 2 if "--job-name=rehearsal-train-" in text else 1
        assert f"#SBATCH --nodes={nodes}\n" in text
        assert "#SBATCH --ntasks-per-node=1\n" in text
        assert f" --export=ALL --nodes={nodes} --ntasks={nodes} --cpus-per-task=" in text
        assert ("--ntasks-per-node=1 --wait=60 " in text) == (nodes == 2)


@pytest.mark.usefixtures("no_slurm")
def test_a_dry_run_shows_what_is_sent_once_the_files_are_fetched(tmp_path: Path) -> None:
    chosen = ["profile=slurm-8gpu", "experiment=qwen2.5-7b", f"run_root='{tmp_path}'"]
    plan = make_plan(config.load("groupsize", chosen))
    texts = drive.dry_run(plan, run_paths(plan.declaration), limit=1001)
    kinds = ["train", "evaluate", "evaluate", "report"]
    assert [f"-{kind}-" in text for kind, text in zip(kinds, texts, strict=True)] == [True] * 4


NO_ANSWER = "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1"


@pytest.mark.parametrize("controller", [None, NO_ANSWER], ids=["none", "down"])
def test_without_a_cluster_that_is_said_before_anything_is_planned_or_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
    controller: str | None,
) -> None:
    if controller is None:
        request.getfixturevalue("no_slurm")
        words = "there is no `s[a-z]+` in PATH; log in to a machine"
    else:
        Programs(tmp_path / "programs", monkeypatch).install("scontrol", controller)
        words = "`scontrol` cannot reach SLURM: Unable to contact slurm controller"
    root = tmp_path / "runs"
    run = ["run", "smoke", "profile=slurm", f"run_root={root}"]
    assert main([*run, "--dry-run"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert re.match(
        f"note: no cluster was asked about what follows, and `run` needs one.*{words}", first
    )
    assert "submitit" in last or "srun" in last
    monkeypatch.setattr(drive, "plan_over", None)
    assert main(run) == 2
    assert re.search(words, capsys.readouterr().err)
    assert not root.exists()


def test_the_commands_for_slurm_refuse_a_sweep_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sweeps.freeze import freeze

    plan = make_plan(config.load("smoke", [f"run_root='{tmp_path}'"]))
    freeze(run_paths(plan.declaration), plan, nothing_to_run=False)
    for command in ("tick", "follow", "retry"):
        assert main([command, "smoke", f"run_root={tmp_path}"]) == 2
        assert "was last run with profile=local" in capsys.readouterr().err


def test_a_setup_line_that_fails_ends_the_job_and_is_its_last_word(tmp_path: Path) -> None:
    lines = ["'A=1  # kept'", "'false || true'", "'(exit 3)'", "'echo never'"]
    chosen = ["profile=slurm", f"run_root='{tmp_path}'", f"profile.setup=[{','.join(lines)}]"]
    plan = make_plan(config.load("smoke", chosen))
    text = drive.dry_run(plan, run_paths(plan.declaration), limit=1001)[0]
    setup = text[text.index("# setup") : text.index("said=$(cd")]
    done = subprocess.run(["bash", "-c", f"{setup}echo $A"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "profile.setup: this line failed: (exit 3)\n")
    kept = setup.replace("(exit 3)", "(exit 0)")
    done = subprocess.run(["bash", "-c", f"{kept}echo $A"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "never\n1\n")
