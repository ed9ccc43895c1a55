"""What every command line has: refusals that name what was meant, and the way into the environment
that `make setup` builds. It needs Python alone, so that it can say which packages are missing."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from fgrpo_bench.core.registry import suggestion

NEEDED = ("numpy", "polars", "pydantic", "hydra", "typer")
"""Packages of the environment that the commands need."""
NO_MULTIRUN = (
    "Hydra composes the settings, but its multirun, launchers and sweepers run nothing here; a "
    "sweep is a file of conf/sweep, its axes are lists, e.g. 'sweep.grid.seed=[1,2]', and "
    "profile=slurm sends it to a cluster"
)
"""Why options and overrides are refused that belong to Hydra itself."""
CHECKOUT = Path(__file__).resolve().parents[2]


class Parser(argparse.ArgumentParser):
    """Shows help as it is written, and names the choice or option that a misspelt word meant."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        option = re.search(r"unrecognized arguments: (-\S+)", message)
        near = ""
        if re.search(r"arguments?:? '?(-m|--multirun)\b", message):
            near = f": {NO_MULTIRUN}"
        elif choice:
            # the choices are quoted or not, by Python's version
            near = suggestion(choice[1], re.findall(r"[^\s',]+", choice[2]))
        elif option:
            near = suggestion(option[1].partition("=")[0], self.options())
        super().error(f"{message}{near}")

    def options(self) -> list[str]:
        """Every option's names, those of its commands too, e.g. `--json`."""
        names = list(self._option_string_actions)
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                for command in action.choices.values():
                    names += command._option_string_actions
        return names


def lacking() -> list[str]:
    """Which of these packages this Python does not have."""
    return [package for package in NEEDED if find_spec(package) is None]


def outside(packages: Sequence[str]) -> str:
    """How to enter the environment, in one line. packages: those that this Python lacks."""
    enter = "source .venv/bin/activate"
    if not CHECKOUT.joinpath(".venv", "bin", "python").exists():
        enter = f"make setup && {enter}"
    return f"{sys.executable} has no {', '.join(packages)}: run `cd {CHECKOUT} && {enter}` first"


def check_packages() -> None:
    """Outside the environment that line, and exit code 2."""
    packages = lacking()
    if packages:
        print(outside(packages), file=sys.stderr)
        sys.exit(2)


@contextmanager
def entered() -> Iterator[None]:
    """A command's imports and its work: likewise, in place of the traceback of an import."""
    try:
        yield
    except ModuleNotFoundError:
        check_packages()
        raise
