"""Options and fixtures that all tests share."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from fgrpo_bench.engines.embedded.kernels import choose_kernels
from tests.support import benchmarks

if TYPE_CHECKING:
    from fgrpo_bench.files.paths import RunPaths

# As in .ci/run: each worker of pytest-xdist has a processor, and threads that wait for one spin.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if find_spec("openrlhf") is None:  # whose engines keep the processor's own
    choose_kernels()  # before a test loads torch, as the commands do that some of them start
os.environ.pop("COLUMNS", None)  # workers of pytest-xdist have 80, whatever the screen is
for name in ("MAKEFLAGS", "ARGS"):  # what `make test` hands down is not for a make that a test runs
    os.environ.pop(name, None)
settings.register_profile(  # a busy machine is no failure
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden instead of comparing"
    )


def pytest_configure(config: pytest.Config) -> None:
    """What tests.support.plans composes is shared by the workers, which start after this, and by
    no other pytest, say one that a test starts in a checkout with other configurations."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="fgrpo-composed-")
        os.environ["FGRPO_TESTS_COMPOSED"] = folder.name
        config.add_cleanup(folder.cleanup)
        config.add_cleanup(lambda: os.environ.pop("FGRPO_TESTS_COMPOSED"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which of the two the tests of published grades took."""
    real = benchmarks.folder()
    named = f"the real benchmarks in {real}" if real else "case tables of our own (no benchmarks)"
    terminalreporter.write_line(f"tests of published grades take {named}")


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


SOMEBODY = "somebody"
"""Whose home folder the real run is made in."""


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A real sweep of four stages, finished and reported, made once for all workers; not to be
    changed. Its run root, `runs[1]*?`, reads as a pattern."""
    from fgrpo_bench.files.paths import RunPaths
    from tests.support.tiny_run import tiny_run

    own = tmp_path_factory.getbasetemp()
    home = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"home of {SOMEBODY}"
    home.mkdir(exist_ok=True)
    paths = RunPaths(
        root=home / "runs[1]*?", sweep="smoke", experiment="countdown-tiny", version="v1"
    )
    made = home / "made"  # a maker that failed leaves none, and the next one begins anew
    with (home / "lock").open("w") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, value in (("HOME", str(home)), ("USER", SOMEBODY), ("LOGNAME", SOMEBODY)):
            patch.setenv(name, value)
        if not made.exists():
            assert tiny_run(paths.root) == paths
            made.touch()
    return paths
