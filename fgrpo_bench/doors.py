"""Tables by name, and the door through which other packages add to them.

A package adds by an entry point of the group `fgrpo_bench`, a module of a checkout by `plugins:
[module]` in the configuration. What either names has, for each table it adds to, a dictionary of
the table's own name (GRADERS, TASKS, ...). No name is given twice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

GROUP = "fgrpo_bench"
VARIABLE = "FGRPO_PLUGINS"
"""Names the modules that `plugins` lists, with commas, to this process and those it starts."""
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


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """What another package adds."""

    package: str
    version: str
    tables: dict[str, dict[str, Any]]
    """What it adds, by table."""


_plugins: dict[str, Plugin] = {}
"""Those that were loaded, by the entry point or module that named them."""
_origins: dict[tuple[str, str], Plugin] = {}
"""Who added a name to a table; the package's own names stand in none."""


def load(modules: Iterable[str]) -> None:
    """Add what modules bring, here and in every process that this one starts.

    ValueError for one that cannot be imported, has no __version__ or adds to no table.
    """
    named = dict.fromkeys([*filter(None, os.environ.get(VARIABLE, "").split(",")), *modules])
    if named:
        os.environ[VARIABLE] = ",".join(named)
    _load()


def table(name: str) -> dict[str, Any]:
    """A table with all that was added to it; ValueError where two packages add the same name."""
    entries: dict[str, Any] = getattr(import_module(TABLES[name]), name.upper())
    _load()
    for plugin in list(_plugins.values()):
        for key, entry in plugin.tables.get(name, {}).items():
            former = _origins.get((name, key))
            if key in entries and entries[key] is entry:
                continue  # added before, or installed and named in the configuration too
            if key in entries:
                raise ValueError(
                    f"the {_noun(name)} {key!r} is both {plugin.package}'s and "
                    f"{former.package if former else GROUP}'s: rename one, or do without one of "
                    "the packages"
                )
            entries[key] = entry
            _origins[name, key] = plugin
    return entries


def entry(name: str, key: str) -> Any:
    """What a table has under a name; ValueError that lists the valid names."""
    entries = table(name)
    if key not in entries:
        known = ", ".join(sorted(entries))
        raise ValueError(f"unknown {_noun(name)} {key!r}: valid ones are {known}")
    return entries[key]


def origin(name: str, key: str) -> dict[str, str] | None:
    """Package and version that a name of a table came with; None for ours."""
    table(name)
    plugin = _origins.get((name, key))
    return None if plugin is None else {"package": plugin.package, "version": plugin.version}


def identity(**names: str | None) -> dict[str, Any]:
    """What plug-ins add to the identity of something that is made with names of tables, e.g.
    identity(tasks="parity"); nothing where all are ours or None."""
    origins = {name: key and origin(name, key) for name, key in names.items()}
    added = {name: each for name, each in origins.items() if each}
    return {"plugins": added} if added else {}


def record() -> dict[str, Any]:
    """Versions of the plug-ins that are loaded here, for what is made with them; nothing without
    any."""
    _load()
    loaded = {each.package: each.version for key, each in _plugins.items() if key != GROUP}
    return {"plugins": loaded} if loaded else {}


def _noun(name: str) -> str:
    return name.removesuffix("s")


def _load() -> None:
    for module in filter(None, os.environ.get(VARIABLE, "").split(",")):
        if module not in _plugins:
            _plugins[module] = _of_module(module)
    if GROUP not in _plugins:  # which then stands for all that is installed
        installed = dict(_installed())
        _plugins.update({GROUP: Plugin(package=GROUP, version="", tables={})} | installed)


def _of_module(name: str) -> Plugin:
    try:
        module = import_module(name)
    except ImportError as error:
        raise ValueError(
            f"plugins has {name!r}, which cannot be imported ({error}): install it where stages "
            "run, put it in the checkout, or leave it out"
        ) from error
    if not isinstance(getattr(module, "__version__", None), str):
        raise ValueError(
            f"plugins has {name!r}, which has no __version__: give it one, which results will "
            "name, and raise it with every change of what it computes"
        )
    return _plugin(name, module.__version__, module)


def _installed() -> Iterator[tuple[str, Plugin]]:
    from importlib.metadata import entry_points  # takes a while to load

    for point in entry_points(group=GROUP):
        assert point.dist is not None  # only points that were made by hand have none
        try:
            added = point.load()
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"the plug-in {point.value} of {point.dist.name} cannot be loaded ({error}): mend "
                "or uninstall it"
            ) from error
        yield f"{point.dist.name}:{point.name}", _plugin(point.dist.name, point.dist.version, added)


def _plugin(package: str, version: str, added: object) -> Plugin:
    tables = {name: dict(getattr(added, name.upper(), {})) for name in TABLES}
    if not any(tables.values()):
        names = ", ".join(name.upper() for name in TABLES)
        raise ValueError(f"the plug-in {package} adds to no table: give it one of {names}")
    return Plugin(package=package, version=version, tables=tables)
