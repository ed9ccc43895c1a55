"""What a table is before any markup: finished text, marks and notes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

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
    best: bool = False
    """Shown bold."""
    significant: bool = False
    """Shown underlined."""
    incomplete: bool = False
    """Shown with a dagger."""
    redesigned: bool = False
    """Shown with a double dagger."""


Content = str | tuple[Value, ...]
"""What stands in a cell: text as it is, or values side by side."""
Key = tuple[str, ...]
"""The words at the head of a row."""
Rows = Mapping[Key, Mapping[str, tuple[Value, ...]]]
"""Values by row and name of the column."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Cells of plain text or marked values; the first `n_words` columns are words, the others
    numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Content, ...], ...]
    n_words: int = 1
    notes: tuple[str, ...] = ()
    """Sentences below the table."""
    breaks: tuple[int, ...] = ()
    """Columns before which a table that is too wide may be broken, the first number's included."""
    legend: tuple[tuple[Value, str], ...] = ()
    """Marks, each shown on a word, and what they mean; above the notes."""
    is_folded: bool = False
    """Whether a page shows its rows only when asked to."""


def text_of(content: Content) -> str:
    """A cell without its marks."""
    return content if isinstance(content, str) else SEPARATOR.join(v.text for v in content)


def without_zeros(table: Table) -> Table:
    """The table without columns of numbers that are all 0, which a note names."""
    texts = [[text_of(row[i]) for row in table.rows] for i in range(len(table.header))]
    kept = [
        i
        for i, column in enumerate(texts)
        if i < table.n_words or not column or any(text.strip("0.") for text in column)
    ]
    left_out = [table.header[i] for i in range(len(table.header)) if i not in kept]
    if not left_out:
        return table
    return replace(
        table,
        header=tuple(table.header[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in table.rows),
        breaks=tuple(kept.index(i) for i in table.breaks if i in kept),
        notes=(f"Left out, since 0 in every row: {', '.join(left_out)}.", *table.notes),
    )


def grid(
    *,
    title: str,
    names: Sequence[str],
    columns: Sequence[str],
    rows: Rows,
    n_words: int = 1,
    notes: tuple[str, ...] = (),
    legend: tuple[tuple[Value, str], ...] = (),
    breaks: Collection[str] = (),
) -> Table:
    """A row a key and a column a name; a dash where a row lacks a column.

    breaks: names of columns before which it may be broken.
    """
    places = [len(names) + i for i, column in enumerate(columns) if column in breaks]
    return Table(
        title=title,
        header=(*names, *columns),
        rows=tuple(
            (*key, *(values.get(column, NONE) for column in columns))
            for key, values in rows.items()
        ),
        n_words=n_words,
        notes=notes,
        legend=legend,
        breaks=tuple(places),
    )


def with_best(
    rows: Rows,
    *,
    columns: Collection[str],
    among: Callable[[Key], Hashable | None] = lambda _: 0,
) -> dict[Key, dict[str, tuple[Value, ...]]]:
    """The rows with the largest numbers of these columns marked, place by place: those that are
    printed alike are all best. One number alone is not called the best.

    among: rows of the same value compete; None for a row that does not.
    """
    rivals: dict[tuple[Hashable, str, int], list[float]] = {}
    for key, values in rows.items():
        for column in columns:
            for place, value in enumerate(values.get(column, ())):
                if among(key) is not None and value.number is not None:
                    rivals.setdefault((among(key), column, place), []).append(value.number)

    def marked(key: Key, column: str, place: int, value: Value) -> Value:
        numbers = rivals.get((among(key), column, place), [])
        if among(key) is None or value.number is None or len(numbers) < 2:
            return value
        return replace(value, best=value.number == max(numbers))

    return {
        key: {
            column: tuple(marked(key, column, i, v) for i, v in enumerate(content))
            if column in columns
            else content
            for column, content in values.items()
        }
        for key, values in rows.items()
    }


def explained(contents: Iterable[Content]) -> tuple[tuple[Value, str], ...]:
    """The legend of the daggers and the dash, where some cell has one."""
    every = list(contents)
    values = [value for content in every if not isinstance(content, str) for value in content]
    dagger = any(value.incomplete for value in values)
    double = any(value.redesigned for value in values)
    dash = NONE in every or any(value.text == NONE for value in values)
    return (
        *([(Value(text="", incomplete=True), "of less than was planned, see below")] * dagger),
        *([(Value(text="", redesigned=True), "of a design that was changed, see below")] * double),
        *([(Value(text=NONE), "not there")] * dash),
    )


def lines_of(
    table: Table, escape: Callable[[str], str], mark: Callable[[Value], str]
) -> list[list[str]]:
    """Header and rows in a markup. escape: for plain text; mark: for a value."""
    return [
        [escape(cell) if isinstance(cell, str) else SEPARATOR.join(map(mark, cell)) for cell in row]
        for row in (table.header, *table.rows)
    ]


def legend_and_notes(
    table: Table, escape: Callable[[str], str], mark: Callable[[Value], str]
) -> Iterator[str]:
    """What stands below a table in a markup: the legend as one paragraph, then the notes."""
    if table.legend:
        yield "; ".join(f"{mark(value)}: {escape(words)}" for value, words in table.legend) + "."
    yield from map(escape, table.notes)
