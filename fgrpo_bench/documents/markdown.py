"""Blocks as Markdown; every text is escaped here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fgrpo_bench.documents.table import (
    Block,
    Figure,
    Heading,
    Link,
    Notes,
    Outline,
    Paragraph,
    Table,
    Value,
    legend_and_notes,
    marked_rows,
)
from fgrpo_bench.documents.terminal import plain

_MARKUP = re.compile(
    r"[\\`*<|~]"  # code, emphasis, HTML, table columns
    r"|(?<!\w)_|_(?!\w)"  # an underscore within a word marks nothing
    r"|\](?=[(\[:])"  # brackets are a link only where a target follows
    r"|^[#>]|^[-+](?= )"  # headings, quotes and lists begin a line
)


def markdown(title: str, blocks: Sequence[Block]) -> str:
    """The whole document; figures are SVG files beside it."""
    return f"# {escape_markdown(title)}\n\n{markdown_blocks(blocks)}\n"


def markdown_blocks(blocks: Sequence[Block]) -> str:
    """The blocks alone, for a text that has a title of its own."""
    return "\n\n".join(map(_markdown, blocks))


def _markdown(block: Block) -> str:
    match block:
        case Heading(text=text):
            return f"## {escape_markdown(text)}"
        case Paragraph(text=text, strong=strong):
            return f"**{escape_markdown(text)}**" if strong else escape_markdown(text)
        case Outline(sections=sections):
            lines = []
            for title, about in sections:
                lines += [f"- {escape_markdown(title)}"]
                for label, text in about:
                    lines += [f"  - **{escape_markdown(label)}**: {escape_markdown(text)}"]
            return "\n".join(lines)
        case Notes(lines=notes):
            return "\n".join(f"- {escape_markdown(note)}" for note in notes)
        case Figure(name=name, caption=caption):
            label = escape_markdown(caption)
            return f"![{label}]({name}.svg)\n\n{label}"
        case Link(text=text, file=file):
            return f"[{escape_markdown(text)}]({file})"
        case Table():
            return f"## {escape_markdown(block.title)}\n\n{markdown_table(block)}"


def markdown_table(table: Table) -> str:
    """A pipe table; words to the left, numbers to the right."""
    align = [":--" if i < table.n_labels else "--:" for i in range(len(table.header))]
    rows = marked_rows(table, _bold)
    lines = [rows[0], align, *rows[1:]]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([text, *legend_and_notes(table, _bold)])


def _bold(value: Value) -> str:
    text = escape_markdown(value.text)
    text = f"<ins>{text}</ins>" if value.significant else text  # GitHub shows no <u>
    text = f"**{text}**" if value.best else text
    text = f"{text}†" if value.incomplete else text
    return f"{text}‡" if value.redesigned else text


def escape_markdown(text: str) -> str:
    """Text that no Markdown reader takes for markup, on one line, and still easy to read raw."""
    return _MARKUP.sub(r"\\\g<0>", plain(text))
