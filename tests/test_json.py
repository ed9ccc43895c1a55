"""`--json`: which commands have it, and that they print what docs/reference/json.md says."""

from __future__ import annotations

import json
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from fgrpo_bench.__main__ import main
from sweeps import REPOSITORY
from tests.evaluators.test_groups import rollouts
from tests.support.synthetic import write_sweep
from tests.test_options import options_of, walked

PAGE = REPOSITORY / "docs/reference/json.md"
DO = {
    *(f"sweep {name}" for name in ("run", "rehearse", "cancel", "tick", "follow", "retry")),
    *(f"new {name}" for name in ("experiment", "advantage", "reward", "benchmark", "task")),
    *("dashboard serve", "mlflow", "tracking sync", "tracking rebuild"),
    *("export", "bundle", "leaderboard", "evaluate export-lm-eval"),
}
"""Commands that do something, and print which files they wrote or that it is done."""
TEXTS = {"sweep tune": "a file of conf/sweep", "sweep logs": "a log", "skill": "a skill"}
"""What others print is a text of its own."""


@pytest.mark.slow
def test_every_command_that_prints_a_result_prints_it_as_json_too() -> None:
    with_json = {
        name for name, of in walked() if any(p.opts[0] == "--json" for p in options_of(of))
    }
    assert {name for name, _ in walked()} - with_json == DO | TEXTS.keys()


def documented() -> dict[str, set[str]]:
    """Keys by the command of a row of the page's table."""
    rows = re.findall(r"^\| (.+?) \| .*? \| (.*?) ?\|$", PAGE.read_text(), re.MULTILINE)
    return {
        command: set(re.findall(r"`(\w+)`", keys))
        for commands, keys in rows
        for command in re.findall(r"`([\w -]+)`", commands)
    }


def printed(words: str) -> Any:
    with redirect_stdout(StringIO()) as out:
        try:
            main([*words.split(), "--json"])
        except SystemExit as error:
            assert not error.code, words
    return json.loads(out.getvalue())


@pytest.mark.slow  # a sweep, evaluations and a dump through sixteen commands
def test_what_is_printed_has_the_keys_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path / "runs"))
    write_sweep(tmp_path / "runs")
    problems = [{"question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(6)]
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    for name, right in (("a", 2), ("b", 3)):
        draws = [
            {"problem": row["question"], "responses": [row["answer"]] * right + ["7"] * 2}
            for row in problems
        ]
        Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in draws))
    Path("dump.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rollouts()))
    keys = documented()
    objects = {
        "sweep plan": printed("sweep plan smoke"),
        "sweep status": printed("sweep status groupsize"),
        "check": printed("check groupsize"),
        "report": printed("report groupsize"),
        "import": printed("evaluate import a.jsonl --data mine.jsonl --name a"),
        "grade": printed("evaluate grade a"),
        "evaluate audit": printed("evaluate audit a")[0],
        "groups": printed("groups dump.jsonl"),
        "data": printed("data")[0],
        "theory --success-rate": printed("theory --success-rate 0.3"),
        "theory --weights": printed("theory --weights grpo"),
    }
    printed("evaluate import b.jsonl --data mine.jsonl --name b")
    objects["compare"] = printed("compare a b")
    objects["groups"]["nearest"] = None  # this dump has no advantages
    assert {name: set(of) for name, of in objects.items()} == {name: keys[name] for name in objects}
    assert len(objects["report"]["comparisons"]) == 4  # those of the family, not of every pair
    assert set(objects["grade"]["scores"][0]) == keys["scores"]
    assert set(objects["compare"]["rows"][0]) == keys["rows"]
    scores = {row["k"]: row["pass_at_k"] for row in objects["grade"]["scores"]}
    assert scores[1] == pytest.approx(1 / 2)
    assert [row["k"] for row in printed("power --k 1 8 --seeds 3")] == [1, 8]
    (frame,) = {tuple(row) for row in printed("analysis groupsize --frame cells")}
    assert list(frame) == printed("analysis groupsize")["cells"]["columns"]
