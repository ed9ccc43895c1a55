"""What holds for every test here."""

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_shared_between_tests(monkeypatch):
    """The command sets it in its own process, which the tests share."""
    monkeypatch.setenv("FGRPO_DRAWS", "")
