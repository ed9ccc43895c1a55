"""The example of the page on conformance does what the page says."""

import sys

from fgrpo_bench.conformance.__main__ import main
from sweeps import REPOSITORY
from tests.pages.blocks import blocks

PAGE = REPOSITORY / "docs/reference/conformance.md"


def test_the_example_gives_the_table_of_the_page(tmp_path, monkeypatch, capsys):
    (example,), (table,) = blocks(PAGE, "python"), blocks(PAGE, "")
    (tmp_path / "mypkg.py").write_text(example, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (line,) = [each for each in blocks(PAGE, "bash")[0].splitlines() if "--function" in each]
    try:
        assert main(line.split()[2:]) == 0
    finally:
        sys.modules.pop("mypkg", None)
    assert capsys.readouterr().out == table
