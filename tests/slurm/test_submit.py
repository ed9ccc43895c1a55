"""What would be sent, to the letter, and what is said where nothing can be."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.runs import address
from fgrpo_bench.specs import config
from fgrpo_bench.stages.locks import is_locked
from fgrpo_bench.stages.paths import RunPaths
from sweeps.cli import main
from sweeps.freeze import run_paths
from sweeps.plan import make_plan
from sweeps.slurm import drive, dry, scheduler, submissions, tick
from sweeps.slurm.code import code_folder
from sweeps.slurm.scheduler import Call
from tests.slurm.running import POINT
from tests.support.programs import link_programs
from tests.support.slurm_programs import CONFIG, SBATCH, Programs

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
    said = "\n".join(dry.dry_run(plan, paths, limit=1001))
    said = said.replace(str(code_folder(paths.code)), "CODE").replace(str(root), "ROOT")
    assert said.replace(sys.executable, "PYTHON") == GOLDEN.read_text()
    assert not root.exists()


@pytest.mark.usefixtures("no_slurm")
def test_openrlhf_trains_with_a_task_on_each_node_and_all_else_takes_one(tmp_path: Path) -> None:
    chosen = ["profile=slurm-multinode", f"run_root='{tmp_path}'"]
    plan = make_plan(config.load("rehearsal", chosen))
    for text in dry.dry_run(plan, run_paths(plan.declaration), limit=1001):
        nodes = 2 if "--job-name=rehearsal-train-" in text else 1
        assert f"#SBATCH --nodes={nodes}\n" in text
        assert "#SBATCH --ntasks-per-node=1\n" in text
        assert f" --nodes={nodes} --ntasks={nodes} --cpus-per-task=" in text
        assert ("--ntasks-per-node=1 --wait=60 " in text) == (nodes == 2)


@pytest.mark.usefixtures("no_slurm")
def test_a_dry_run_shows_what_is_sent_once_the_files_are_fetched(tmp_path: Path) -> None:
    chosen = ["profile=slurm-8gpu", "experiment=qwen2.5-7b", f"run_root='{tmp_path}'"]
    plan = make_plan(config.load("groupsize", chosen))
    texts = dry.dry_run(plan, run_paths(plan.declaration), limit=1001)
    kinds = ["train", "evaluate", "evaluate", "report"]
    assert [f"-{kind}-" in text for kind, text in zip(kinds, texts, strict=True)] == [True] * 4


NO_ANSWER = "echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1"
HANGS = 'case "$*" in *--test-only*) exit 0;; esac; exec sleep 600'


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


def submitted(
    root: Path, *overrides: str, say: Callable[[str], None] = print, call: Call = scheduler.call
) -> RunPaths:
    declaration = config.load("smoke", [f"run_root='{root}'", "profile=slurm", *overrides])
    assert drive.run(declaration, say=say, call=call) == 0
    return run_paths(declaration)


def test_an_sbatch_that_hangs_is_given_up_and_what_slurm_has_of_it_is_found_out_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    programs.install("sbatch", HANGS)

    def call(command: list[str]) -> str:
        with monkeypatch.context() as patch:
            if command[0] == "sbatch" and "--test-only" not in command:
                patch.setattr(scheduler, "CALL_SECONDS", 1.0)
            return scheduler.call(command)

    words = "`sbatch` gave no answer in 1 s.* Whether SLURM has the warmup jobs is not known yet"
    with pytest.raises(ConnectionError, match=words):
        submitted(tmp_path, call=call)
    assert "waiting for `sbatch`, 1 s at most" in capsys.readouterr().err
    paths = run_paths(config.load("smoke", [f"run_root='{tmp_path}'"]))
    assert not is_locked(paths.driver_lock)
    (unknown,) = submissions.read(paths.submissions).batches
    queue = f"echo '7|{unknown}|PENDING||0:00|N/A|Priority'"  # sbatch had sent it before it hung
    programs.install("squeue", queue)
    programs.install("sbatch", SBATCH.format(calls=programs.folder / "calls", folder=tmp_path))
    tick.tick(paths, say=print, clock=lambda: time.time() + 100)
    assert "scancel 7" in programs.calls()
    first, *others = submissions.read(paths.submissions).batches.values()
    assert first.name == unknown and first.void
    assert [batch.kind for batch in others] == ["warmup", "train", "evaluate", "evaluate", "report"]


@pytest.mark.parametrize("others", [[], ["version=v2"]], ids=["alone", "beside-another-version"])
def test_the_commands_that_a_run_names_work_as_they_are_printed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    others: list[str],
) -> None:
    Programs(tmp_path / "bin", monkeypatch)
    root = tmp_path / "my runs"
    for override in others:
        submitted(root, override)
    capsys.readouterr()
    submitted(root)
    status, follow = re.findall("`python -m sweeps ([^`]+)`", capsys.readouterr().out)
    assert follow == status.replace("status", "follow", 1)
    assert ("version=v1" in status) == bool(others)
    assert main(shlex.split(status)) == 0
    assert str(root / "smoke/countdown-tiny/v1") in capsys.readouterr().out
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(root))
    paths = RunPaths(root=root, sweep="smoke", experiment="countdown-tiny", version="v1")
    assert address(paths) == status.removeprefix("status ").rpartition(" 'run_root=")[0]


def test_retry_says_that_there_is_nothing_to_retry_and_takes_a_point_as_logs_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    paths = submitted(tmp_path)
    batches = submissions.read(paths.submissions).batches.values()
    rows = [
        f"{batch.element(index)}|{batch.name}|{state}|n1|0:10|N/A|{reason}"
        for batch in batches
        for state, reason in [
            ("PENDING", "Dependency") if batch.kind == "evaluate" else ("RUNNING", "None")
        ]
        for index in range(batch.size)
    ]
    programs.install("squeue", f"cat <<'END'\n{chr(10).join(rows)}\nEND")
    for words in ([POINT], ["--point", POINT]):
        capsys.readouterr()
        assert main(["retry", "smoke", *words, f"run_root={tmp_path}"]) == 0
        said = capsys.readouterr().out
        assert said == f"{POINT}: 2 active (Dependency 1); nothing to retry\n"
    assert main(["retry", "smoke", "nope", f"run_root={tmp_path}"]) == 2
    assert "unknown point 'nope': there are base-s11, " in capsys.readouterr().err
    assert len(submissions.read(paths.submissions).batches) == len(batches)


def test_a_run_on_another_cluster_changes_no_plan_until_the_sweep_is_cancelled_at_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = Programs(tmp_path / "bin", monkeypatch)
    paths = submitted(tmp_path)
    kept = (paths.plan, paths.sweep_json, paths.submissions)
    before, sent = [path.read_bytes() for path in kept], programs.elements()
    programs.install("scontrol", CONFIG.replace("near", "far"))
    with pytest.raises(ValueError, match=r"this is cluster far, and 6 stages .* cluster near"):
        submitted(tmp_path, "sweep.grid.seed=[11,12]")
    assert [path.read_bytes() for path in kept] == before
    assert programs.elements() == sent
    programs.install("scontrol", CONFIG)
    drive.cancel(paths)
    programs.install("scontrol", CONFIG.replace("near", "far"))
    submitted(tmp_path, "sweep.grid.seed=[11,12]")
    assert programs.elements() > sent
    clusters = [batch.cluster for batch in submissions.read(paths.submissions).batches.values()]
    assert set(clusters) == {None, "far"}


def test_another_users_sweep_is_refused_before_its_plan_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder may be written and the record of submissions not, as with umask 002."""
    programs = Programs(tmp_path / "bin", monkeypatch)
    paths = submitted(tmp_path)
    kept = (paths.plan, paths.sweep_json, paths.submissions)
    before = [path.read_bytes() for path in kept]
    opened = os.open

    def refusing(path: Any, flags: int, *mode: Any, **named: Any) -> int:
        if path == paths.submissions and flags & os.O_WRONLY:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *mode, **named)

    monkeypatch.setattr(os, "open", refusing)
    more = ["profile=slurm", "sweep.grid.seed=[11,12]"]
    for command in (["run", *more], ["tick"], ["follow"], ["cancel"], ["retry"]):
        sent = programs.calls()
        assert main([command[0], "smoke", *command[1:], f"run_root={tmp_path}"]) == 2
        said = capsys.readouterr().err
        owner = paths.submissions.owner()
        assert f"{paths.submissions} is {owner}'s and cannot be written by you" in said
        assert f"jobs are {owner}'s" in said and "run_root=<folder>" in said
        asked = [each for each in programs.calls()[len(sent) :] if "--test-only" not in each]
        assert not [each for each in asked if each.startswith(("sbatch", "scancel"))]
    assert [path.read_bytes() for path in kept] == before


def test_the_commands_for_slurm_refuse_a_sweep_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from sweeps.freeze import freeze

    plan = make_plan(config.load("smoke", [f"run_root='{tmp_path}'"]))
    freeze(run_paths(plan.declaration), plan, nothing_to_run=False)
    for command in ("tick", "follow", "retry"):
        assert main([command, "smoke", f"run_root={tmp_path}"]) == 2
        assert "was last run with profile=local" in capsys.readouterr().err
