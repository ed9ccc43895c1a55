"""`python -m fgrpo_bench`: what it lists is there, and it hands on without a change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import fgrpo_bench
from fgrpo_bench.__main__ import COMMANDS, listing, main
from fgrpo_bench.analysis.power import main as power
from fgrpo_bench.core.commandline import CHECKOUT, Parser
from sweeps.cli import main as sweep


def said(
    *arguments: str, python: str = sys.executable, module: str = "fgrpo_bench"
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)}
    command = [python, "-m", module, *arguments]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True)


def test_every_command_has_a_line_and_help_with_examples(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = listing().splitlines()
    for name, (_, does) in COMMANDS.items():
        assert any(line.split() == [name, *does.split()] for line in lines)
        assert len(does) < 80
        assert main([name, "--help"]) == 0
        told = capsys.readouterr().out
        assert f"Usage: fgrpo-bench {name} " in told
        assert "\nexamples:\n" in told and "fgrpo-bench " in told.partition("examples:")[2]
        run_named = {"SWEEP", "--from", "--from-sweep"} & set(told.replace("}", " ").split())
        assert not run_named or "sweep[/experiment[/version]]" in "".join(told.split()), name


def test_help_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], ["evaluate"], ["evaluate", "run"], ["sweep", "run"], ["compare"], ["export"]):
        assert main([*words, "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert 60 < max(map(len, lines)) <= 80
        assert any("fgrpo-bench" in line for line in lines)


def test_a_command_is_that_of_its_own_module_with_its_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, command, words, code in (
        ("power", power, ["--k", "8", "--problems", "100", "--n-samples", "64"], 0),
        ("sweep", sweep, ["status", "nope", "run_root=/nowhere"], 2),
    ):
        assert command(words) == code
        alone = capsys.readouterr()
        assert main([name, *words]) == code
        assert capsys.readouterr() == alone and alone.out + alone.err


def test_the_list_needs_no_package_and_an_unknown_command_names_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, meant in (
        ("swepe", "sweep?): there are sweep, "),
        ("imprt x", "evaluate import?): there are sweep, "),
        ("evaluate compare a b", "fgrpo-bench compare?): there are run, "),
        ("evaluate comapre a b", "fgrpo-bench compare?): there are run, "),
        ("sweep plna smoke", "plan?): there are plan, "),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(words.split())
        refused = capsys.readouterr().err
        assert "unknown command " in refused and f" (did you mean {meant}" in refused
    code = "import runpy, sys; sys.argv[1:] = []\n"
    code += "try: runpy.run_module('fgrpo_bench', run_name='__main__')\n"
    code += "except SystemExit: print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert not {"numpy", "polars", "pydantic", "typer", "yaml"} & set(done.stdout.split())


@pytest.mark.slow
def test_outside_the_environment_one_line_says_how_to_enter_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = str(tmp_path / "bare/bin/python")
    for command in (
        ["fgrpo_bench", "sweep", "plan", "smoke"],
        ["sweeps", "plan", "smoke"],
        ["evaluators", "run", "x"],
        ["dashboards", "serve"],
        *(
            [place.removesuffix(".__main__")]
            for place, _ in COMMANDS.values()
            if place.startswith("fgrpo_bench.")
        ),
    ):
        told = said(*command[1:], python=bare, module=command[0])
        assert told.returncode == 2
        assert told.stderr.count("\n") == 1
        assert " has no numpy, polars, pydantic, hydra, typer: run `cd " in told.stderr
        assert "source .venv/bin/activate` first" in told.stderr
    assert said(python=bare).stdout == f"{listing()}\n"
    assert said("--version", python=bare).stdout == f"fgrpo-bench {fgrpo_bench.__version__}\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the Makefile's commands need, in a folder whose name has a space."""
    copy = tmp_path / "my copy"
    for name in ("fgrpo_bench", "sweeps", "conf", "requirements"):
        ignored = shutil.ignore_patterns("__pycache__", "examples")
        shutil.copytree(CHECKOUT / name, copy / name, ignore=ignored)
    shutil.copy(CHECKOUT / "Makefile", copy)
    return copy


def made(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """make with the words; what builds an environment would fail."""
    command = ["make", "--no-print-directory", "PYTHON=/nowhere/python", *words]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True)


@pytest.mark.slow
def test_set_up_the_command_works_in_any_folder_and_hides_no_frozen_code(
    checkout: Path, tmp_path: Path
) -> None:
    environment = checkout / ".venv"
    venv.create(environment, with_pip=False)
    (packages,) = environment.glob("lib/python3*/site-packages")
    (packages / "of_tests.pth").write_text(sysconfig.get_path("purelib"))
    (environment / ".base").touch()
    assert made(checkout, "setup").returncode == 0
    (tmp_path / "fgrpo-bench").symlink_to(environment / "bin/fgrpo-bench")
    command = [str(tmp_path / "fgrpo-bench"), "sweep", "plan", "smoke", f"run_root={tmp_path}"]
    planned = subprocess.run(command, env={}, cwd="/", capture_output=True, text=True)
    assert (planned.returncode, planned.stderr) == (0, "")
    assert "grpo-n4-g1-s11" in planned.stdout
    code = "from importlib.util import find_spec as find\n"
    code += "print([find(name) for name in ('fgrpo_bench', 'sweeps', 'evaluators', 'dashboards')])"
    python = [str(environment / "bin/python"), "-c", code]
    installed = subprocess.run(python, env={}, cwd="/", capture_output=True, text=True, check=True)
    assert installed.stdout == "[None, None, None, None]\n"


def test_a_misspelt_sweep_is_refused_by_make_before_anything_is_installed(checkout: Path) -> None:
    for word in ("sweep-smok", "plan-smok", "report-smok"):
        refused = made(checkout, word)
        assert refused.returncode == 2 and refused.stdout == ""
        assert f"make {word}: there is no sweep smok: conf/sweep has " in refused.stderr
        assert " smoke " in refused.stderr and not (checkout / ".venv").exists()
        assert f"\nmake {word.removesuffix('smok')}<name> " in f"\n{made(checkout, 'help').stdout}"
        assert "/nowhere/python" in made(checkout, f"{word}e").stderr, "another is set up for"


def test_make_lists_ten_targets_for_users_and_those_of_developers_apart(checkout: Path) -> None:
    users, _, developers = made(checkout, "help").stdout.partition("\n\nFor developers:\n")
    heading, *lines = users.splitlines()
    targets = [line.split()[1] for line in lines if line.startswith("make ")]
    assert heading == "For users:" and len(targets) == 10
    assert {"setup", "sweep-<name>", "dashboard"} < set(targets)
    named = [*targets, *(line.split()[1] for line in developers.splitlines())]
    assert len(set(named)) == len(named) and {"test", "check"} < set(named)
    declared = re.findall(r"^([a-z][a-z-]*):(?!=)", (checkout / "Makefile").read_text(), re.M)
    assert set(declared) - {"help"} == set(named) - {
        f"{p}-<name>" for p in ("sweep", "plan", "report")
    }


def test_a_misspelt_choice_or_option_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="p")
    parser.add_argument("--to", choices=["lm-eval", "inspect"])
    for word, near in (("--to=lmeval", "lm-eval"), ("--two", "--to")):
        with pytest.raises(SystemExit):
            parser.parse_args([word])
        assert f"(did you mean {near}?)" in capsys.readouterr().err
