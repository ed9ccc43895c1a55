"""A finished sweep whose run root reads as a pattern, beside one that the pattern matches."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrpo_bench.stages.paths import RunPaths
from tests.support.dashboard import add_draws
from tests.support.synthetic import write_sweep
from tests.support.tiny_run import ONE_POINT, TINY, tiny_run

PATTERN, MATCHED = "runs[1]*?", "runs1xy"


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """A real sweep of four stages under PATTERN, with other results of the same names under
    MATCHED; not to be changed."""
    folder: Path = tmp_path_factory.mktemp("roots")
    others = write_sweep(folder / MATCHED, "smoke", [*TINY, *ONE_POINT])
    for point in others.points:
        add_draws(point, "countdown", ("other",))
    return tiny_run(folder / PATTERN)
