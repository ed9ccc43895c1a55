"""Tables by name, and how other packages add to them.

A package adds by an entry point of the group `fgrpo_bench`, a module of a checkout by `plugins:
[module]` in the configuration. What either names has, for each table it adds to, a dictionary of
the table's own name (GRADERS, TASKS, ...). No name is given twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

GROUP, VARIABLE = "fgrpo_bench", "FGRPO_PLUGINS"
"""VARIABLE names the modules of `plugins`, with commas, to this process and those it starts."""
TABLES = {
    "tasks": "fgrpo_bench.tasks",
    "graders": "fgrpo_bench.graders",
    "benchmarks": "fgrpo_bench.specs.config",
    "layouts": "fgrpo_bench.data.layouts",
    "advantages": "fgrpo_bench.objectives.advantages",
    "objectives": "fgrpo_bench.objectives.losses",
    "engines": "fgrpo_bench.engines.table",
}
"""The module of each table, where it has its own name in capitals."""
BY_NAME = {"graders": ("fgrpo_bench.graders.function", "fgrpo_bench.graders.recorded")}
"""Tables with further names, by the modules whose `entry` makes one of them, or None of another: of
somebody's `module:function`, and of verdicts that came with draws."""


@dataclass(frozen=True)
class Plugin:
    """Who adds, and what to each table."""

    package: str
    version: str
    tables: dict[str, dict[str, Any]]


_plugins: dict[str, Plugin] = {}
"""By the entry point or module that named them; GROUP stands for all that is installed."""
_origins: dict[tuple[str, str], Plugin] = {}
"""Who added a name to a table; the package's own names are not in it."""


def load(modules: Iterable[str]) -> None:
    """Add what modules bring, here and in every process that this one starts.

    ValueError for one that cannot be imported, has no __version__ or adds to no table.
    """
    named = dict.fromkeys([*_named(), *modules])
    if named:
        # processes that this one starts load the same modules
        os.environ[VARIABLE] = ",".join(named)
    _load()


def table(name: str) -> dict[str, Any]:
    """A table with all that was added to it; ValueError where two packages add the same name."""
    entries: dict[str, Any] = getattr(import_module(TABLES[name]), name.upper())
    _load()
    for plugin in list(_plugins.values()):
        for key, entry in plugin.tables.get(name, {}).items():
            if key not in entries:
                entries[key], _origins[name, key] = entry, plugin
            elif entries[key] is not entry:  # it may be installed and named in the configuration
                former = _origins.get((name, key))
                raise ValueError(
                    f"the {name[:-1]} {key!r} is both {plugin.package}'s and "
                    f"{former.package if former else GROUP}'s: rename one, or do without one of "
                    "the packages"
                )
    return entries


def entry(name: str, key: str) -> Any:
    """What a table has under a name; ValueError that lists the valid names."""
    entries = table(name)
    for module in BY_NAME.get(name, ()) if key not in entries else ():
        if (further := import_module(module).entry(key)) is not None:
            return further
    if key not in entries:
        names = ", ".join(sorted(entries))
        near = suggestion(key, entries)
        raise ValueError(f"unknown {name[:-1]} {key!r}{near}: valid ones are {names}")
    return entries[key]


def suggestion(name: str, valid: Iterable[str]) -> str:
    """What a refusal of a name adds where a valid one is spelt much like it.

    >>> suggestion("groupsiz", ["gamma", "groupsize"])
    ' (did you mean groupsize?)'
    """
    near = nearest(name, valid)
    return did_you_mean([near] if near else [])


def did_you_mean(names: Sequence[str]) -> str:
    """The same of names that are chosen already; empty for none."""
    return f" (did you mean {' or '.join(names)}?)" if names else ""


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name that is spelt most like a wrong one; None where none is."""
    from difflib import get_close_matches  # a refusal alone needs it

    return next(iter(get_close_matches(name, list(valid), n=1)), None)


def origin(name: str, key: str) -> dict[str, str] | None:
    """Package and version that a name of a table came with; None for ours."""
    table(name)
    plugin = _origins.get((name, key))
    return None if plugin is None else {"package": plugin.package, "version": plugin.version}


def identity(**names: str | None) -> dict[str, Any]:
    """What plug-ins add to the identity of something that is made with names of tables, e.g.
    identity(tasks="parity"); nothing where all are ours or None."""
    origins = {name: key and origin(name, key) for name, key in names.items()}
    added = {name: origin for name, origin in origins.items() if origin}
    return {"plugins": added} if added else {}


def record() -> dict[str, Any]:
    """Versions of the plug-ins that are loaded, for what is made with them; nothing without any."""
    _load()
    loaded = {plugin.package: plugin.version for key, plugin in _plugins.items() if key != GROUP}
    return {"plugins": loaded} if loaded else {}


def _named() -> list[str]:
    return [*filter(None, os.environ.get(VARIABLE, "").split(","))]


def _load() -> None:
    for name in _named():
        if name not in _plugins:
            _plugins[name] = _module_plugin(name)
    if GROUP not in _plugins:
        _plugins.update({GROUP: Plugin(GROUP, "", {})} | dict(_installed()))


def _module_plugin(name: str) -> Plugin:
    try:
        module = import_module(name)
    except ImportError as error:
        raise ValueError(
            f"plugins has {name!r}, which cannot be imported ({error}): install it where stages "
            "run, put it in the checkout, or leave it out"
        ) from error
    version = getattr(module, "__version__", None)
    if not isinstance(version, str):
        raise ValueError(
            f"plugins has {name!r}, which has no __version__: give it one, which results will "
            "name, and raise it with every change of what it computes"
        )
    return _plugin(name, version, module)


def _installed() -> Iterator[tuple[str, Plugin]]:
    from importlib.metadata import entry_points  # takes a while to load

    for point in entry_points(group=GROUP):
        assert point.dist is not None  # only points that were made by hand have none
        name, version = point.dist.name, point.dist.version
        try:
            yield f"{name}:{point.name}", _plugin(name, version, point.load())
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"the plug-in {point.value} of {name} cannot be loaded ({error}): mend or "
                "uninstall it"
            ) from error


def _plugin(package: str, version: str, added: object) -> Plugin:
    tables = {name: dict(getattr(added, name.upper(), {})) for name in TABLES}
    if not any(tables.values()):
        names = ", ".join(name.upper() for name in TABLES)
        raise ValueError(f"the plug-in {package} adds to no table: give it one of {names}")
    return Plugin(package, version, tables)
