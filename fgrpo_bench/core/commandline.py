"""What every command line has: refusals that name what was meant, and the way into the environment
that `make setup` builds, or to what an installed package lacks. It needs Python alone, so that
it can say which packages are missing."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import groupby
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
INSTALLED = CHECKOUT.joinpath("fgrpo_bench", "conf").is_dir()
"""Whether this is the code of a wheel (setup.py) and none of a checkout."""
IMPORTED_AS = {"hydra": "hydra-core", "yaml": "pyyaml"}
"""Packages whose distribution has another name than Python's."""


BELOW = " " * 6
"""Indent of what goes below an example."""


def fitted(text: str, columns: int) -> str:
    """Help in lines of at most `columns` characters: paragraphs that are wider are filled anew, and
    what an indented line says of an example goes below it."""
    out: list[str] = []
    for is_indented, group in groupby(text.split("\n"), lambda line: line[:1] in ("", " ")):
        lines = list(group)
        if is_indented:
            lines = [part for line in lines for part in _folded(line, columns)]
        elif max(map(len, lines)) > columns:
            lines = textwrap.wrap(" ".join(lines), columns, break_on_hyphens=False)
        out += lines
    return "\n".join(out)


def _folded(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    below = textwrap.TextWrapper(
        columns, initial_indent=BELOW, subsequent_indent=BELOW, break_on_hyphens=False
    )
    pair = re.fullmatch(r"( {1,8}\S.*?) {2,}(\S.*)", line)
    if pair is not None:
        return [*_folded(pair[1], columns), *below.wrap(pair[2])]
    below.initial_indent = line[: min(len(line) - len(line.lstrip()), len(BELOW))]
    return below.wrap(line.strip())


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


def check_once(
    overrides: Sequence[str], get_key: Callable[[str], str] = lambda word: word.partition("=")[0]
) -> None:
    """ValueError where two key=value give one key different values, of which one would be dropped.

    get_key: the whole key of a word, where a part of it will do.
    """
    first: dict[str, str] = {}
    for word in overrides:
        before = first.setdefault(get_key(word).lstrip("+"), word)
        if before.lstrip("+") != word.lstrip("+"):
            raise ValueError(f"{before} beside {word}: give one of the two")


def _missing_packages(extra: str | None = None) -> list[str]:
    """Which packages this Python does not have of those that the commands need. extra: one of the
    wheel's, whose packages are needed too; in a checkout `make setup` installs all."""
    if not INSTALLED:
        return [package for package in NEEDED if find_spec(package) is None]
    from importlib.metadata import PackageNotFoundError, version

    absent = []
    for package in [*_requirements(None), *(_requirements(extra) if extra else ())]:
        try:
            version(package)
        except PackageNotFoundError:
            absent.append(package)
    return absent


def _requirements(*extras: str | None) -> dict[str, str]:
    """What the wheel asks for, always (None) or with an extra: a distribution's name in lower case,
    and with its versions, e.g. matplotlib>=3.11."""
    from importlib.metadata import requires

    requirements = dict[str, str]()
    for requirement, _, marker in (line.partition(";") for line in requires("fgrpo-bench") or ()):
        named_extras = re.findall(r"extra == ['\"]([\w-]+)", marker) or [None]
        if not set(named_extras) & set(extras):
            continue
        if others := re.match(r"fgrpo-bench\[([\w-]+)\]", requirement):  # an extra that has another
            requirements |= _requirements(others[1])
        else:
            requirements[re.split(r"[^\w.-]", requirement)[0].lower()] = requirement.strip()
    return requirements


def _distribution(module: str) -> str | None:
    """The distribution, of those that the wheel asks for with any extra, that brings what is
    imported by this name; None where none does."""
    from importlib.metadata import metadata

    top = module.partition(".")[0]
    package = IMPORTED_AS.get(top, top).replace("_", "-")
    names = _requirements(*metadata("fgrpo-bench").get_all("Provides-Extra", []))
    return next((name for name in names if name.replace("_", "-") == package), None)


def outside(packages: Sequence[str]) -> str:
    """How to enter the environment, or what to install into that of the wheel, in one line.

    packages: those that this Python lacks.
    """
    missing = f"{sys.executable} has no {', '.join(packages)}: run"
    if INSTALLED:
        from importlib.metadata import metadata

        # by their own names, as no index need have a wheel that was built from a checkout
        extras = metadata("fgrpo-bench").get_all("Provides-Extra", [])
        requirements = _requirements(None, *extras)
        listed = " ".join(f"'{requirements[package]}'" for package in packages)
        return f"{missing} `{sys.executable} -m pip install {listed}` first"
    enter = "source .venv/bin/activate"
    if not CHECKOUT.joinpath(".venv", "bin", "python").exists():
        enter = f"make setup && {enter}"
    return f"{missing} `cd {CHECKOUT} && {enter}` first"


def check_packages(extra: str | None = None) -> None:
    """Outside the environment, and without the wheel's extra, that line and exit code 2."""
    packages = _missing_packages(extra)
    if packages:
        print(outside(packages), file=sys.stderr)
        sys.exit(2)


@contextmanager
def entered() -> Iterator[None]:
    """A command's imports and its work: likewise, in place of the traceback of an import."""
    try:
        yield
    except ModuleNotFoundError as error:
        check_packages()
        if INSTALLED and error.name and (package := _distribution(error.name)):
            print(outside([package]), file=sys.stderr)
            sys.exit(2)
        raise
