"""How each command of the pages is run where nothing is trained, drawn, installed or served.

`WAYS` has the first words of every command. One that no line has fails the test, so that a new one
gets a line here.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

import pytest
from typer.core import TyperCommand

from fgrpo_bench.__main__ import COMMANDS
from sweeps import REPOSITORY

Main = Callable[..., int]
PREREQUISITES = ("setup", "setup-dev", "setup-openrlhf-cpu", ".venv/.dev", ".venv/.bench")
PYTHON = (".venv/bin/python", "-m")


def by_module(words: Sequence[str]) -> Sequence[str]:
    """The words of a command of fgrpo-bench as those of `python -m <module>`."""
    if words[0] != "fgrpo-bench":
        return words
    module, _, command = COMMANDS[words[1]][0].partition(":")
    module = module.removesuffix(".cli").removesuffix(".__main__")
    return ["python", "-m", module, *filter(None, [command]), *words[2:]]


class Parsed(Exception):
    """The arguments of a command make sense."""


def main_of(module: str) -> Main:
    """The function behind `python -m <module>`."""
    try:
        return import_module(f"{module}.__main__").main
    except ModuleNotFoundError:
        return import_module(module).main


def runs(module: str, words: Sequence[str]) -> None:
    """The command itself."""
    assert main_of(module)(list(words)) == 0


def runs_dry(module: str, words: Sequence[str]) -> None:
    """The command with --dry-run."""
    runs(module, words if "--dry-run" in words else [*words, "--dry-run"])


def parses(module: str, words: Sequence[str]) -> None:
    """The command up to where its arguments are read: they are those that it has, and what it
    would do needs a finished sweep of that name, a cluster, a network or long."""
    parse, depth = argparse.ArgumentParser.parse_known_args, 0

    def reads(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal depth
        depth += 1
        namespace, others = parse(self, *given, **named)
        depth -= 1
        if depth == 0:  # subparsers read within
            wrong = [each for each in others if each.startswith("-") or "=" not in each]
            raise Parsed(wrong)
        return namespace, others

    def called(*_: Any) -> NoReturn:
        raise Parsed([])

    with pytest.MonkeyPatch.context() as patch, pytest.raises((Parsed, SystemExit)) as read:
        patch.setattr(TyperCommand, "invoke", called)
        patch.setattr(argparse.ArgumentParser, "parse_known_args", reads)
        patch.setattr(sys, "argv", [module, *words])
        main_of(module)()
    assert read.value.args == ([],)


def elsewhere(test: str, text: str) -> Callable[[str, Sequence[str]], None]:
    """The command stands in a test of its own, which has this text."""

    def stands(module: str, words: Sequence[str]) -> None:
        assert text in (REPOSITORY / test).read_text(encoding="utf-8"), f"{test} has no {text!r}"

    return stands


PARSED = {
    "sweeps": ("logs", "check", "tune", "follow", "tick", "retry", "cancel"),
    "evaluators": ("data", "plan", "audit", "grade", "compare", "export-lm-eval", "groups"),
    "sweeps.new": (),
    "fgrpo_bench.report": (),
    "fgrpo_bench.report.exports.bundle": (),
    "fgrpo_bench.report.exports.command": (),
    "fgrpo_bench.report.leaderboard": (),
    "fgrpo_bench.tracking": (),
    "dashboards": (),
    "tests.gpu": (),
}
"""Modules, or commands of them, whose arguments are read and no more."""
WAYS: dict[tuple[str, ...], Callable[[str, Sequence[str]], None]] = {
    (module, *command): parses
    for module, names in PARSED.items()
    for command in ([(name,) for name in names] or [()])
}
WAYS |= {
    ("sweeps", "run", "smoke"): elsewhere(
        "tests/plugin/test_extending.py", 'blocks(EXAMPLE, "bash")'
    ),
    ("sweeps", "run", "smoke-gentle"): elsewhere("tests/sweeps/test_new.py", "advantage.md"),
    ("sweeps", "run", "transfer", "experiment=mine"): elsewhere(
        "tests/sweeps/test_new.py", "train.md"
    ),
    ("sweeps", "plan", "transfer/mine"): elsewhere("tests/sweeps/test_new.py", "train.md"),
    ("sweeps", "plan", "groupsize", "algorithm=[grpo,gentle]"): elsewhere(
        "tests/sweeps/test_new.py", "advantage.md"
    ),
    ("sweeps", "run", "groupsize", "version=again"): elsewhere(
        "tests/analysis/test_replication.py", "version=again"
    ),
    ("sweeps", "run"): runs_dry,
    ("evaluators", "import"): parses,
    ("evaluators",): parses,
    ("sweeps", "plan", "smoke", "version=signed"): elsewhere(
        "tests/plugin/test_extending.py", 'blocks(section, "bash")'
    ),
    ("sweeps", "plan"): runs,
    ("sweeps", "status"): runs,
    ("fgrpo_bench.analysis.power",): runs,
    ("fgrpo_bench.analysis",): runs,
    ("fgrpo_bench.analysis", "groupsize", "--frame", "comparisons", "--json"): elsewhere(
        "tests/test_json.py", "analysis groupsize --frame"
    ),
    ("fgrpo_bench.report", "groupsize", "--format", "csv"): runs,
    ("fgrpo_bench.report.published",): runs,
    ("fgrpo_bench.simulation",): runs_dry,
    ("fgrpo_bench.paper.theory",): runs,
    ("fgrpo_bench.conformance",): elsewhere("tests/conform/test_page.py", "conformance.md"),
    ("fgrpo_bench.conformance.make",): elsewhere("tests/conform/test_vectors.py", "vectors_json"),
    ("tests.calibration",): elsewhere("tests/stats/test_calibration.py", "from tests import"),
    ("openrlhf.cli.train_ppo_ray",): elsewhere("tests/openrlhf/test_agent.py", "agent_func_path"),
    ("verl.trainer.main_ppo",): elsewhere("tests/integrations/test_verl.py", "adv_estimator"),
}
"""By the module and the first words behind it; the longest that fits is taken."""

OTHERS: dict[tuple[str, ...], tuple[str, str]] = {
    ("source", ".venv/bin/activate"): ("Makefile", "-m venv $(@D)"),
    ("fgrpo-bench", "--show-completion"): ("tests/sweeps/test_completion.py", "--show-completion"),
    ("sha256sum", "--check"): ("fgrpo_bench/report/exports/bundle.py", "sha256sum --check"),
    ("make", "setup"): ("Makefile", "setup:"),
    ("pip", "install"): ("tests/test_wheel.py", 'partition("## Into your own environment")'),
    ("make", "small-model"): ("Makefile", "small-model:"),
    ("pip", "wheel"): ("docs/guides/offline.md", "PIP_FIND_LINKS=$PWD/wheels make setup"),
    ("pip", "download"): ("fgrpo_bench/graders/punkt.py", '"download"'),
    ("make", "setup-openrlhf"): ("Makefile", "setup-openrlhf:"),
    ("make", "setup-vllm"): ("Makefile", "setup-vllm:"),
    ("make", "rehearse"): ("Makefile", "rehearse:"),
}
"""Commands that run no module of ours, or install: a file that makes what they name, and where."""


def recipe(words: Sequence[str]) -> list[tuple[str, ...]]:
    """The commands that `make` would run behind what it sets up, by `make -n`."""
    kept = [word for each in PREREQUISITES for word in ("-o", each)]
    said = subprocess.run(
        ["make", "-n", "--no-print-directory", *kept, *words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    commands = [tuple(shlex.split(line)) for line in said.stdout.replace("\\\n", "").splitlines()]
    assert commands and all(command[:2] == PYTHON for command in commands), said.stdout
    return [("python", *command[1:]) for command in commands]


def way(words: Sequence[str]) -> Callable[[str, Sequence[str]], None]:
    """Of the words behind `python -m`."""
    for length in range(len(words), 0, -1):
        if (chosen := WAYS.get(tuple(words[:length]))) is not None:
            return chosen
    return unknown


def unknown(module: str, words: Sequence[str]) -> NoReturn:
    raise AssertionError(
        f"python -m {module} {' '.join(words)}: tests/pages/dry.py has no line for it in WAYS"
    )
