"""The guides of docs/guides, followed command by command with a model that is made here."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from fgrpo_bench.__main__ import main
from sweeps import REPOSITORY
from tests.evaluators.evaluations import strangers_model
from tests.evaluators.serving import serving
from tests.evaluators.written import FILES, PROBLEMS, verl, write_all
from tests.pages.blocks import assert_printed, blocks
from tests.report.conftest import drawing_plainly
from tests.support.synthetic import write_sweep

SUMS = [(1, 1), (2, 3), (7, 5), (3, 9)]
N = 8


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return strangers_model(tmp_path_factory.mktemp("models") / "my-model")


@pytest.fixture
def followed(root: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """Runs every command of a guide in a researcher's folder; what each printed."""
    monkeypatch.chdir(tmp_path)
    for name in ("my-model", "tuned"):
        shutil.copytree(model, tmp_path / "out" / name)
    rows = [
        {"question": f"What is {a} + {b}?", "answer": str(a + b), "level": level}
        for (a, b), level in zip(SUMS, ("easy", "easy", "hard", "hard"), strict=True)
    ]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def follow(guide: str, *, address: str = "") -> list[tuple[str, str]]:
        page = REPOSITORY / "docs" / "guides" / guide
        said = []
        for line in "".join(blocks(page, "bash")).splitlines():
            line = line.replace("http://localhost:8000/v1", address)
            program, *words = shlex.split(line, comments=True)
            words = words[: words.index(">")] if ">" in words else words
            assert program == "fgrpo-bench" and main(words) == 0, line
            said.append((line, capsys.readouterr().out))
        return said

    return follow


@pytest.mark.slow
def test_a_checkpoint_is_evaluated(followed):
    page = (REPOSITORY / "docs/guides/evaluate.md").read_text(encoding="utf-8")
    Path("mypkg").mkdir()
    Path("mypkg/grade.py").write_text(blocks(page, "python")[0])
    rows = [{"question": f"What is {a} + 1?", "solution": f"{a} + 1 = {a + 1}"} for a in (4, 5)]
    Path("solved.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with serving() as server:
        said = [out for _, out in followed("evaluate.md", address=server.url)]
    first, extended, audit, again, strict, greedy, shown_first, served, judged = said
    assert "greedy (temperature 0): one draw per problem" in greedy and ", 4 draws: " in greedy
    assert "few-shot: 2 solved examples of solved.jsonl, columns 'question' and" in shown_first
    assert "stop: a response ends before 'Q:'" in shown_first and ", 64 draws: " in shown_first
    assert ", 64 draws: " in served and "sampler: policy (/models/policy) of " in served
    _, settings = blocks(page, "")
    assert_printed(settings, first)
    assert ", 64 draws: " in first and ", 128 draws: " in extended
    assert "math-strict" in strict and "math" in audit and "math-tolerance-" in again
    assert "grader mypkg.grade:grade, as mine-" in judged and "0.00%" in judged


@pytest.mark.slow
def test_an_evaluation_is_told_by_a_column_which_is_looked_up_before_it_draws(
    followed, root, capsys
):
    words = ["evaluate", "out/tuned", "--data", "mine.jsonl", "--max-tokens", "16", "-n", "4"]
    assert main([*words, "--by", "question"]) == 1
    assert "--by question: no column of the problems is called so" in capsys.readouterr().err
    assert not list(root.glob("evals/*"))
    assert main([*words, "--by", "level"]) == 0
    _, _, by_level = capsys.readouterr().out.partition(": pass@k in percent by level")
    lines = [line.split() for line in by_level.splitlines() if line.startswith("math ")]
    assert [(line[1], line[2]) for line in lines if line[4] == "4"] == [
        ("easy", "2"),
        ("hard", "2"),
    ]


@pytest.mark.slow
@pytest.mark.rare
def test_two_models_are_compared(followed, root):
    write_sweep(root)
    steps = [f"{run}-step-{step}" for run in "ab" for step in (100, 200)]
    for name in ("tuned-b", "tuned-c", *steps):
        shutil.copytree("out/tuned", f"out/{name}")
        words = ["evaluate", f"out/{name}", "--data", "mine.jsonl", "--max-tokens", "16"]
        assert main(words) == 0
    with drawing_plainly():
        said = [out for _, out in followed("compare.md")]
    *_, compared, as_json, gate, by_level, reported, exported, seeds, cells, along = said
    assert "tuned minus my-model" in compared and "+0.0 [" in compared
    assert json.loads(as_json)["labels"] == ["my-model", "tuned"]
    assert Path("compare.html").exists() and Path("compare.csv").exists()
    assert gate == compared
    assert " by level: tuned minus my-model, pass@k in percent" in by_level
    assert (
        "tuned-1b78d1e6 against my-model-1b78d1e6" in reported and "report/report.tex" in reported
    )
    assert exported.count("/results_") == 2
    assert "3 seeds, paired in order" in seeds and "base: one model" in seeds
    assert "grpo-n8-g0.5 minus grpo-n8-g0" in cells
    assert "ours, theirs against base" in along and "theirs against ours" in along


@pytest.mark.slow
def test_what_every_program_drew_is_imported(followed, capsys):
    write_all(Path())
    for run in ("a", "b"):
        for step in (100, 200):
            verl(Path(run, "val", f"{step}.jsonl"), step)
    rows = [{"question": question, "answer": answer} for question, answer in PROBLEMS]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    imported, folders, files = (out for _, out in followed("import.md"))
    assert "read: val/200.jsonl, verl dump of a step (problem: input" in imported
    assert "verl and math disagree on 2 of 4 draws" in imported
    assert "Steps: a/val 200, b/val 200." in folders
    assert "traces.jsonl minus 200.jsonl" in files
    page = (REPOSITORY / "docs/guides/import.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\|.*\| `fgrpo-bench (evaluate import .*?)` \|", page, re.MULTILINE)
    assert len(commands) == len(FILES) - 1  # inspect writes two kinds of files
    for command in commands:
        assert main(shlex.split(command)) == 0, command
        shown = capsys.readouterr().out
        ours = "50.0 [" if "--verdicts theirs" in command else "100.0 ["
        assert ours in shown and "read: " in shown, command
