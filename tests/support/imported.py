"""Evaluations without a sweep, made of draws that a test writes down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from evaluators.__main__ import main

DRAWS = 8


def evaluate_alone(
    folder: Path, n_correct: Mapping[str, Sequence[int]], text: str = "What is"
) -> Path:
    """The run root below a folder, with an evaluation a name: of every problem so many of its DRAWS
    are correct. text: before each problem and behind each response."""
    root, problems = folder / "runs", folder / "mine.jsonl"
    count = max(map(len, n_correct.values()))
    rows = [{"question": f"{text} {i} + {i}?", "answer": str(2 * i)} for i in range(count)]
    _write(problems, rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FGRPO_RUN_ROOT", str(root))
        patch.delenv("FGRPO_VERDICTS", raising=False)
        for name, right in n_correct.items():
            answers = [
                [row["answer"] if i < c else "-1" for i in range(DRAWS)]
                for row, c in zip(rows, right, strict=True)
            ]
            drawn = [
                {
                    "problem": row["question"],
                    "responses": [f"\\boxed{{{value}}} {text}" for value in given],
                }
                for row, given in zip(rows, answers, strict=True)
            ]
            _write(folder / f"{name}.jsonl", drawn)
            words = ["import", str(folder / f"{name}.jsonl"), "--data", str(problems)]
            assert main([*words, "--name", name]) == 0
    return root


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
