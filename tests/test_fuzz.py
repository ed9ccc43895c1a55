"""The fuzzer's targets on the texts that it begins with; `make fuzz` goes on from there."""

from __future__ import annotations

import pytest

from tests import fuzz


@pytest.mark.slow
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_every_target_takes_the_responses_of_the_case_tables(target):
    texts = fuzz.seeds()
    assert len(texts) > 200
    for text in texts[:: 10 if target == "synlogic" else 1]:  # each is an answer to 36 games
        fuzz.TARGETS[target](text)
