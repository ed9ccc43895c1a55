"""Model output and other untrusted text as safe markup: visible, inert, with its mathematics set.

Everything is escaped. Mathematics is turned into MathML on the server by latex2mathml, whose output
is not trusted either (it passes on links, styles and raw tags of the text,
https://github.com/roniemartinez/latex2mathml): it is parsed, and only known elements with known
attributes are written again. Whatever does not fit stays as it was
written.
"""

from __future__ import annotations

import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import lru_cache
from html import escape

from markupsafe import Markup

LONGEST_FORMULA = 1_000
"""Characters; a longer one stays as TeX."""
MOST_FORMULAS = 120
"""Of one text; the rest stays as TeX."""
DEEPEST = 30
"""Nested braces and environments of a formula: latex2mathml calls itself for each of them, and
Python's stack ends."""
LONGEST_TEXT = 60_000
"""Characters of one text that are shown."""

_INNER = rf".{{1,{LONGEST_FORMULA}}}?"  # bounded, so that no text makes the search slow
_FORMULA = re.compile(
    rf"\$\$(?P<a>{_INNER})\$\$|\\\[(?P<b>{_INNER})\\\]|\\\((?P<c>{_INNER})\\\)"
    rf"|(?<![\\$\w])\$(?P<d>[^$\n]{{1,{LONGEST_FORMULA}}}?)\$(?![\d$])",
    re.DOTALL,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ELEMENTS = _names(
    "math mrow mi mn mo mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover "
    "mtable mtr mtd mstyle mpadded mphantom menclose mmultiscripts mprescripts none merror"
)
_ATTRIBUTES = _names(
    "display displaystyle scriptlevel mathvariant stretchy fence form separator lspace rspace "
    "minsize maxsize linethickness width height depth notation columnalign rowspacing "
    "columnspacing accent accentunder movablelimits largeop symmetric"
)
_VALUE = re.compile(r"[A-Za-z0-9 .%+-]{0,40}")
_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


def visible(text: str) -> str:
    """The text with what is invisible or could reorder it written out, e.g. `\\u202e`; line ends
    and tabs stay."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        char if _is_plain(char) else char.encode("unicode_escape").decode() for char in text
    )


def _is_plain(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or unicodedata.category(char) == "Zs"


def shortened(text: str, length: int) -> str:
    """One line of at most so many characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def rendered(text: str) -> Markup:
    """The text as markup: escaped, with its formulas as MathML where they can be read."""
    shown = text[:LONGEST_TEXT]
    parts = list(_parts(shown))
    if len(text) > len(shown):
        parts.append(escape(f"\n[{len(text) - len(shown):,} more characters are not shown]"))
    return Markup("".join(parts))  # every part is escaped or rebuilt from known tags


def _parts(text: str) -> Iterator[str]:
    end = n_formulas = 0
    for match in _FORMULA.finditer(text):
        if n_formulas >= MOST_FORMULAS:
            break
        source = next(group for group in match.groups() if group is not None)
        block = match.lastgroup in ("a", "b")
        set_formula = formula(source, block=block)
        if set_formula is None:
            continue
        n_formulas += 1
        yield escape(visible(text[end : match.start()]))
        yield set_formula
        end = match.end()
    yield escape(visible(text[end:]))


@lru_cache(maxsize=4096)
def formula(source: str, *, block: bool) -> str | None:
    """MathML of a formula, with its TeX as a title; None where it cannot be read safely."""
    if len(source) > LONGEST_FORMULA or _depth(source) > DEEPEST or not source.strip():
        return None
    from latex2mathml.converter import convert

    try:
        mathml = convert(source, display="block" if block else "inline")
        inner = _rebuilt(ElementTree.fromstring(mathml), 0)
    except Exception:  # whatever a parser of untrusted text may raise: the text stays as it is
        return None
    title = escape(visible(source), quote=True)
    return f'<span class="tex{" block" if block else ""}" title="{title}">{inner}</span>'


def _depth(source: str) -> int:
    deepest = depth = 0
    for char in source.replace("\\begin", "{").replace("\\left", "{"):
        depth += (char == "{") - (char == "}")
        deepest = max(deepest, depth)
    return deepest


def _rebuilt(element: ElementTree.Element, depth: int) -> str:
    """An element written again from known parts; ValueError for any other."""
    tag = element.tag.removeprefix(_NAMESPACE)
    if tag not in _ELEMENTS or depth > 4 * DEEPEST:
        raise ValueError(f"element {tag!r}")
    attributes = "".join(
        f' {name}="{value}"'
        for name, value in element.attrib.items()
        if name in _ATTRIBUTES and _VALUE.fullmatch(value)
    )
    inner = escape(visible(element.text or ""))
    for child in element:
        inner += _rebuilt(child, depth + 1) + escape(visible(child.tail or ""))
    return f"<{tag}{attributes}>{inner}</{tag}>"
