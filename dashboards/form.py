"""The parameters of a page, each looked up in what exists, and the controls that change one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dashboards.page import Address, Control, Links, Option
from fgrpo_bench.stages.paths import RunPaths

LISTED = 300
"""Most characters of valid values that an error lists."""
LONGEST_TEXT = 200
"""Characters of a text to search for."""

Given = Mapping[str, Sequence[str]]
"""Values of parameters as they came."""


class Form:
    """What a page was asked for; nothing else is done with values as they came. LookupError for
    one that is not among the valid ones."""

    def __init__(self, run: RunPaths, view: str, given: Given, links: Links) -> None:
        self._run, self._view, self._given, self._links = run, view, given, links
        self._valid: dict[str, list[str]] = {}
        self._defaults: dict[str, str] = {}
        self._chosen: dict[str, tuple[str, ...]] = {}

    def value(self, name: str, valid: Iterable[object], default: str | None = None) -> str:
        """The value of a parameter, which is left out of addresses where it is the default.

        default: None is the first valid one.
        """
        self._valid[name] = known = list(map(str, valid))
        self._defaults[name] = default = known[0] if default is None else default
        value = (self._given.get(name) or [default])[-1]
        self._chosen[name] = (value if value == default else _known(name, value, known),)
        return self._chosen[name][0]

    def named(self, name: str, valid: Iterable[str], default: str) -> str:
        """The same of one that every address names."""
        value = self.value(name, valid, default)
        del self._defaults[name]
        return value

    def values(self, name: str, valid: Iterable[str]) -> tuple[str, ...]:
        """All values given, in the order of the valid ones; empty is no choice."""
        known = list(valid)
        wanted = {_known(name, value, known) for value in self._given.get(name, ())}
        self._chosen[name] = tuple(value for value in known if value in wanted)
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
        """Every value as the page's address with it. words: label by value; None is the values
        themselves. long: as in Control."""
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


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 10


def _known(name: str, value: str, valid: Sequence[str]) -> str:
    if value in valid:
        return value
    listed = ", ".join(valid)
    listed = listed if len(listed) <= LISTED else f"{listed[:LISTED]} ..."
    raise LookupError(f"unknown {name} {value[:80]!r}: it is one of {listed}")
