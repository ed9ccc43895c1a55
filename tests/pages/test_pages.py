"""Pages are short, hang together, are found from README, and show the numbers of the shipped
reports."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from sweeps import REPOSITORY
from tests.pages.blocks import (
    PAGES,
    README,
    WIDTH,
    anchors,
    languages,
    links,
    name,
    prose,
    wide_lines,
)

KNOWN = {
    "": "what a terminal shows",
    "bash": "run",
    "diff": "followed by tests/plugin/test_extending.py",
    "python": "run",
    "toml": "read",
    "yaml": "read",
}
"""Languages of blocks. A new one needs a test of what it shows."""
DOCS = REPOSITORY / "docs"
COLUMNS = DOCS / "reference/columns.md"
"""Made from the code, by tests/analysis/test_columns.py."""
WORDS, LINES = 900, 200
"""At most, of a page to be read from top to bottom, outside tables and code; of one to look things
up in."""
LOOKED_UP = [DOCS / name for name in ("results", "reference")]


def test_the_readme_is_read_in_two_minutes():
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 110
    assert [line for line in lines if len(line) > WIDTH] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_short_and_its_links_lead_somewhere(page: Path):
    if page.is_relative_to(DOCS) and page.parent not in LOOKED_UP:
        lines = prose(page).splitlines()
        assert sum(len(line.split()) for line in lines if not line.startswith("|")) <= WORDS
    elif page != COLUMNS:
        assert len(page.read_text(encoding="utf-8").splitlines()) <= LINES
    assert wide_lines(page) == []
    assert languages(page) <= set(KNOWN)
    for target, anchor in links(page):
        assert target.exists(), f"{name(page)}: {target} does not exist"
        assert not anchor or anchor in anchors(target), f"{name(page)}: no #{anchor} in {target}"


def test_every_page_and_picture_is_reached_from_the_readme_or_the_sites_list_of_pages():
    listed = re.findall(r": (\S+\.md)$", (DOCS / "site/mkdocs.yml").read_text(), re.MULTILINE)
    ahead = [README, *(DOCS / each for each in listed if (DOCS / each).exists())]
    reached = set(ahead)
    while ahead:
        page = ahead.pop()
        new = {target for target, _ in links(page)} - reached if page.suffix == ".md" else set()
        reached |= new
        ahead += new
    wanted = {path for path in DOCS.rglob("*") if path.is_file()} | set(PAGES)
    unread = {path for path in wanted - reached if not path.is_relative_to(DOCS / "site")}
    assert {name(path) for path in unread} == set()


EXAMPLES = REPOSITORY / "fgrpo_bench/report/examples"
RESULTS = DOCS / "results/group-size.md"
EQUAL_COMPUTE, EQUAL_PROMPTS = "groupsize-countdown", "groupsize-countdown-prompts"
HEAD = "| method | N | gamma | pass@1 | pass@256 |"
ROW = re.compile(r"^\| (Base|F?-?GRPO) \|.*\|$", re.MULTILINE)


def shown(example: str) -> list[str]:
    """The rows that its results.csv gives, percent with intervals."""
    table = pl.read_csv(EXAMPLES / example / "results.csv", infer_schema_length=None)
    rows = []
    for _, cell in table.group_by("method", "group_size", "focal_gamma", maintain_order=True):
        first, words = cell.row(0, named=True), []
        for k in (1, 256):
            of = cell.row(by_predicate=pl.col("k") == k, named=True)
            mean, low, high = (100 * of[name] for name in ("pass_at_k", "ci_low", "ci_high"))
            words.append(f"{mean:.1f} [{low:.1f}, {high:.1f}]")
        size, gamma = first["group_size"], first["focal_gamma"]
        named = [first["method"], *("-" if x is None else f"{x:g}" for x in (size, gamma))]
        rows.append(f"| {' | '.join([*named, *words])} |")
    return rows


@pytest.mark.parametrize(
    "page, examples",
    [(README, [EQUAL_COMPUTE]), (RESULTS, [EQUAL_COMPUTE, EQUAL_PROMPTS])],
    ids=["README", "results"],
)
def test_a_table_is_that_of_the_report(page: Path, examples: list[str]):
    _, *tables = page.read_text(encoding="utf-8").split(HEAD)
    assert len(tables) == len(examples)
    for table, example in zip(tables, examples, strict=True):
        said = [row[0] for row in ROW.finditer(table.partition("\n\n")[0])]
        assert len(said) == 8 and sorted(said) == sorted(shown(example))
