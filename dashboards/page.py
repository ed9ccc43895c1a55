"""What a page is made of, before any markup: charts, tables, controls; and how pages are addressed.

Page builders return these, the templates turn them into HTML, and neither knows whether a server
or a folder of files shows them: that is `Links`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from fgrpo_bench.stages.paths import RunPaths

VIEWS = {
    "sweep": "Sweep",
    "compare": "Compare",
    "forgetting": "Forgetting",
    "draws": "Draws",
    "audit": "Audit",
}
"""Views of a sweep by their part of the address, in the order of the navigation."""

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

    def home(self) -> str:
        """The link to the first page, which lists all sweeps."""

    def page(self, address: Address) -> str | None:
        """The link to a page; None where it is not there."""

    def data(self, address: Address, chart: Chart) -> str:
        """The link to a chart's data as CSV, from the page of that address."""

    def asset(self, name: str) -> str:
        """The link to a file of dashboards/static or to plotly.min.js."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """One value of a control."""

    label: str
    address: Address
    """The page that shows it."""
    href: str | None
    """The link to it; None where an export does not hold it."""
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
    clicks: dict[str, Any] | None = field(default=None, repr=False)
    """For a heat map: the page behind a cell; see app.js."""
    legend: tuple[tuple[str, str], ...] = ()
    """Class and words of every colour, where Plotly's own legend does not say it."""
    direct: str = ""
    """Where the names of traces stand instead of a legend: `end` of their lines, or `beside` their
    points; empty is a legend."""
    height: int | None = None
    """In pixels; None leaves it to the browser."""


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
    groups: tuple[tuple[str, int], ...] = ()
    """A line over the header: words, and how many columns they span; columns are narrow then."""
    legend: tuple[tuple[str, str], ...] = ()
    """Class and words of every colour of the cells."""


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
