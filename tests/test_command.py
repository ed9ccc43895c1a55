"""`python -m fgrpo_bench`: what it lists is there, and it hands on without a change."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from fgrpo_bench.__main__ import COMMANDS, listing, main
from fgrpo_bench.commandline import CHECKOUT, Parser


def said(
    *arguments: str, python: str = sys.executable, module: str = "fgrpo_bench"
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CHECKOUT)}
    command = [python, "-m", module, *arguments]
    return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True)


def test_every_command_has_a_line_and_a_module() -> None:
    lines = listing().splitlines()
    for name, (module, does) in COMMANDS.items():
        assert any(line.split() == [name, *does.split()] for line in lines)
        assert find_spec(module) is not None
        assert len(does) < 80


def test_a_command_is_run_as_its_own_module_with_its_exit_code() -> None:
    power = ["power", "--k", "8", "--problems", "100", "--n-samples", "64"]
    own = [sys.executable, "-m", "fgrpo_bench.analysis.power", *power[1:]]
    alone = subprocess.run(own, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    handed = said(*power)
    assert handed.returncode == 0
    assert handed.stdout == alone.stdout != ""
    refused = said("sweeps", "status", "nope", "run_root=/nowhere")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: no run of nope under /nowhere")
    assert said("sweeps", "--help").stdout.startswith("usage: python -m sweeps ")


def test_the_list_needs_no_package_and_an_unknown_command_names_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["swepes"]) == 2
    assert "unknown command 'swepes' (did you mean sweeps?): there are sweeps, " in (
        capsys.readouterr().err
    )
    code = "import runpy, sys; sys.argv[1:] = []\n"
    code += "try: runpy.run_module('fgrpo_bench', run_name='__main__')\n"
    code += "except SystemExit: print(*{m.partition('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True
    )
    assert not {"numpy", "polars", "pydantic", "yaml"} & set(done.stdout.split())


def test_outside_the_environment_one_line_says_how_to_enter_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    bare = str(tmp_path / "bare/bin/python")
    for command in (
        ["fgrpo_bench", "sweeps", "plan", "smoke"],
        ["sweeps", "plan", "smoke"],
        ["evaluators", "run", "x"],
        ["dashboards", "serve"],
        *([module] for module, _ in COMMANDS.values() if module.startswith("fgrpo_bench.")),
    ):
        told = said(*command[1:], python=bare, module=command[0])
        assert told.returncode == 2
        assert told.stderr.count("\n") == 1
        assert " has no numpy, polars, pydantic, hydra: run `cd " in told.stderr
        assert "source .venv/bin/activate` first" in told.stderr
    assert said(python=bare).stdout == f"{listing()}\n"


def test_a_misspelt_choice_or_option_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="p")
    parser.add_argument("--to", choices=["lm-eval", "inspect"])
    for word, near in (("--to=lmeval", "lm-eval"), ("--two", "--to")):
        with pytest.raises(SystemExit):
            parser.parse_args([word])
        assert f"(did you mean {near}?)" in capsys.readouterr().err
