"""Whether the installed OpenRLHF takes flags: `python -m fgrpo_bench.engines.openrlhf.flags ...`.

Runs in the OpenRLHF environment, in a second: of OpenRLHF nothing but its parser is made.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from datetime import datetime
from difflib import get_close_matches
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

EXIT_REFUSED = 2
"""argparse's exit code for words that it does not take."""


def openrlhf_parser() -> argparse.ArgumentParser:
    """The parser of openrlhf.cli.train_ppo_ray.

    It is made under that module's `if __name__ == "__main__"`, up to a line that calls it: those
    lines are run as they stand, without the imports of the rest, which take long.
    """
    package = find_spec("openrlhf")
    if package is None or package.submodule_search_locations is None:
        raise ValueError("there is no OpenRLHF here: run this in its environment")
    path = Path(package.submodule_search_locations[0]) / "cli" / "train_ppo_ray.py"
    main = ast.parse(path.read_text()).body[-1]
    assert isinstance(main, ast.If)
    calls = [i for i, line in enumerate(main.body) if "parser.parse_args()" in ast.unparse(line)]
    lines = ast.Module(body=main.body[: calls[0]], type_ignores=[])
    names: dict[str, Any] = {"argparse": argparse, "datetime": datetime, "os": os}
    exec(compile(lines, str(path), "exec"), names)  # noqa: S102
    parser: argparse.ArgumentParser = names["parser"]
    parser.allow_abbrev = False
    return parser


def parse_flags(arguments: Sequence[str]) -> dict[str, Any]:
    """What the parser makes of a command line, by option name without dashes.

    ValueError with the parser's words where it refuses them, and with similar names for a flag
    that it does not know.
    """
    parser, errors = openrlhf_parser(), io.StringIO()
    flags = sorted(parser._option_string_actions)
    for word in arguments:
        if word.startswith("--") and word not in flags:
            similar = [name.removeprefix("--") for name in get_close_matches(word, flags)]
            raise ValueError(
                f"OpenRLHF {version('openrlhf')} has no flag {word.removeprefix('--')}: "
                + (f"similar ones are {', '.join(similar)}" if similar else "leave it out")
            )
    try:
        with contextlib.redirect_stderr(errors):
            return vars(parser.parse_args(arguments))
    except SystemExit:
        refusal = errors.getvalue().splitlines()[-1].rpartition("error: ")[2]
        raise ValueError(f"OpenRLHF {version('openrlhf')} refuses it: {refusal}") from None


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 where the words are flags with values that the parser takes; else says why."""
    try:
        parse_flags(arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return EXIT_REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
