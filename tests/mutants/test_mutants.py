"""Stored mutants are found again, and killed by tests that notice them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.mutants import __main__ as program
from tests.mutants.__main__ import HOMES, choose_tests
from tests.mutants.expressions import Module, mutants, read

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


def test_tests_that_fail_without_a_mutant_say_nothing(root: Path) -> None:
    put(root, "tests/stats/test_sums.py", TESTS.replace("== 0", "== 1"))
    with pytest.raises(SystemExit, match=r"without a mutant this fails: tests/stats/test_sums\.py"):
        program.main([], root=root)
    assert not (root / program.CACHE).exists()


def test_a_mutant_goes_with_its_code(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a function has another name, or an expression is gone, the table names what follows."""
    (root / "fgrpo_bench/stats/more.py").unlink()
    (root / "fgrpo_bench/stats/sums.py").rename(root / "fgrpo_bench/stats/numbers.py")
    assert program.main(["--dry-run"], root=root) == 0
    said = capsys.readouterr().out
    assert said.count("stands in fgrpo_bench.stats.numbers now") == 3
    assert "tests/stats/test_others.py tests/stats/test_sums.py" in said  # none imports the new one

    put(
        root, "fgrpo_bench/stats/numbers.py", SUMS.replace("larger(", "largest(").replace("//", "%")
    )
    assert program.main(["--dry-run"], root=root) == 1
    assert capsys.readouterr().out.count("is gone") == 2
    assert program.main(["--replace", "1"], root=root) == 0
    with pytest.raises(SystemExit, match=r"fgrpo_bench\.stats\.sums is no more"):
        program.main(["--replace", "2"], root=root)
    text = (root / program.TABLE).read_text().replace("stats.sums", "stats.numbers")
    put(root, program.TABLE, text)
    assert program.main(["--replace", "2"], root=root) == 0
    assert columns(root, "replaced_by") == {1: 4, 2: 5, 3: None, 4: None, 5: None}
    assert columns(root, "function")[4] == "largest"
    assert program.main(["--dry-run"], root=root) == 0

    put(root, "fgrpo_bench/stats/more.py", SUMS)
    put(root, "fgrpo_bench/stats/most.py", SUMS)
    (root / "fgrpo_bench/stats/numbers.py").unlink()
    assert program.main(["--dry-run", "--only", "3"], root=root) == 1
    several = "stands in several files: fgrpo_bench.stats.more, fgrpo_bench.stats.most"
    assert several in capsys.readouterr().out


def test_every_drawn_mutant_is_one_changed_expression_and_no_word_is_changed() -> None:
    module = Module("sums", Path("sums.py"), SUMS)
    drawn = {(m.expression, m.replacement): module.mutated(m) for m in mutants(module)}
    assert set(drawn) == {
        ("max(a, b)", "min(a, b)"),
        ("max(a, b)", "0.0"),
        ("n < 0", "n <= 0"),
        ("n < 0", "n < 1"),
        ("n // 2", "n / 2"),
        ("n // 2", "n // 3"),
        ("n // 2", "0"),
        ("n > 0", "n >= 0"),
        ("n > 0", "n > 1"),
        ("n - 1", "n + 1"),
        ("n - 1", "n - 0"),
    }
    for (expression, replacement), text in drawn.items():
        assert text == SUMS.replace(expression, f"({replacement})")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = a[i] + a[i] - 1", {"a[i] - a[i]", "a[i] + a[i] + 1", "a[i] + a[i] - 0"}),
        ("x = 'é' + a if not b else f(c, d)", {"b", "f(d, c)"}),
        ("x: list[1] = a and b", {"a or b"}),
        ("log.info(a + b); x = a[1:, None]", {"a[0:, None]"}),
        ("x = a < b < c", {"a <= b < c", "a < b <= c"}),
        ("x = folder / a, isinstance(b, c)", set()),
    ],
)
def test_mutations(text: str, expected: set[str]) -> None:
    module = Module("m", Path("m.py"), f"def f():\n    {text}\n")
    assert {m.replacement for m in mutants(module)} == expected


def test_a_second_of_equal_expressions_is_told_from_the_first() -> None:
    module = Module("m", Path("m.py"), "def f(a, b):\n    a = b < a\n    b = b < a\n")
    texts = [module.mutated(m) for m in mutants(module)]
    assert texts == [
        "def f(a, b):\n    a = (b <= a)\n    b = b < a\n",
        "def f(a, b):\n    a = b < a\n    b = (b <= a)\n",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--draw"], "exists: --replace"),
        (["--jobs", "0"], "--jobs 0: at least 1"),
        (["--only", "17"], "17: neither the id of"),
        (["--replace", "17"], "17: neither the id of"),
    ],
)
def test_wrong_words_are_refused(
    root: Path, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.main(arguments, root=root)
    assert words in capsys.readouterr().err


def test_tests_are_chosen_by_what_they_import(root: Path) -> None:
    """Directly, as a part of its folder, or through the package that names its part again."""
    put(
        root,
        "fgrpo_bench/stats/__init__.py",
        "from fgrpo_bench.stats.sums import larger as large\n",
    )
    modules = read(root, ["fgrpo_bench"])

    own, others = "tests/stats/test_sums.py", "tests/stats/test_others.py"
    for line, expected in {
        "from fgrpo_bench.stats import large": ((own, others), ()),
        "from fgrpo_bench.stats import sums": ((own, others), ()),
        "from fgrpo_bench.stats import Count": ((own,), (others,)),
    }.items():
        put(root, others, line)
        assert choose_tests("fgrpo_bench.stats.sums", modules, root, HOMES) == expected
    with pytest.raises(ValueError, match="no tests are known of dashboards"):
        choose_tests("dashboards.app", modules, root, HOMES)
    with pytest.raises(ValueError, match=r"HOMES has tests/stat for a, which is no file"):
        choose_tests("a.b", modules, root, {"a": ("tests/stat",)})
