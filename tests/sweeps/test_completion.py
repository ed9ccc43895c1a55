"""The Tab key: what a line can go on with, and what bash makes of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.specs import config
from fgrpo_bench.specs.config import as_overrides
from sweeps import REPOSITORY
from sweeps.completion import CONF, completions, main, options, targets
from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("groupsize/countdown/v1", "gamma/countdown-prompts/v2"):
        (tmp_path / address).mkdir(parents=True)
        (tmp_path / address / "plan.json").touch()
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path))


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("make sweep-gro", ["sweep-groupsize"]),
        ("make plan-sm", ["plan-smoke"]),
        ("make mlf", ["mlflow-ui"]),
        ("make sweep-gamma EXP", ["EXPERIMENT="]),
        ("make sweep-gamma EXPERIMENT=countdown-t", ["EXPERIMENT=countdown-tiny"]),
        ("python -m sw", ["sweeps"]),
        (".venv/bin/python -m sweeps ru", ["run"]),
        ("python -m fgrpo_bench th", ["theory"]),
        ("fgrpo-bench completion ", ["bash", "zsh"]),
        ("fgrpo-bench sweeps plan transfer-q", ["transfer-qwen3-4b-base"]),
        ("python -m sweeps plan groupsize --c", ["--config"]),
        ("python -m sweeps plan groupsize profile=slurm-", [
            *("profile=slurm-8gpu", "profile=slurm-multinode", "profile=slurm-rehearsal"),
        ]),
        ("python -m sweeps plan groupsize experiment.train.steps", ["experiment.train.steps="]),
        ("python -m sweeps plan groupsize experiment.train.steps=", ["experiment.train.steps=300"]),
        ("python -m sweeps plan smoke experiment.train.steps=", ["experiment.train.steps=12"]),
        ("python -m sweeps plan groupsize profile=slurm profile.mem", ["profile.mem_gb="]),
        ("python -m sweeps plan groupsize profile=slurm profile.p", [
            *("profile.partition=", "profile.placement.", "profile.python="),
        ]),
        ("python -m sweeps plan groupsize evaluation@experiment.evaluation=st", [
            "evaluation@experiment.evaluation=staged",
        ]),
        ("python -m sweeps plan groupsize profile=slurm profile.shared_run_root=", [
            *("profile.shared_run_root=false", "profile.shared_run_root=true"),
        ]),
        ("python -m sweeps status g", ["gamma", "groupsize"]),
        ("python -m sweeps status gamma v", ["version="]),
        ("python -m sweeps status gamma version=", ["version=", "version=v2"]),
        ("python -m fgrpo_bench.report gr", ["groupsize"]),
        ("python -m json.tool ", []),
        ("python script.py ", []),
        ("ls ", []),
    ],
)  # fmt: skip
def test_a_line_goes_on_with_what_there_is(line: str, answers: list[str]) -> None:
    told = completions(line)
    if line.endswith("profile.p"):  # the keys of placements stand in files of their own
        told = list(
            dict.fromkeys(re.sub(r"(profile\.placement\.).*", r"\1", each) for each in told)
        )
    assert told == answers


@pytest.mark.parametrize("chosen", [[], ["profile=slurm-8gpu", "experiment=qwen2.5-7b"]])
def test_every_key_of_the_configuration_is_offered_and_no_other(chosen: list[str]) -> None:
    composed = config.compose(["sweep=groupsize", *chosen])
    keys = {line.partition("=")[0] for line in as_overrides(composed)}
    offered = completions(" ".join(["python -m sweeps plan groupsize", *chosen, ""]))
    told = {each.rstrip("=") for each in offered if "=" in each}
    groups = {each for each in told if "@" in each or (CONF / each).is_dir()}
    assert told - groups == keys


def test_targets_are_those_that_make_lists() -> None:
    told = subprocess.run(
        ["make", "-s", "help"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    listed = set(re.findall(r"^make ([a-z-]+) ", told, re.MULTILINE)) - {"sweep-"}
    assert listed <= targets()
    assert {f"sweep-{name}" for name in options("sweep")} <= targets()


def test_an_answer_is_there_in_a_blink() -> None:
    line = "python -m sweeps plan groupsize experiment.train.l"
    spent = []
    for _ in range(3):
        before = os.times()
        subprocess.run([sys.executable, "-m", "sweeps.completion", "--", line], cwd=REPOSITORY,
                       capture_output=True, check=True)  # fmt: skip
        after = os.times()
        spent.append(after.children_user + after.children_system
                     - before.children_user - before.children_system)  # fmt: skip
    assert min(spent) < 0.3


def test_bash_completes_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bash"]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    bash = Terminal(REPOSITORY, "bash", "--norc", "--noprofile", "-i")
    try:
        bash.run(f"source {script}")
        bash.tab("make sweep-grou", becomes="make sweep-groupsize ")
        bash.tab("python -m sweeps plan groups", becomes="plan groupsize ")
        bash.tab(
            "python -m sweeps plan groupsize experiment=countdown-t", becomes="=countdown-tiny "
        )
        bash.tab("python -m sweeps plan groupsize experiment.train.steps", becomes="train.steps=")
        bash.tab("fgrpo-bench dash", becomes="fgrpo-bench dashboards ")
        (tmp_path / "Makefile").write_text("alone:\n")
        bash.run(f"cd {tmp_path}")
        bash.tab("make sweep-g\x15ls scr", becomes="ls script ")
        assert "sweep-groupsize" not in bash.run("compgen -F _fgrpo_bench_make 2>/dev/null; true")
    finally:
        bash.close()
