"""Blocks as one HTML page that needs nothing else: styles and figures are inside it.

Every text is escaped, drawings are parsed and written again, and the page runs no script.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby

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
    in_column,
    legend_and_notes,
    marked_rows,
)
from fgrpo_bench.documents.terminal import plain

STYLE = """\
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; color: #1c1c1c;
  background: #fff;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.45rem; line-height: 1.3; margin: 0 0 1rem; }
h2 { font-size: 1.12rem; margin: 2.4rem 0 0.6rem; padding-top: 0.4rem; }
p, ul, nav, figcaption { max-width: 52rem; overflow-wrap: anywhere; }
nav { font-size: 0.9rem; }
nav a { display: block; color: #0d5299; text-decoration: none; break-inside: avoid; }
nav a:hover, nav a:focus { text-decoration: underline; }
.alert { border-left: 4px solid #b2182b; padding-left: 0.8rem; font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.86rem; border-top: 2px solid #444;
  border-bottom: 2px solid #444; font-variant-numeric: tabular-nums; }
th { border-bottom: 1px solid #444; font-weight: 600; vertical-align: bottom; }
th, td { padding: 0.24rem 0.6rem; text-align: right; }
td { white-space: nowrap; }
th.word, td.word { text-align: left; white-space: normal; }
tbody tr:hover { background: #f3f6f9; }
u { text-decoration-thickness: 1.5px; text-underline-offset: 3px; }
.note { font-size: 0.82rem; color: #444; margin: 0.45rem 0 0; }
.effect { margin: 0.2rem 0; }
.figures { columns: 33rem; column-gap: 2rem; margin: 1.2rem 0; }
figure { margin: 0; padding-bottom: 1.2rem; break-inside: avoid; }
figure svg { display: block; width: 100%; max-width: 42rem; height: auto; }
.narrow { display: none; }
figcaption { font-size: 0.86rem; color: #444; margin-top: 0.4rem; }
@media (max-width: 600px) {
  body { padding: 1rem 0.8rem 3rem; font-size: 15px; }
  th, td { padding: 0.22rem 0.5rem; }
  .scroll > svg { min-width: 36rem; }
  .narrow { display: block; }
  .narrow + .scroll { display: none; }
}
"""
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
DROPPED = (f"{{{SVG}}}metadata", f"{{{SVG}}}script", f"{{{SVG}}}foreignObject")


def html(title: str, blocks: Sequence[Block], drawings: Mapping[str, str]) -> str:
    """The whole page.

    drawings: SVG by the name of a figure; every figure needs one, and may have one more of the
    name `in_column`. Figures that follow each other stand side by side where there is room.
    """
    heads = [_title(block) for block in blocks]
    links = [f'<a href="#part-{i}">{_text(head)}</a>' for i, head in enumerate(heads) if head]
    parts = []
    for is_figures, group in groupby(enumerate(blocks), lambda at: isinstance(at[1], Figure)):
        figures = [
            (f'<h2 id="part-{i}">{_text(heads[i])}</h2>\n' if heads[i] else "")
            + _html(block, drawings)
            for i, block in group
        ]
        parts += ['<div class="figures">', *figures, "</div>"] if is_figures else figures
    contents = f"<nav><details><summary>Contents</summary>{''.join(links)}</details></nav>"
    body = [f"<h1>{_text(title)}</h1>", contents, *filter(None, parts)]
    return "\n".join([*_head(title), "<body>", *body, "</body>", "</html>", ""])


def _head(title: str) -> list[str]:
    """The lines of a page before its body."""
    return [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title>",
        f"<style>\n{STYLE}</style>",
        "</head>",
    ]


def fragment(title: str, blocks: Sequence[Block]) -> str:
    """Blocks as a part of somebody else's page, e.g. of a notebook; without figures and styles."""
    parts = [f"<h3>{_text(title)}</h3>"]
    for block in blocks:
        if head := _title(block):
            parts.append(f"<h4>{_text(head)}</h4>")
        parts.append(_html(block, {}))
    return "\n".join(part for part in parts if part)


def _title(block: Block) -> str:
    match block:
        case Heading(text=text):
            return text
        case Table(title=title):
            return title
    return ""


def _html(block: Block, drawings: Mapping[str, str]) -> str:
    match block:
        case Heading():
            return ""
        case Paragraph(text=text, strong=strong):
            kind = ' class="alert"' if strong else ""
            return f"<p{kind}>{_text(text)}</p>"
        case Outline(sections=sections):
            items = []
            for title, about in sections:
                lines = "".join(
                    f'<p class="effect"><strong>{_text(label)}</strong>: {_text(text)}</p>'
                    for label, text in about
                )
                items.append(f"<li>{_text(title)}{lines}</li>")
            return f"<ul>{''.join(items)}</ul>"
        case Notes(lines=notes):
            return f"<ul>{''.join(f'<li>{_text(note)}</li>' for note in notes)}</ul>"
        case Figure(name=name, caption=caption):
            return _figure(name, caption, drawings)
        case Link(text=text, file=file):
            return f'<p><a href="{escape(file)}">{_text(text)}</a></p>'
        case Table():
            return _table(block)


def _figure(name: str, caption: str, drawings: Mapping[str, str]) -> str:
    """A drawing, and beside it for narrow screens the one for a column, where there is one."""
    wide = inline_svg(drawings[name], name=name, label=caption)
    parts = [f'<div class="scroll">{wide}</div>', f"<figcaption>{_text(caption)}</figcaption>"]
    if (column := in_column(name)) in drawings:
        narrow = inline_svg(drawings[column], name=column, label=caption)
        parts.insert(0, f'<div class="narrow">{narrow}</div>')
    return f"<figure>{''.join(parts)}</figure>"


def _table(table: Table) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        kinds = [' class="word"' if i < table.n_labels else "" for i in range(len(cells))]
        marked = (f"<{tag}{kind}>{cell}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(marked)}</tr>"

    header, *rows = marked_rows(table, _marked)
    body = "\n".join(row(cells, "td") for cells in rows)
    whole = (
        f'<div class="scroll"><table>\n<thead>{row(header, "th")}</thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table></div>"
    )
    notes = [f'<p class="note">{note}</p>' for note in legend_and_notes(table, _marked)]
    if table.is_folded:
        n_rows = f"<details>\n<summary>{len(rows)} rows</summary>"
        return "\n".join([n_rows, whole, *notes, "</details>"])
    return "\n".join([whole, *notes])


def _marked(value: Value) -> str:
    text = _text(value.text)
    text = f"<u>{text}</u>" if value.significant else text
    text = f"<strong>{text}</strong>" if value.best else text
    text = f"{text}<sup>†</sup>" if value.incomplete else text
    return f"{text}<sup>‡</sup>" if value.redesigned else text


def _text(text: str) -> str:
    return escape(plain(text))


def inline_svg(drawing: str, *, name: str, label: str) -> str:
    """A drawing as an element of a page: its ids are made unique by its name, what is no drawing
    (metadata, comments, scripts, outside links) is left out, and it scales with the page."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(drawing)
    prefix = re.sub(r"\W", "-", name)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in DROPPED:
                parent.remove(child)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            if key == "id":
                element.set(key, f"{prefix}-{value}")
            elif key.endswith("href"):
                if not value.startswith("#"):
                    del element.attrib[key]
                else:
                    element.set(key, f"#{prefix}-{value[1:]}")
            elif key.startswith("on"):
                del element.attrib[key]
            else:
                element.set(key, value.replace("url(#", f"url(#{prefix}-"))
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("aria-label", plain(label))
    return ElementTree.tostring(root, encoding="unicode")
