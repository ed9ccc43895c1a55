"""Stored mutants are found again, and killed by tests that notice them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.mutants import __main__ as program

SUMS = """
def larger(a: float, b: float) -> float:
    'The larger one of 1 and 2.'
    return max(a, b)

class Count:
    def half(self, n: int) -> int:
        if n < 0:
            raise ValueError(f"{n + 1} is below 0")
        return n // 2

    def down(self, n: int) -> int:
        while n > 0:
            n = n - 1
        return n
"""
TESTS = """
from fgrpo_bench.stats.sums import Count, larger

def test_sums():
    assert larger(2, 2) == 2
    assert Count().half(4) == 2
    assert Count().down(3) == 0
"""
OTHERS = """
from fgrpo_bench.stats.more import largest

def test_others():
    assert largest([2, 1]) == 2
"""
TABLE = [
    {"function": "larger", "expression": "max(a, b)", "replacement": "min(a, b)"},
    {"function": "Count.half", "expression": "n // 2", "replacement": "n / 2"},
    {"function": "Count.down", "expression": "n - 1", "replacement": "n + 0"},
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of one module, its tests and a table of three mutants."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("/cache/\n")
    put(tmp_path, "fgrpo_bench/stats/sums.py", SUMS)
    put(tmp_path, "tests/stats/test_sums.py", TESTS)
    more = "from functools import reduce\n\nfrom fgrpo_bench.stats.sums import larger\n"
    more += "\ndef largest(numbers):\n    return reduce(larger, numbers)\n"
    put(tmp_path, "fgrpo_bench/stats/more.py", more)
    put(tmp_path, "tests/stats/test_others.py", OTHERS)
    home = {"module": "fgrpo_bench.stats.sums", "ordinal": 0}
    rows = [json.dumps({"id": i, **home, **row}) for i, row in enumerate(TABLE, 1)]
    put(tmp_path, program.TABLE, "\n".join(rows))
    return tmp_path


def put(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def columns(root: Path, name: str) -> dict[int, str | int | None]:
    return {mutant.id: getattr(mutant, name) for mutant in program.stored(root)}


@pytest.mark.slow
@pytest.mark.rare
def test_what_tests_notice_is_killed_and_what_they_no_longer_notice_is_lost(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that never ends is killed, and so is one that other tests notice than those which import
    the module; a half that is a fraction survives, for 2.0 equals 2."""
    assert program.main(["--record", "--jobs", "2", "--only", "1", "2"], root=root) == 0
    with monkeypatch.context() as patch:
        patch.setattr(program, "LEAST_SECONDS", 3.0)
        patch.setattr(program, "PATIENCE", 1)
        assert program.main(["--record", "--only", "3"], root=root) == 0
    assert columns(root, "before") == {1: "killed", 2: "survived", 3: "killed"}
    assert (root / "fgrpo_bench/stats/sums.py").read_text() == SUMS

    with monkeypatch.context() as patch:  # the same texts have the same verdicts: nothing runs
        patch.setattr(program.Copies, "run", None)
        assert program.main([], root=root) == 0

    put(root, "tests/stats/test_others.py", OTHERS.replace("[2, 1]", "[2]"))
    capsys.readouterr()
    assert program.main(["--only", "1"], root=root) == 1
    assert "1 were killed before and survive now\nlost     1: " in capsys.readouterr().out
