"""What a document is before any markup: tables of finished text, headings, words, figures, numbers.

Fractions are printed in percent, differences in percentage points. A renderer per format
(html, latex, markdown, terminal) takes these blocks; nothing here knows of a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

NONE = "-"
"""What stands where there is no value."""
SEPARATOR = " / "
"""Between the values of one cell."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """A number with its marks."""

    text: str
    number: float | None = None
    """What the text says, rounded as it is there; None for what is never the best."""
    interval: tuple[float, float] | None = None
    """Around it; None where there is none."""
    best: bool = False
    """Shown bold."""
    significant: bool = False
    """Shown underlined."""
    incomplete: bool = False
    """Shown with a dagger."""
    redesigned: bool = False
    """Shown with a double dagger."""


BOLD = (
    Value(text="bold", best=True),
    "best of the trained models in its column, its 95% interval above those of all others",
)
"""What bold means where only a number that is apart is the best, for a legend."""
Content = str | Value | tuple[Value, ...]
"""What stands in a cell: text as it is, a value, or values side by side."""
TableRow = tuple[Content, ...]
Key = tuple[str, ...]
"""The words at the head of a row."""
Rows = Mapping[Key, Mapping[str, tuple[Value, ...]]]
"""Values by row and name of the column."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells of plain text or marked values; the first `n_labels` columns are labels, the others
    numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[TableRow, ...]
    n_labels: int = 1
    notes: tuple[str, ...] = ()
    """Sentences below the table."""
    breaks: tuple[int, ...] = ()
    """Columns before which a table that is too wide may be broken, the first number's included."""
    legend: tuple[tuple[Value, str], ...] = ()
    """Marks, each shown on a word, and what they mean; above the notes."""
    is_folded: bool = False
    """Whether a page shows its rows only when asked to."""
    caption: str = ""
    """What a paper prints with it; empty where that is the title."""
    groups: tuple[tuple[str, int], ...] = ()
    """A line over the header on a page of the dashboard: words, and how many columns they span;
    columns are narrow then."""


def _values(content: Content) -> tuple[Value, ...]:
    """Those of a cell; text is one without marks."""
    if isinstance(content, str):
        return (Value(text=content),)
    return (content,) if isinstance(content, Value) else content


def plain_text(content: Content) -> str:
    """A cell without its marks."""
    return SEPARATOR.join(value.text for value in _values(content))


def table_as_json(table: Table) -> dict[str, Any]:
    """Its words and cells as they are shown, for what a program reads beside unrounded numbers."""
    rows = [[plain_text(cell) for cell in row] for row in table.rows]
    return {"title": table.title, "header": table.header, "rows": rows, "notes": table.notes}


