"""The skill for coding agents: installed where they look, and every line of it run."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml

from fgrpo_bench.__main__ import main
from fgrpo_bench.command.skill import NAME, SKILL
from tests.evaluators.evaluations import ROWS, strangers_model
from tests.evaluators.test_groups import lines, rollouts
from tests.pages.blocks import blocks
from tests.support.synthetic import write_sweep


def run(words: str) -> int | str | None:
    try:
        return main(shlex.split(words))
    except SystemExit as error:
        return error.code


def test_the_skill_is_installed_with_its_name_and_description_on_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("skill") == run("skill --install skills") == run("skill --install skills") == 0
    installed = Path("skills", NAME, "SKILL.md")
    text = installed.read_text(encoding="utf-8")
    assert text == SKILL.read_text(encoding="utf-8") and text in capsys.readouterr().out
    empty, front, _ = text.split("---\n", 2)
    fields = yaml.safe_load(front)
    assert not empty and fields.keys() == {"name", "description"} and fields["name"] == NAME
    assert len(fields["description"]) <= 1024 and len(text.splitlines()) < 500


@pytest.mark.slow  # a model is loaded and drawn from
def test_every_line_of_the_skill_runs_and_prints_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    monkeypatch.syspath_prepend(str(tmp_path))
    write_sweep(tmp_path / "runs")
    strangers_model(tmp_path / "out/my-model")
    lines(Path("mine.jsonl"), [{"question": asked, "answer": gold} for asked, gold in ROWS])
    drawn = [{"problem": asked, "responses": [f"\\boxed{{{gold}}}"] * 4} for asked, gold in ROWS]
    lines(Path("theirs.jsonl"), drawn)
    lines(Path("rollouts.jsonl"), rollouts())
    Path("mypkg.py").write_text(
        "def advantages(rewards):\n"
        "    n = rewards.shape[1]\n"
        "    return (rewards - rewards.mean(1, keepdims=True)) * n / (n - 1)\n"
    )
    commands = "".join(blocks(SKILL, "bash")).splitlines()
    results = {}
    for line in commands:
        program, words = line.split(" ", 1)
        assert program == "fgrpo-bench" and run(words) == 0, line
        results[words] = json.loads(capsys.readouterr().out)
    assert len(commands) == 11
    (compared,) = (of for words, of in results.items() if words.startswith("compare"))
    assert compared["labels"] == ["base", "theirs"]
    assert compared["rows"][0]["pass_at_k_new"] == 1
