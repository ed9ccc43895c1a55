"""What a page is made of, before any markup: charts, tables, controls; and how pages are addressed.

Page builders return these, the templates turn them into HTML, and neither knows whether a server
or a folder of files shows them: that is `Links`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from fgrpo_bench.stages.paths import RunPaths

VIEWS = {
    "sweep": "Sweep",
    "compare": "Compare",
    "forgetting": "Forgetting",
    "draws": "Draws",
    "theory": "Theory",
    "audit": "Audit",
}
"""Views of a sweep by their part of the address, in the order of the navigation."""
NO_SUCH = 300
"""Most characters of valid values that an error lists."""

Parameters = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Address:
    """A page: a view of a run with the parameters that differ from their defaults, sorted."""

    run: RunPaths
    view: str
    parameters: Parameters = ()


class Links(Protocol):
    """Where pages are: behind a server, or in the files of an export."""

    @property
    def is_static(self) -> bool:
        """Whether there is no server, so that only exported pages exist."""

    def page(self, address: Address) -> str | None:
        """The link to a page; None where it is not there."""

    def data(self, address: Address, chart: Chart) -> str:
        """The link to a chart's data as CSV, from the page of that address."""

    def asset(self, name: str) -> str:
        """The link to a file of dashboards/static or to plotly.min.js."""


class Params:
    """Parameters as they came, to be looked up in what exists; nothing else is done with them."""

    def __init__(self, given: Mapping[str, Sequence[str]] | None = None) -> None:
        self._given = {name: list(values) for name, values in (given or {}).items()}

    def one(self, name: str, valid: Iterable[str], default: str) -> str:
        """The one value of a parameter; LookupError where it is not among the valid ones."""
        values = self._given.get(name) or [default]
        return _known(name, values[-1], valid) if values[-1] != default else default

    def many(self, name: str, valid: Iterable[str]) -> tuple[str, ...]:
        """All values given, in the order of the valid ones; empty is no choice."""
        known = list(valid)
        wanted = {_known(name, value, known) for value in self._given.get(name, [])}
        return tuple(value for value in known if value in wanted)

    def number(self, name: str) -> int | None:
        """A whole number from 0 to a billion; None where it is not given. LookupError else."""
        value = (self._given.get(name) or [""])[-1].strip()
        if not value:
            return None
        if not (value.isascii() and value.isdecimal() and len(value) < 10):
            raise LookupError(f"{name}={value[:40]!r}: must be a whole number, e.g. {name}=100")
        return int(value)


def _known(name: str, value: str, valid: Iterable[str]) -> str:
    known = list(valid)
    if value in known:
        return value
    listed = ", ".join(known)
    listed = listed if len(listed) <= NO_SUCH else f"{listed[:NO_SUCH]} ..."
    raise LookupError(f"unknown {name} {value[:80]!r}: it is one of {listed}")


def parameters(
    defaults: Mapping[str, str], **chosen: str | int | Sequence[str] | None
) -> Parameters:
    """Sorted pairs of what was chosen and is not the default; None and empty are left out."""
    pairs = []
    for name, value in chosen.items():
        values = [value] if isinstance(value, (str, int)) else list(value or ())
        pairs += [(name, str(one)) for one in values if str(one) != defaults.get(name)]
    return tuple(sorted(pairs))


@dataclass(frozen=True, kw_only=True)
class Option:
    """One value of a control."""

    label: str
    href: str | None
    """The page that shows it; None where an export does not hold it."""
    chosen: bool


@dataclass(frozen=True, kw_only=True)
class Control:
    """A choice of one value, each a page of its own."""

    name: str
    label: str
    options: tuple[Option, ...]
    long: bool = False
    """A list to scroll rather than links side by side."""


@dataclass(frozen=True, kw_only=True)
class Slider:
    """Positions of a slider over a chart that has a frame for each."""

    name: str
    label: str
    values: tuple[str, ...]
    """The positions in words."""
    start: int


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A Plotly figure with its data, and the library call that gives the same numbers."""

    name: str
    """Unique on the page; part of the data's file name."""
    title: str
    figure: dict[str, Any] = field(repr=False)
    """data and layout, as Plotly takes them; names in it are escaped (charts.label)."""
    data: pl.DataFrame = field(repr=False)
    call: str = field(repr=False)
    note: str = ""
    sliders: tuple[Slider, ...] = ()
    frames: dict[str, Any] | None = field(default=None, repr=False)
    """By slider positions, e.g. `3,7`: y of traces, and `say`, a sentence."""
    clicks: dict[str, Any] | None = field(default=None, repr=False)
    """For a heat map: the page behind a cell; see app.js."""
    tall: bool = False


@dataclass(frozen=True, kw_only=True)
class Shade:
    """A table cell with a colour and perhaps a page behind it."""

    text: str
    level: int | None = None
    """0 (lowest) to 10 of the colour scale; None is without colour."""
    href: str | None = None
    title: str = ""
    kind: str = ""
    """Class of a state or an outcome, e.g. `failed`."""


Row = tuple[str | Shade, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table; cells are text or Shade."""

    title: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]
    n_words: int = 1
    """Columns from the left that are words."""
    notes: tuple[str, ...] = ()
    upright: bool = False
    """Narrow columns: the header stands upright."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """A whole page, for templates/<view>.html."""

    address: Address
    title: str
    lead: str
    """One sentence on what is to be seen."""
    controls: tuple[Control, ...] = ()
    charts: tuple[Chart, ...] = ()
    context: dict[str, Any] = field(default_factory=dict, repr=False)
    """What this view's own template asks for."""
    refresh_seconds: int | None = None
    """How often a page of something that still runs is fetched again; None is never."""


def control(
    name: str,
    label: str,
    values: Mapping[str, str],
    *,
    chosen: str,
    links: Links,
    page: Address,
    defaults: Mapping[str, str],
    long: bool = False,
    forget: Sequence[str] = (),
) -> Control:
    """A control whose every value is the page's address with that parameter.

    values: label by value. page: the address of the page that it stands on. forget: parameters that
    mean nothing with another value, e.g. the page number.
    """
    others = tuple(pair for pair in page.parameters if pair[0] not in (name, *forget))
    options = []
    for value, text in values.items():
        own = parameters(defaults, **{name: value})
        address = Address(run=page.run, view=page.view, parameters=tuple(sorted(others + own)))
        href = links.page(address)
        if href is not None or value == chosen:
            options.append(Option(label=text, href=href, chosen=value == chosen))
    return Control(name=name, label=label, options=tuple(options), long=long)