def without_zeros(table: Table) -> Table:
    """The table without columns of numbers that are all 0, which a note names."""
    texts = [[plain_text(row[i]) for row in table.rows] for i in range(len(table.header))]
    kept = [
        i
        for i, column in enumerate(texts)
        if i < table.n_labels or not column or any(text.strip("0.") for text in column)
    ]
    dropped = [table.header[i] for i in range(len(table.header)) if i not in kept]
    if not dropped:
        return table
    return replace(
        table,
        header=tuple(table.header[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
        breaks=tuple(kept.index(i) for i in table.breaks if i in kept),
        notes=(f"Left out, since 0 in every row: {', '.join(dropped)}.", *table.notes),
    )


def keyed_table(
    *,
    title: str,
    names: Sequence[str],
    columns: Sequence[str],
    rows: Rows,
    n_labels: int = 1,
    notes: tuple[str, ...] = (),
    legend: tuple[tuple[Value, str], ...] = (),
    breaks: Collection[str] = (),
    caption: str = "",
) -> Table:
    """A row a key and a column a name; a dash where a row lacks a column.

    breaks: names of columns before which it may be broken. caption: as of Table.
    """
    places = [len(names) + i for i, column in enumerate(columns) if column in breaks]
    return Table(
        title=title,
        header=(*names, *columns),
        rows=tuple(
            (*key, *(values.get(column, NONE) for column in columns))
            for key, values in rows.items()
        ),
        n_labels=n_labels,
        notes=notes,
        legend=legend,
        breaks=tuple(places),
        caption=caption,
    )


def with_best(
    rows: Rows,
    *,
    columns: Collection[str],
    among: Callable[[Key], Hashable | None] = lambda _: 0,
    is_apart: bool = False,
) -> dict[Key, dict[str, tuple[Value, ...]]]:
    """The rows with the largest numbers of these columns marked, place by place: those that are
    printed alike are all best. One number alone is not called the best.

    among: rows of the same value compete; None for a row that does not. is_apart: whether a number
    is the best only if its interval lies above those of all others.
    """
    rivals: dict[tuple[Hashable, str, int], list[Value]] = {}
    for key, values in rows.items():
        for column in columns:
            for place, value in enumerate(values.get(column, ())):
                if among(key) is not None and value.number is not None:
                    rivals.setdefault((among(key), column, place), []).append(value)

    def marked(key: Key, column: str, place: int, value: Value) -> Value:
        competing = rivals.get((among(key), column, place), [])
        if among(key) is None or value.number is None or len(competing) < 2:
            return value
        if is_apart:
            others = (other for other in competing if other is not value)
            return replace(value, best=all(_is_above(value, other) for other in others))
        numbers = (other.number for other in competing if other.number is not None)
        return replace(value, best=value.number == max(numbers))

    out: dict[Key, dict[str, tuple[Value, ...]]] = {}
    for key, values in rows.items():
        out[key] = dict(values)
        for column in columns:
            if column in values:
                content = enumerate(values[column])
                out[key][column] = tuple(marked(key, column, i, value) for i, value in content)
    return out


def _is_above(value: Value, other: Value) -> bool:
    """Whether the interval of one lies above that of the other; not where one has none."""
    if value.interval is None or other.interval is None:
        return False
    return value.interval[0] > other.interval[1]


def marks_legend(contents: Iterable[Content]) -> tuple[tuple[Value, str], ...]:
    """The legend of bold numbers, the daggers and the dash, where some cell has one."""
    values = [value for content in contents for value in _values(content)]
    bold = any(value.best for value in values)
    dagger = any(value.incomplete for value in values)
    double = any(value.redesigned for value in values)
    dash = any(value.text == NONE for value in values)
    return (
        *([BOLD] * bold),
        *([(Value(text="", incomplete=True), "of less than was planned, see below")] * dagger),
        *([(Value(text="", redesigned=True), "of a design that was changed, see below")] * double),
        *([(Value(text=NONE), "not there")] * dash),
    )


def marked_rows(table: Table, mark: Callable[[Value], str]) -> list[list[str]]:
    """Header and rows in a markup, which `mark` makes of a value."""
    return [
        [SEPARATOR.join(map(mark, _values(cell))) for cell in row]
        for row in (table.header, *table.rows)
    ]


def legend_and_notes(table: Table, mark: Callable[[Value], str]) -> Iterator[str]:
    """What stands below a table in a markup: the legend as one paragraph, then the notes."""
    if table.legend:
        meanings = (
            f"{mark(value)}: {mark(Value(text=meaning))}" for value, meaning in table.legend
        )
        yield "; ".join(meanings) + "."
    yield from (mark(Value(text=note)) for note in table.notes)


@dataclass(frozen=True, kw_only=True)
class Heading:
    """Begins a part."""

    text: str


@dataclass(frozen=True, kw_only=True)
class Paragraph:
    """Plain words."""

    text: str
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Outline:
    """A title and its lines each."""

    sections: tuple[tuple[str, tuple[Line, ...]], ...]


Line = tuple[str, str]
"""A few words that stand out, and what they are about."""


@dataclass(frozen=True, kw_only=True)
class Notes:
    """Facts, one a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture by its file name without suffix."""

    name: str
    caption: str


@dataclass(frozen=True, kw_only=True)
class Link:
    """Leads to another file of the same folder."""

    text: str
    file: str


def in_column(name: str) -> str:
    """The name of a figure as it is drawn for one column of two."""
    return f"{name}-column"


Block = Heading | Paragraph | Outline | Notes | Figure | Link | Table
"""A table brings its title as a heading."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was written, and what to print."""

    text: str
    """Words and tables for a terminal."""
    files: list[Path]


def percent(value: float | None) -> str:
    """A fraction in percent, one decimal."""
    return NONE if value is None else f"{100 * value:.1f}"


def percent_value(
    value: float | None,
    *,
    significant: bool = False,
    incomplete: bool = False,
    redesigned: bool = False,
    more: str = "",
) -> Value:
    """The same for a table whose best numbers are marked. more: behind the number."""
    number = None if value is None else round(100 * value, 1)
    return Value(
        text=percent(value) + more,
        number=number,
        significant=significant,
        incomplete=incomplete,
        redesigned=redesigned,
    )


OpenPart = tuple[float | None, tuple[float, float] | None]
"""Of fgrpo_bench.analysis.rows.open_part: the share unscored and the bounds to be shown."""


def with_interval(
    mean: float | None, low: float | None, high: float | None, *, open_part: OpenPart = (None, None)
) -> str:
    """e.g. `25.8 [21.3, 30.8]`, in percent; without brackets where there is no interval.
    open_part: what `unscored_note` says behind it."""
    value = percent(mean) if low is None else f"{percent(mean)} [{percent(low)}, {percent(high)}]"
    return value + unscored_note(*open_part)


def number_with_interval(
    mean: float | None, low: float | None, high: float | None, *, digits: int = 2
) -> str:
    """e.g. `1.16 [1.07, 1.25]`, of what is no fraction; a dash where there is none."""
    if mean is None:
        return NONE
    shown, *ends = (f"{n:.{digits}f}" for n in (mean, low, high) if n is not None)
    return f"{shown} [{', '.join(ends)}]" if ends else shown


def unscored_note(unscored: float | None, bounds: tuple[float, float] | None) -> str:
    """What stands behind a value some of whose draws could not be judged, e.g. ` (66.7% unscored:
    5.0 to 71.7)` with the value were they all wrong or all right; empty for None."""
    if unscored is None:
        return ""
    ends = "" if bounds is None else f": {percent(bounds[0])} to {percent(bounds[1])}"
    return f" ({unscored:.1%} unscored{ends})"


UNFINISHED = ("cut off", "correct, of which cut off", "correct, of which by place")
"""Columns beside pass@k."""
Unfinished = tuple[float | None, float | None, float | None]
"""The fractions of these columns; None: not known, and of correct draws also without one."""


def unfinished_note(columns: Sequence[str]) -> str:
    """What those of UNFINISHED that a table has mean."""
    by_place = (
        " By place: the answer was found by nothing but its place in the text, by no box, tag or "
        "sentence that states it."
    )
    return (
        "Cut off: share of the draws that were ended by the longest response."
        f"{by_place if UNFINISHED[-1] in columns else ''}"
    )


def unfinished_shares(*parts: Unfinished) -> tuple[str, ...]:
    """What stands in the columns UNFINISHED, in percent; of several parts, e.g. benchmarks, from
    the smallest share to the largest."""
    cut_off, *correct_shares = zip(*parts, strict=True) if parts else ((),) * len(UNFINISHED)
    return _from_to(cut_off, lacks="not known"), *(
        _from_to(of, lacks=NONE) for of in correct_shares
    )


def _from_to(shares: Collection[float | None], *, lacks: str) -> str:
    numbers = [share for share in shares if share is not None]
    if not numbers or (lacks != NONE and len(numbers) < len(shares)):
        return lacks if shares else NONE
    return " to ".join(dict.fromkeys(f"{share:.1%}" for share in (min(numbers), max(numbers))))


def points(value: float | None) -> str:
    """A difference in percentage points with its sign."""
    return NONE if value is None else f"{100 * value:+.1f}"


def difference(value: float | None, low: float | None, high: float | None) -> str:
    """e.g. `+7.5 [+4.0, +11.3]`, in percentage points; likewise."""
    return points(value) if low is None else f"{points(value)} [{points(low)}, {points(high)}]"


def p_value(value: float | None) -> str:
    """Three digits after the point, or that it is less."""
    if value is None:
        return NONE
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def grouped_number(value: float | None, *, digits: int = 0) -> str:
    """A number with thousands separators."""
    return NONE if value is None else f"{value:,.{digits}f}"


def conjoined(items: Iterable[str]) -> str:
    """e.g. `a, b and c`; at least one."""
    *most, last = items
    return f"{', '.join(most)} and {last}" if most else last


def raised(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]
