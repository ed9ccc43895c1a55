"""Pages are short, hang together, and are found from README."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps import REPOSITORY
from tests.pages.blocks import (
    LINK,
    PAGES,
    README,
    WIDTH,
    anchors,
    languages,
    links,
    name,
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


def test_the_readme_is_read_in_two_minutes():
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > WIDTH] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_is_short_and_its_links_lead_somewhere(page: Path):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 200
    assert wide_lines(page) == []
    assert languages(page) <= set(KNOWN)
    for target, anchor in links(page):
        assert target.exists(), f"{name(page)}: {target} does not exist"
        assert not anchor or anchor in anchors(target), f"{name(page)}: no #{anchor} in {target}"


def test_every_page_and_picture_is_reached_from_the_readme():
    reached, ahead = {README}, [README]
    while ahead:
        page = ahead.pop()
        new = {target for target, _ in links(page)} - reached if page.suffix == ".md" else set()
        reached |= new
        ahead += new
    wanted = {path for path in (REPOSITORY / "docs").rglob("*") if path.is_file()} | set(PAGES)
    assert {name(path) for path in wanted - reached} == set()


def test_a_wide_line_would_be_seen(tmp_path: Path):
    page, wide = tmp_path / "page.md", "word " * 21
    picture, item = f"![{wide}](figure.svg)", f"- {wide}and [a link](page.md)"
    page.write_text("\n".join([wide, f"| {wide} |", picture, f"- {picture}:", item, wide[:100]]))
    assert wide_lines(page) == [wide, item]
    page.write_text(f"```\n{wide}\n```\n{wide}\n")
    assert wide_lines(page) == [wide]


def test_a_link_that_leads_nowhere_would_be_seen(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("# A *title*, or two\n[a](page.md#a-title-or-two) [b](gone.md) <c>\n")
    assert LINK.findall(page.read_text()) == ["page.md#a-title-or-two", "gone.md"]
    assert anchors(page) == {"a-title-or-two"}
    assert [target.exists() for target, _ in links(page)] == [True, False]
