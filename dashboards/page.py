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


class Form:
    """What a page was asked for, each parameter looked up in what exists; and controls, whose every
    value is the page's address with that parameter."""

    def __init__(self, run: RunPaths, view: str, params: Params, links: Links) -> None:
        self._run, self._view, self._params, self._links = run, view, params, links
        self._valid: dict[str, list[str]] = {}
        self._defaults: dict[str, str] = {}
        self._chosen: dict[str, tuple[str, ...]] = {}

    def one(self, name: str, valid: Iterable[object], default: str | None = None) -> str:
        """The value of a parameter, which is left out of addresses where it is the default.

        default: None is the first valid one.
        """
        self._valid[name] = known = list(map(str, valid))
        self._defaults[name] = known[0] if default is None else default
        value = self._params.one(name, known, self._defaults[name])
        self._chosen[name] = (value,)
        return value

    def named(self, name: str, valid: Iterable[str], default: str) -> str:
        """The same of one that every address names."""
        value = self.one(name, valid, default)
        del self._defaults[name]
        return value

    def many(self, name: str, valid: Iterable[str]) -> tuple[str, ...]:
        """All values given; empty is no choice."""
        self._chosen[name] = self._params.many(name, valid)
        return self._chosen[name]

    def number(self, name: str) -> int | None:
        """A whole number; None where it is not given."""
        value = self._params.number(name)
        self._chosen[name] = () if value is None else (str(value),)
        return value

    def address(self, *forgotten: str, **changed: str) -> Address:
        """The page, or the one with other values. forgotten: parameters that mean nothing there."""
        chosen = {name: own for name, own in self._chosen.items() if name not in forgotten}
        chosen |= {name: (value,) for name, value in changed.items()}
        pairs = [(name, value) for name, own in chosen.items() for value in own]
        kept = [pair for pair in pairs if pair[1] != self._defaults.get(pair[0])]
        return Address(run=self._run, view=self._view, parameters=tuple(sorted(kept)))

    def control(
        self,
        name: str,
        label: str,
        words: Mapping[str, str] | None = None,
        *,
        long: bool = False,
        forgotten: Sequence[str] = (),
    ) -> Control:
        """words: label by value; None is the values themselves."""
        options = []
        for value in self._valid[name]:
            address, chosen = self.address(*forgotten, **{name: value}), self._chosen[name]
            href = self._links.page(address)
            if href is not None or value in chosen:
                text = value if words is None else words[value]
                options.append(
                    Option(label=text, address=address, href=href, chosen=value in chosen)
                )
        return Control(name=name, label=label, options=tuple(options), long=long)


def choices(*controls: Control) -> tuple[Control, ...]:
    """Those that leave a choice."""
    return tuple(each for each in controls if len(each.options) > 1)
