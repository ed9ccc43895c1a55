"""The example of docs/extending.md, as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fgrpo_bench.files.whole import read_json
from fgrpo_bench.graders import get_grader
from fgrpo_bench.specs import config
from sweeps import REPOSITORY
from sweeps.cli import main
from sweeps.freeze import freeze, run_paths
from sweeps.plan import make_plan

PAGE = (REPOSITORY / "docs" / "extending.md").read_text(encoding="utf-8")
SMALL = ["experiment.train.steps=2", "experiment.train.save_every=2", "profile.max_parallel=2"]


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of its command after `run`; its module can be imported."""
    (tmp_path / "sums.py").write_text(block("python"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = shlex.split(block("bash").replace("\\\n", " "))
    assert command[:3] == ["fgrpo-bench", "sweep", "run"]
    return [*command[3:], f"run_root={tmp_path}/runs"]


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_example_is_planned_after_a_smoke_sweep_and_grades(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke = make_plan(config.load("smoke", [f"run_root='{tmp_path}/runs'"]))
    freeze(run_paths(smoke.declaration), smoke, nothing_to_run=False)
    assert main(["run", *words, "--dry-run"]) == 0
    assert "grpo-n4-g1-s11" in capsys.readouterr().out
    from sums import Sums, SumsSpec  # type: ignore[import-not-found]

    task = Sums(SumsSpec(name="sums", seed=1, largest=20))
    problem = task.heldout_problem(3)
    grade = get_grader("sums")
    assert grade(problem, problem.target).outcome == "correct"
    assert grade(problem, "x").outcome == "incorrect"


@pytest.mark.slow
def test_the_example_runs_to_its_report(words: list[str], tmp_path: Path) -> None:
    assert main(["run", *words, *SMALL]) == 0
    folder = tmp_path / "runs" / "smoke" / "countdown-tiny" / "sums"
    assert read_json(folder / "sweep.json")["plugins"] == {"sums": "0.1"}
    assert (folder / "report" / "report.md").exists()
