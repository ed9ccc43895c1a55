"""The guide to notebooks, run cell by cell, and what is shown there."""

from __future__ import annotations

import ast
import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import polars as pl
import pytest
from matplotlib.figure import Figure

import fgrpo_bench as fb
from evaluators.cli import main
from fgrpo_bench.documents import style
from sweeps import REPOSITORY
from tests.evaluators.test_groups import lines, rollouts
from tests.pages.blocks import blocks
from tests.report.conftest import drawing_plainly
from tests.support.synthetic import write_sweep

GUIDE = REPOSITORY / "docs/guides/notebook.md"
TUTORIAL = REPOSITORY / "docs/start/tutorial.ipynb"


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


@pytest.mark.slow  # pyplot is loaded and a figure drawn
def test_the_tutorial_shows_what_it_gives(golden) -> None:
    stored = json.loads(TUTORIAL.read_text(encoding="utf-8"))
    cells = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    (drawn,) = [cell for cell in cells if "axes.legend();" in cell["source"]]
    values = shown(["".join(cell["source"]) for cell in cells])
    for number, (cell, value) in enumerate(zip(cells, values, strict=True), start=1):
        result = {"data": {"text/plain": [repr(value)]}, "metadata": {}}
        cell["execution_count"] = number
        if cell is not drawn:  # letters of another machine's fonts have other widths
            typed = {"execution_count": number, "output_type": "execute_result"}
            cell["outputs"] = [result | typed]
    figure = values[cells.index(drawn)].axes.figure
    plt.close(figure)
    base, tuned = (line.get_ydata() for line in figure.axes[0].get_lines())
    assert base[0] < tuned[0] and base[-1] > tuned[-1], "the curves cross, as the text says"
    if not drawn["outputs"]:
        picture = style.drawings(lambda: figure, ["svg"])["svg"].decode().splitlines(keepends=True)
        data = {"image/svg+xml": picture, "text/plain": ["<Figure size 500x300 with 1 Axes>"]}
        drawn["outputs"] = [{"data": data, "metadata": {}, "output_type": "display_data"}]
    text = json.dumps(stored, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    golden("../../docs/start/tutorial.ipynb", text)


@pytest.mark.slow  # a whole sweep is analysed
def test_wandb_gets_every_step_of_training_and_pass_at_k_of_every_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a recorder in the place of wandb, which sends what it is given to its server."""
    monkeypatch.chdir(tmp_path)
    results = write_sweep(tmp_path / "runs")
    sent: dict[tuple[str, str], SimpleNamespace] = {}

    @contextmanager
    def init(*, project: str, group: str, name: str) -> Iterator[SimpleNamespace]:
        logged: list[int] = []
        run = SimpleNamespace(
            log=lambda row, step: logged.append(step), logged=logged, summary={}, project=project
        )
        yield sent.setdefault((group, name), run)

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    (code,) = blocks(REPOSITORY / "docs/guides/wandb.md", "python")
    exec(code, {})  # noqa: S102  (our own documentation)
    trained = {("training", point.point_id) for point in results.points if point.cell is not None}
    estimates = fb.load("groupsize").frame("estimates").filter(is_chosen=True)
    assert set(sent) == trained | {("cells", cell) for cell in estimates["cell"]}
    assert all(sent[each].logged == list(range(1, 21)) for each in trained)
    for cell, k, mean in estimates.select("cell", "k", "mean").iter_rows():
        assert sent["cells", cell].summary[f"pass_at_{k}/countdown"] == mean


@pytest.mark.slow
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
