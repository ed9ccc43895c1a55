"""One judge for all tests of the math grader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fgrpo_bench.graders.judge import Judge


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    with Judge() as made:
        yield made
