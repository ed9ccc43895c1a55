"""The examples of docs/reference/extending.md and docs/guides/task.md, as they stand there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.files.whole import read_json
from fgrpo_bench.graders import get_grader
from fgrpo_bench.specs import config
from sweeps import REPOSITORY
from sweeps.cli import main
from sweeps.freeze import freeze, run_paths
from sweeps.plan import make_plan
from tests.pages.blocks import blocks

PAGE = (REPOSITORY / "docs" / "reference" / "extending.md").read_text(encoding="utf-8")
TASK = (REPOSITORY / "docs" / "guides" / "task.md").read_text(encoding="utf-8")
EXAMPLE = TASK.partition("## A whole task in one file")[2]
SMALL = ["experiment.train.steps=2", "experiment.train.save_every=2", "profile.max_parallel=2"]


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of its command after `run`; its module can be imported."""
    (tmp_path / "sums.py").write_text(blocks(EXAMPLE, "python")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = shlex.split(blocks(EXAMPLE, "bash")[0].replace("\\\n", " "))
    assert command[:3] == ["fgrpo-bench", "sweep", "run"]
    return [*command[3:], f"run_root={tmp_path}/runs"]


def follow(checkout: Path, diff: str) -> list[str]:
    """Do in a checkout what a block says: behind a line with a space the lines with a plus, at the
    end of the file where no such line stands before them. Gives the files."""
    files = re.split(r"^--- (.*)\n", diff, flags=re.MULTILINE)[1:]
    for name, changes in zip(files[::2], files[1::2], strict=True):
        path = checkout / name
        lines = path.read_text().splitlines() if path.exists() else []
        place = len(lines)
        for change in changes.splitlines():
            if change.startswith("+"):
                lines.insert(place, change[1:])
                place += 1
            else:
                place = lines.index(change[1:]) + 1
        path.write_text("\n".join(lines) + "\n")
    return files[::2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Another one, without what is stored in this one."""
    unused = shutil.ignore_patterns("__pycache__", "node_modules")
    for folder in ("conf", "dashboards", "evaluators", "fgrpo_bench", "sweeps"):
        shutil.copytree(REPOSITORY / folder, tmp_path / folder, ignore=unused)
    return tmp_path


def printed(checkout: Path, *words: str) -> str:
    """By Python in that checkout."""
    done = subprocess.run([sys.executable, *words], cwd=checkout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_advantage_is_added_in_two_files_by_what_the_page_says(checkout: Path) -> None:
    section = PAGE.partition("## An advantage, in two files")[2].partition("\n## ")[0]
    assert len(follow(checkout, *blocks(section, "diff"))) == 2
    command = shlex.split(blocks(section, "bash")[0])
    assert "smoke" in printed(checkout, "-m", "fgrpo_bench", *command[1:])
    code = (
        "from torch import tensor; from fgrpo_bench.objectives.advantages import group_advantages; "
    )
    code += "print(group_advantages(tensor([[1.0, 0.0]]), 0.0, 'signed').tolist())"
    assert printed(checkout, "-c", code) == "[[1.0, -1.0]]\n"


@pytest.mark.slow
@pytest.mark.rare
def test_a_benchmark_is_added_in_three_files_by_what_the_page_says(checkout: Path) -> None:
    section = PAGE.partition("## A benchmark with its grader")[2].partition("\n## ")[0]
    assert len(follow(checkout, *blocks(section, "diff"))) == 3
    row = '{"question": "Capital of Peru?", "answer": "Lima"}\n'
    other = row.replace("Peru", "Italy").replace("Lima", "Rome")
    (checkout / "capitals.jsonl").write_text(row + other)
    command = shlex.split(blocks(section, "bash")[0].partition("#")[0])
    assert "capitals: 2 rows" in printed(checkout, "-m", "fgrpo_bench", *command[1:])
    code = "from fgrpo_bench.core.problems import Problem; "
    code += "from fgrpo_bench.graders import get_grader; "
    code += "p = Problem(benchmark='capitals', problem_id='1', prompt='Capital of Peru?', "
    code += "target='Lima', grader='capitals'); "
    code += "print(*(get_grader('capitals')(p, r).outcome for r in ('It is Lima.', 'It is Rome.')))"
    assert printed(checkout, "-c", code) == "correct incorrect\n"


@pytest.mark.slow
def test_the_example_is_planned_after_a_smoke_sweep_and_grades(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke = make_plan(config.load("smoke", [f"run_root='{tmp_path}/runs'"]))
    freeze(run_paths(smoke.declaration), smoke, nothing_to_run=False)
    assert main(["run", *words, "--dry-run"]) == 0
    assert "grpo-n4-g1-s11" in capsys.readouterr().out
    from sums import Sums, SumsSpec  # type: ignore[import-not-found]

    task = Sums(SumsSpec(name="sums", seed=1, largest=20))
    problem = task.problem(task.n_train)
    grade = get_grader("sums")
    assert grade(problem, problem.target).outcome == "correct"
    assert grade(problem, "x").outcome == "incorrect"


@pytest.mark.rare
@pytest.mark.slow
def test_the_example_runs_to_its_report(words: list[str], tmp_path: Path) -> None:
    assert main(["run", *words, *SMALL]) == 0
    folder = tmp_path / "runs" / "smoke" / "countdown-tiny" / "sums"
    assert read_json(folder / "sweep.json")["plugins"] == {"sums": "0.1"}
    assert (folder / "report" / "report.md").exists()
