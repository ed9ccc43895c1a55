"""The guide to notebooks, run cell by cell, and what is shown there."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import polars as pl
import pytest
from matplotlib.figure import Figure

import fgrpo_bench as fb
from evaluators.cli import main
from sweeps import REPOSITORY
from tests.evaluators.test_groups import lines, rollouts
from tests.pages.blocks import blocks
from tests.report.conftest import drawing_plainly
from tests.support.synthetic import write_sweep

GUIDE = REPOSITORY / "docs/guides/notebook.md"


def shown(cells: list[str]) -> list[object]:
    """What a notebook shows below each cell: the value of its last line."""
    scope: dict[str, object] = {}
    values = []
    for cell in cells:
        *statements, last = ast.parse(cell).body
        exec(compile(ast.Module(statements, []), "cell", "exec"), scope)  # noqa: S102
        assert isinstance(last, ast.Expr)
        values.append(eval(compile(ast.Expression(last.value), "cell", "eval"), scope))  # noqa: S307
    return values


@pytest.mark.slow  # a whole sweep is analysed and drawn
def test_the_guide_runs_as_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path))
    write_sweep(tmp_path)
    with drawing_plainly():
        runs, compared, figure, names, curves, differences, curve = shown(blocks(GUIDE, "python"))
        assert isinstance(figure, Figure) and isinstance(curves, Figure)
        assert figure._repr_svg_().count("<svg") == curves._repr_svg_().count("<svg") == 1
    answer = "Does a focal weight at N = 8 raise pass@32?"
    assert runs._repr_html_().count("<table") == compared._repr_html_().count("<table") == 1
    assert answer in runs._repr_html_() and answer in repr(compared)
    assert "p Holm" in repr(compared) and "inconclusive" in compared._repr_html_()
    assert "curves-countdown" in names and names[0].startswith("curves-")
    assert isinstance(differences, pl.DataFrame) and len(differences) == 4
    estimates = fb.load("groupsize").analysis.estimates
    assert curve.equals(estimates.filter(cell="grpo-n8-g1", is_chosen=True)[curve.columns])
    with pytest.raises(ValueError, match="no figure 'curve': there are curves-countdown, "):
        runs.plot("curve")


def test_evaluations_and_dumps_are_shown_too_and_their_texts_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    lines(tmp_path / "<b>dump/1.jsonl", rollouts())
    assert main(["groups", "<b>dump", "--name", "mine"]) == 0
    groups = fb.load("groups/mine")
    assert "<b>dump" in repr(groups) and "&lt;b&gt;dump" in groups._repr_html_()
    assert "<b>" not in groups._repr_html_() and groups.figures[0] == "gradient"
    assert groups.frame("gradients")["method"].n_unique() > 10
    problems = [{"problem": f"{i} + {i}?", "answer": str(2 * i)} for i in range(6)]
    for name, right in (("a", 1), ("b", 3)):
        draws = [row | {"responses": [row["answer"]] * right + ["7"] * 2} for row in problems]
        lines(Path(f"{name}.jsonl"), draws)
        words = f"import {name}.jsonl --name {name}"
        assert main(shlex.split(words)) == 0
    compared = fb.load("evals/a+b").compare()
    row = compared.frame("comparisons").row(0, named=True)
    assert (row["new"], row["k"], row["n_problems"]) == ("b", 1, 6)
    assert row["difference"] == pytest.approx(3 / 5 - 1 / 3) and "<table" in compared._repr_html_()
    with pytest.raises(ValueError, match="no rule and no column"):
        fb.load("groups/mine", by="level")
