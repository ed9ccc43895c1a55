"""Options and fixtures that all tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import benchmarks

settings.register_profile(  # a busy machine is no failure
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden instead of comparing"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which of the two the tests of conformance graded."""
    real = benchmarks.folder()
    named = f"the real benchmarks in {real}" if real else "case tables of our own (no benchmarks)"
    terminalreporter.write_line(f"tests of conformance grade {named}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """golden(name, text): text must be the content of tests/golden/<name>."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} does not exist: make it with `pytest --update-golden`"
        assert text == path.read_text(encoding="utf-8"), (
            f"{path} says otherwise: where the change is meant, run `pytest --update-golden` and "
            "commit the difference"
        )

    return compare
