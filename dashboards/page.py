"""What a page is made of, before any markup: parameters, controls, charts and tables.

In: what a page was asked for, looked up in what exists (`Form`). Out: a `Page`, which rendering.py
turns into HTML. Next: pages/, which build them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

import polars as pl

from fgrpo_bench.documents.table import Value
from fgrpo_bench.files.paths import EVALUATIONS, RunPaths, StagePaths

VIEWS = {
    "sweep": "Sweep",
    "compare": "Compare",
    "forgetting": "Forgetting",
    "draws": "Draws",
    "rollouts": "Rollouts",
    "audit": "Audit",
}
"""Views of a sweep by their part of the address, in the order of the navigation."""


def available_views(run: RunPaths) -> dict[str, str]:
    """Those that a run has: evaluations have no training to look at, and not every engine stores
    rollouts of it."""
    is_sweep = run.sweep != EVALUATIONS
    points = run.folder.iterdir() if is_sweep and run.folder.is_dir() else ()
    has = {
        "sweep": is_sweep,
        "rollouts": any(StagePaths(folder).rollouts.exists() for folder in points),
    }
    return {name: title for name, title in VIEWS.items() if has.get(name, True)}


Parameters = tuple[tuple[str, str], ...]
CSV = "csv"
"""Parameter that names the chart whose data is wanted instead of the page."""


@dataclass(frozen=True, kw_only=True)
class Address:
    """A page: a view of a run with the parameters that differ from their defaults, sorted."""

    run: RunPaths
    view: str
    parameters: Parameters = ()

    @property
    def href(self) -> str:
        """The link to it, e.g. /groupsize/countdown/v1/compare?k=16."""
        run = self.run
        parts = (run.sweep, run.experiment, run.version, self.view)
        query = urlencode(self.parameters)
        return (
            "/" + "/".join(quote(part, safe="") for part in parts) + (f"?{query}" if query else "")
        )

    def data(self, chart: Chart) -> str:
        """The link to a chart's data as CSV."""
        return replace(self, parameters=(*self.parameters, (CSV, chart.name))).href


def first_view(run: RunPaths) -> str:
    """The one that is opened where none is named."""
    return next(iter(available_views(run)))


@dataclass(frozen=True, kw_only=True)
class Option:
    """One value of a control."""

    label: str
    href: str
    """The link to the page that shows it."""
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
class ColoredCell(Value):
    """A table cell with a colour and perhaps a page behind it."""

    level: int | None = None
    """0 (lowest) to 10 of the colour scale; None is without colour."""
    href: str | None = None
    title: str = ""
    kind: str = ""
    """Class of a state or an outcome, e.g. `failed`."""


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
    legend: tuple[tuple[ColoredCell, str], ...] = ()
    """Every colour and its words, where Plotly's own legend does not say it."""
    direct: str = ""
    """Where the names of traces stand instead of a legend: `end` of their lines, or `beside` their
    points; empty is a legend."""
    height: int | None = None
    """In pixels; None leaves it to the browser."""


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


LISTED = 300
"""Most characters of valid values that an error lists."""
LONGEST_TEXT = 200
"""Characters of a text to search for."""
Given = Mapping[str, Sequence[str]]
"""Values of parameters as they came."""


class Form:
    """What a page was asked for; nothing else is done with values as they came. LookupError for
    one that is not among the valid ones."""

    def __init__(self, run: RunPaths, view: str, given: Given) -> None:
        self._run, self._view, self._given = run, view, given
        self._valid: dict[str, list[str]] = {}
        self._defaults: dict[str, str] = {}
        self._chosen: dict[str, tuple[str, ...]] = {}

    def value(self, name: str, valid: Iterable[object], default: str | None = None) -> str:
        """The value of a parameter, which is left out of addresses where it is the default.

        default: None is the first valid one.
        """
        self._valid[name] = choices = list(map(str, valid))
        self._defaults[name] = default = choices[0] if default is None else default
        value = (self._given.get(name) or [default])[-1]
        self._chosen[name] = (value if value == default else _check_choice(name, value, choices),)
        return self._chosen[name][0]

    def named(self, name: str, valid: Iterable[str], default: str) -> str:
        """The same of one that every address names."""
        value = self.value(name, valid, default)
        del self._defaults[name]  # the default changes while a sweep runs, an address must not
        return value

    def values(self, name: str, valid: Iterable[str]) -> tuple[str, ...]:
        """All values given, in the order of the valid ones; empty is no choice."""
        choices = list(valid)
        chosen = {_check_choice(name, value, choices) for value in self._given.get(name, ())}
        self._chosen[name] = tuple(value for value in choices if value in chosen)
        return self._chosen[name]

    def number(self, name: str) -> int | None:
        """A whole number from 0 to a billion; None where it is not given."""
        value = (self._given.get(name) or [""])[-1].strip()
        self._chosen[name] = (str(int(value)),) if _is_number(value) else ()
        if value and not _is_number(value):
            raise LookupError(f"{name}={value[:40]!r}: must be a whole number, e.g. {name}=100")
        return int(value) if value else None

    def text(self, name: str) -> str:
        """What was typed, at most LONGEST_TEXT characters; empty where nothing was."""
        value = (self._given.get(name) or [""])[-1]
        self._chosen[name] = (value,) if value else ()
        if len(value) > LONGEST_TEXT:
            raise LookupError(f"{name}: at most {LONGEST_TEXT} characters, not {len(value)}")
        return value

    def address(self, *forgotten: str, **changed: str) -> Address:
        """The page, or the one with other values. forgotten: parameters that mean nothing there."""
        chosen = {name: values for name, values in self._chosen.items() if name not in forgotten}
        chosen |= {name: (value,) for name, value in changed.items()}
        pairs = [(name, value) for name, values in chosen.items() for value in values]
        kept = [pair for pair in pairs if pair[1] != self._defaults.get(pair[0])]
        return Address(run=self._run, view=self._view, parameters=tuple(sorted(kept)))

    def control(
        self,
        name: str,
        label: str,
        labels: Mapping[str, str] | None = None,
        *,
        long: bool = False,
        forgotten: Sequence[str] = (),
    ) -> Control:
        """Every value as the page's address with it. labels: label by value; None is the values
        themselves. long: as in Control."""
        options = (
            Option(
                label=value if labels is None else labels[value],
                href=self.address(*forgotten, **{name: value}).href,
                chosen=value in self._chosen[name],
            )
            for value in self._valid[name]
        )
        return Control(name=name, label=label, options=tuple(options), long=long)


def choices(*controls: Control) -> tuple[Control, ...]:
    """Those that leave a choice."""
    return tuple(control for control in controls if len(control.options) > 1)


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 10


def _check_choice(name: str, value: str, valid: Sequence[str]) -> str:
    if value in valid:
        return value
    listed = ", ".join(valid)
    listed = listed if len(listed) <= LISTED else f"{listed[:LISTED]} ..."
    raise LookupError(f"unknown {name} {value[:80]!r}: it is one of {listed}")
