"""The Markdown pages of the project, their links, and the code that they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from sweeps import REPOSITORY

README = REPOSITORY / "README.md"
PAGES = [
    README,
    REPOSITORY / "AGENTS.md",
    REPOSITORY / "CHANGELOG.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
ASSIGNMENT = re.compile(r"[A-Z_]+=")
WIDTH = 100
"""Most characters of a line of prose."""
ONE_LINK = re.compile(r" *(?:- )?!?\[[^\]]*\]\([^)\s]+\)\W*")
"""A line that cannot be broken: a picture or a link alone."""


def name(page: Path) -> str:
    """As it stands in a test's name."""
    return str(page.relative_to(REPOSITORY))


def blocks(page: Path | str, language: str) -> list[str]:
    """The code of every block of a language on a page, or in the text of a part of one; the empty
    language: of blocks that name none."""
    text = page if isinstance(page, str) else page.read_text(encoding="utf-8")
    return [code for named, code in BLOCK.findall(text) if named == language]


def languages(page: Path) -> set[str]:
    """Of all its blocks."""
    return {language for language, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}


def commands(page: Path) -> Iterator[tuple[str, ...]]:
    """The words of every command of its shell blocks, without comments, variables that are set in
    front, srun with its options, and where the output goes."""
    for block in blocks(page, "bash"):
        for words in _split(block.replace("\\\n", " ").splitlines()):
            while words and ASSIGNMENT.match(words[0]):
                del words[0]
            if words[:1] == ["srun"]:
                words = words[words.index("make") :]
            if words[:1] == ["source"] and words[1].startswith("<("):
                words = [words[1].removeprefix("<("), *words[2:-1], words[-1].removesuffix(")")]
            if ">" in words:
                del words[words.index(">") :]
            if words:
                yield tuple(words)


def _split(lines: list[str]) -> Iterator[list[str]]:
    """The words of each command; quoted text may have several lines."""
    begun = ""
    for line in lines:
        begun += line + "\n"
        try:
            words = shlex.split(begun, comments=True)
        except ValueError:  # no closing quotation yet
            continue
        begun = ""
        yield words
    assert not begun, f"a quotation is not closed: {begun}"


VARYING = re.compile(r"(?<=-)[0-9a-f]{8}\b|(?:\d+ (?:h|min) )*\d+(?:\.\d+)? (?:s|ms)\b")
"""What another run of the same command prints otherwise: digests of a page's own files, times."""


def assert_printed(block: str, output: str) -> None:
    """A block that shows what a command printed has all of it: but for digests, times and where
    lines are broken, and but for what `...` or `[...]` leaves out."""
    shown, printed = (" ".join(VARYING.sub("_", text).split()) for text in (block, output))
    end = 0
    for part in re.split(r" ?\[?\.\.\.\]? ?", shown):
        start = printed.find(part, end)
        assert start >= 0, f"the page shows\n{part}\nand the command printed\n{printed[end:]}"
        end = start + len(part)


def prose(page: Path) -> str:
    """Its text without code."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def wide_lines(page: Path) -> list[str]:
    """Its lines above WIDTH; those of tables and code and a link alone may be longer."""
    broken = [line for line in prose(page).splitlines() if not line.lstrip().startswith("|")]
    return [line for line in broken if len(line) > WIDTH and not ONE_LINK.fullmatch(line)]


def links(page: Path) -> list[tuple[Path, str]]:
    """File (or the page itself) and anchor of every link within the repository."""
    inside = [each.partition("#") for each in LINK.findall(prose(page)) if "://" not in each]
    return [((page.parent / path).resolve() if path else page, at) for path, _, at in inside]


def anchors(page: Path) -> set[str]:
    """What a heading is called in an address, as GitHub makes it."""
    titles = (LINK.sub("]", title).lower() for title in HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in titles}
