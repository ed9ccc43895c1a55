"""Numbers as they are printed. Fractions come out in percent, differences in percentage points."""

from __future__ import annotations

from fgrpo_bench.documents.table import NONE, Value


def percent(value: float | None) -> str:
    """A fraction in percent, one decimal."""
    return NONE if value is None else f"{100 * value:.1f}"


def percent_value(
    value: float | None,
    *,
    significant: bool = False,
    incomplete: bool = False,
    redesigned: bool = False,
) -> Value:
    """The same for a table whose best numbers are marked."""
    number = None if value is None else round(100 * value, 1)
    return Value(
        text=percent(value),
        number=number,
        significant=significant,
        incomplete=incomplete,
        redesigned=redesigned,
    )


def with_interval(mean: float | None, low: float | None, high: float | None) -> str:
    """e.g. `25.8 [21.3, 30.8]`, in percent; without brackets where there is no interval."""
    return percent(mean) if low is None else f"{percent(mean)} [{percent(low)}, {percent(high)}]"


def points(value: float | None) -> str:
    """A difference in percentage points with its sign."""
    return NONE if value is None else f"{100 * value:+.1f}"


def difference(value: float | None, low: float | None, high: float | None) -> str:
    """e.g. `+7.5 [+4.0, +11.3]`, in percentage points; likewise."""
    return points(value) if low is None else f"{points(value)} [{points(low)}, {points(high)}]"


def p_value(value: float | None) -> str:
    """Three digits after the point, or that it is less."""
    return NONE if value is None else "<0.001" if value < 0.001 else f"{value:.3f}"


def number(value: float | None, *, digits: int = 0) -> str:
    """A number with thousands separators."""
    return NONE if value is None else f"{value:,.{digits}f}"
