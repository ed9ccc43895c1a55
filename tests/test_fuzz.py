"""The fuzzer's targets on the texts that it begins with; `make fuzz` goes on from there."""

from __future__ import annotations

import pytest

from tests import fuzz


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_every_target_takes_the_responses_of_the_case_tables(target):
    assert len(fuzz.seeds()) > 200
    for text in fuzz.seeds():
        fuzz.TARGETS[target](text)


def test_a_text_that_failed_can_be_repeated(tmp_path, monkeypatch):
    path = tmp_path / "crash"
    path.write_bytes(b"\\boxed{\xff}")
    assert fuzz.main(["--text", str(path)]) == 0
    seen = []
    monkeypatch.setitem(fuzz.TARGETS, "choice", seen.append)
    fuzz.main(["1", "choice", "--text", str(path)])
    assert seen == ["\\boxed{\udcff}"]
