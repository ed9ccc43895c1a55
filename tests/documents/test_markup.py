"""Names that try to be markup stay text."""

from __future__ import annotations

import pytest

from fgrpo_bench.documents.latex import escape_latex, latex_table
from fgrpo_bench.documents.markdown import escape_markdown, markdown_table
from fgrpo_bench.documents.table import Table


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a|b", "a\\|b"),
        ("*bold* _em_ snake_case", "\\*bold\\* \\_em\\_ snake_case"),
        ("<script>`x`", "\\<script>\\`x\\`"),
        ("[a](http://b) [21.3, 30.8]", "[a\\](http://b) [21.3, 30.8]"),
        ("# title", "\\# title"),
        ("- item", "\\- item"),
        ("-4.2", "-4.2"),
        ("two\nlines\x1b[31m", "two lines [31m"),
    ],
)
def test_markdown_markup_in_a_name_stays_text(text, escaped):
    assert escape_markdown(text) == escaped


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("50% & $1 #2 a_b {c}", r"50\% \& \$1 \#2 a\_b \{c\}"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("~^<>|", r"\textasciitilde{}\textasciicircum{}\textless{}\textgreater{}\textbar{}"),
        ("[1] after a row end", "{[}1] after a row end"),
        ("21.3 [1, 2]", "21.3 [1, 2]"),
        ("-4.2 [-5.0, +1.0], F-GRPO", "$-$4.2 [$-$5.0, +1.0], F-GRPO"),
        ("countdown-1, 2-3 of 4 - 5", "countdown-1, 2-3 of 4 - 5"),
    ],
)
def test_latex_markup_in_a_name_stays_text(text, escaped):
    assert escape_latex(text) == escaped


def test_tables_keep_their_columns_whatever_the_names():
    table = Table(title="t", header=("a|b", "N"), rows=(("x & y", "-"), ("[z]", "1")))
    assert markdown_table(table).splitlines() == [
        *("| a\\|b | N |", "| :-- | --: |", "| x & y | - |", "| [z] | 1 |")
    ]
    made = latex_table(table, caption="c")
    assert made.count(" & ") == 3 and r"x \& y & -- \\" in made and r"{[}z] & 1 \\" in made
