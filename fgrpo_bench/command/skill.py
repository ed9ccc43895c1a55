"""`fgrpo-bench skill`: what a coding agent reads to use the program, printed or installed.

In: a folder of skills. Out: SKILL.md in a folder of its own there, which the agent finds by the
name and description at its top.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fgrpo_bench.command import application
from fgrpo_bench.command.application import Application, refusals
from fgrpo_bench.files.whole import write_text

NAME = "fgrpo-bench"
SKILL = Path(__file__).with_name("SKILL.md")
app = Application("What a coding agent reads to use this program.", guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    return application.run(app, arguments, "python -m fgrpo_bench.command.skill")


@app.add(
    "skill",
    "print what a coding agent reads to use this program, or install it",
    "fgrpo-bench skill",
    "fgrpo-bench skill --install .claude/skills",
)
def skill(
    install: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help=f"folder of skills: writes DIR/{NAME}/SKILL.md"),
    ] = None,
) -> int:
    text = SKILL.read_text(encoding="utf-8")
    if install is None:
        print(text, end="")
        return 0
    path = install / NAME / SKILL.name
    if path.exists() and path.read_text(encoding="utf-8") == text:
        print(f"{path} is this version's already")
        return 0
    write_text(path, text)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
