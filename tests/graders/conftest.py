"""One judge for all tests of the math graders."""

from __future__ import annotations

import pytest

from fgrpo_bench.graders.judge import Judge, default_judge


@pytest.fixture(scope="session")
def judge() -> Judge:
    return default_judge()
