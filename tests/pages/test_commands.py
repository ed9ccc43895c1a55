"""Every shell command and every Python block of README and docs, run or run dry."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from fgrpo_bench.__main__ import COMMANDS as PARTS
from fgrpo_bench.command import application
from sweeps import REPOSITORY
from tests.pages.blocks import PAGES, blocks, commands, name
from tests.pages.dry import OTHERS, by_module, recipe, way
from tests.support.slurm_programs import Programs
from tests.support.synthetic import write_sweep

COMMANDS = sorted({words for page in PAGES for words in commands(page)})
OWN_TESTS = {
    "docs/guides/task.md": "tests/plugin/test_extending.py",
    "docs/reference/integrations.md": "tests/integrations/test_trl.py",
    "docs/guides/notebook.md": "tests/report/test_notebook.py",
    "docs/guides/wandb.md": "tests/report/test_notebook.py",
    "docs/reference/mlflow.md": "tests/tracking/test_sync.py",
    "docs/developers/openrlhf-upstream.md": "tests/openrlhf/test_upstream.py",
}
"""Pages whose Python needs a plug-in, another trainer or a store, or is one notebook, and the
tests that run it."""
PYTHON = [(page, code) for page in PAGES for code in blocks(page, "python")]
NUMBER = re.compile(r"(\d+\.\d+)(\.\.\.)?")


LIST = REPOSITORY / "docs/reference/commands.md"
BEGIN = (
    "<!-- commands: `pytest tests/pages/test_commands.py --update-golden` writes what follows -->"
)


def test_the_list_of_commands_is_what_their_help_says(golden):
    rows = ["| command | what it does |", "| :-- | :-- |"]
    program = get_command(application.program({part: place for part, (place, _) in PARTS.items()}))
    for part, (_, about) in PARTS.items():
        rows.append(f"| **`{part}`** | {about} |")
        within = getattr(program.get_command(None, part), "commands", {})
        if len(within) > 1:
            rows += [
                f"| `{part} {own}` | {command.short_help} |" for own, command in within.items()
            ]
    intro, _, _ = LIST.read_text(encoding="utf-8").partition(BEGIN)
    golden("../../docs/reference/commands.md", "\n".join([intro + BEGIN, "", *rows]) + "\n")


@pytest.fixture
def finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a finished sweep `groupsize`, which is the root of all commands."""
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    results = write_sweep(tmp_path / "runs")
    assert results.paths.sweep == "groupsize"
    return results.paths.root


@pytest.mark.slow  # all together
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_of_the_pages_is_one_that_there_is(
    words: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if (other := OTHERS.get(tuple(words[:2]))) is not None:
        made_by, text = other
        assert text in (REPOSITORY / made_by).read_text(encoding="utf-8")
        return
    Programs(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    if words[:2] == ("python", "-c"):
        write_sweep(tmp_path / "runs")
        exec(words[2], {})  # noqa: S102  (our own documentation)
        return
    for python, option, module, *rest in (
        recipe(words[1:]) if words[0] == "make" else [by_module(words)]
    ):
        assert (python, option) == ("python", "-m")
        if rest[:1] == ["status"] or rest[1:] == ["--format", "csv"]:
            write_sweep(tmp_path / "runs")
        way([module, *rest])(module, rest)


@pytest.mark.parametrize("page, code", PYTHON, ids=[name(page) for page, _ in PYTHON])
def test_python_of_the_pages_gives_what_stands_beside_it(page: Path, code: str, finished: Path):
    if (test := OWN_TESTS.get(name(page))) is not None:
        assert (REPOSITORY / test).exists()
        compile(code, str(page), "exec")
        return
    scope: dict[str, object] = {}
    for node in ast.parse(code).body:
        source, comment = ast.get_source_segment(code, node), ""
        if isinstance(node, ast.Expr):
            value = eval(source or "", scope)  # noqa: S307  (our own documentation)
            comment = code.splitlines()[(node.end_lineno or 1) - 1].partition("#")[2]
        else:
            exec(source or "", scope)  # noqa: S102
            continue
        if numbers := NUMBER.findall(comment):
            assert_shown(np.ravel(np.asarray(value, dtype=float)).tolist(), numbers)


def assert_shown(values: Sequence[float], numbers: Sequence[tuple[str, str]]) -> None:
    """A number with dots behind it is the beginning of a value, one without them all of it."""
    assert len(values) == len(numbers)
    for value, (number, dots) in zip(values, numbers, strict=True):
        beginning = f"{value:.12f}"[: len(number)]
        assert beginning == number and (dots or value == pytest.approx(float(number), abs=1e-12))
