"""Plug-ins, and what they added taken back after each test."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from fgrpo_bench.core import registry


@pytest.fixture(autouse=True)
def forget() -> Iterator[Callable[[], None]]:
    """Makes this process one that has no plug-in, as it is before and after each test."""
    tables = {n: getattr(import_module(at), n.upper()) for n, at in registry.TABLES.items()}
    states = {**tables, "plugins": registry._plugins, "origins": registry._origins}
    before = {name: dict(state) for name, state in states.items()}

    def restore() -> None:
        os.environ.pop(registry.VARIABLE, None)
        for name, state in states.items():
            state.clear()
            state.update(before[name] if name in tables else {})

    restore()
    yield restore
    restore()


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As after `pip install` of the package beside this file."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    sys.modules.pop("fgrpo_parity", None)
