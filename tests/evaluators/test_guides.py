"""The guides of docs/guides, followed command by command with a model that is made here."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from fgrpo_bench.__main__ import main
from sweeps import REPOSITORY
from tests.evaluators.evaluations import strangers_model
from tests.pages.blocks import blocks
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

    def follow(guide: str) -> list[tuple[str, str]]:
        page = REPOSITORY / "docs" / "guides" / guide
        said = []
        for line in "".join(blocks(page, "bash")).splitlines():
            program, *words = shlex.split(line, comments=True)
            assert program == "fgrpo-bench" and main(words) == 0, line
            said.append((line, capsys.readouterr().out))
        return said

    return follow


def test_a_checkpoint_is_evaluated(followed):
    page = (REPOSITORY / "docs/guides/evaluate.md").read_text(encoding="utf-8")
    Path("mypkg").mkdir()
    Path("mypkg/grade.py").write_text(blocks(page, "python")[0])
    first, extended, audit, again, strict, judged = (out for _, out in followed("evaluate.md"))
    shown = [line for line in first.splitlines() if line.split(":")[0] in page][:4]
    for line in shown[1:]:  # the first has the digest of the page's own file
        assert line in page
    assert ", 64 draws: " in first and ", 128 draws: " in extended
    assert "math-strict" in strict and "math" in audit and "math-tolerance-" in again
    assert "grader mypkg.grade:grade, as mine-" in judged and "0.00%" in judged


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


def test_two_models_are_compared(followed, root):
    write_sweep(root)
    steps = [f"{run}-step-{step}" for run in "ab" for step in (100, 200)]
    for name in ("tuned-b", "tuned-c", *steps):
        shutil.copytree("out/tuned", f"out/{name}")
        words = ["evaluate", f"out/{name}", "--data", "mine.jsonl", "--max-tokens", "16"]
        assert main(words) == 0
    with drawing_plainly():
        said = [out for _, out in followed("compare.md")]
    *_, compared, files, gate, by_level, reported, exported, seeds, cells, along = said
    assert "tuned minus my-model" in compared and "+0.0 [" in compared
    assert files.split() == ["compare.html", "compare.csv", "compare.json"]
    assert gate == compared
    assert " by level: tuned minus my-model, pass@k in percent" in by_level
    assert (
        "tuned-1b78d1e6 against my-model-1b78d1e6" in reported and "report/report.tex" in reported
    )
    assert exported.count("/results_") == 2
    assert "3 seeds, paired in order" in seeds and "base: one model" in seeds
    assert "grpo-n8-g0.5 minus grpo-n8-g0" in cells
    assert "ours, theirs against base" in along and "theirs against ours" in along


def test_what_lm_eval_and_inspect_drew_is_imported(followed):
    answers = [str(a + b) for a, b in SUMS]
    texts = [f"What is {a} + {b}?" for a, b in SUMS]
    lines = [
        {"doc_id": i, "doc": {"question": text}, "resps": [[f"\\boxed{{{answer}}}"] * N]}
        for i, (text, answer) in enumerate(zip(texts, answers, strict=True))
    ]
    Path("samples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    samples = [
        {
            "id": i,
            "epoch": epoch,
            "input": [{"role": "user", "content": text}],
            "output": {"choices": [{"message": {"role": "assistant", "content": "no"}}]},
        }
        for i, text in enumerate(texts)
        for epoch in range(1, N + 1)
    ]
    Path("log.json").write_text(json.dumps({"samples": samples}))
    theirs, others, compared = (out for _, out in followed("import.md"))
    assert "100.0 [" in theirs and "0.0 [" in others
    assert "others minus theirs" in compared and "-100.0 [" in compared
