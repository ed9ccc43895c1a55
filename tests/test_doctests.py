"""What docstrings show of a function is what it returns."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture import ROOTS

REPOSITORY = Path(__file__).parents[1]
SHOWING = sorted(
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
    for root in ROOTS
    for path in (REPOSITORY / root).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)
"""Modules with a doctest; no other is imported, so no optional package is needed."""


@pytest.mark.parametrize("module", SHOWING)
def test_what_a_docstring_shows_is_what_the_function_returns(module):
    failed, attempted = doctest.testmod(import_module(module))
    assert attempted and not failed
