"""Plug-ins, and what they added taken back after each test."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from fgrpo_bench import doors


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    tables = {n: getattr(import_module(at), n.upper()) for n, at in doors.TABLES.items()}
    before = {name: dict(table) for name, table in tables.items()}
    monkeypatch.setattr(doors, "_plugins", {})
    monkeypatch.setattr(doors, "_origins", {})
    monkeypatch.delenv(doors.VARIABLE, raising=False)
    yield
    os.environ.pop(doors.VARIABLE, None)
    for name, table in tables.items():
        table.clear()
        table.update(before[name])


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As after `pip install` of the package beside this file."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    sys.modules.pop("fgrpo_parity", None)
