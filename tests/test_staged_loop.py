"""A staged sweep with the real engine through the commands a user types: run to its report, which
is verified; then fixed, then graded anew, over the same draws."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from evaluators.__main__ import main as evaluators
from fgrpo_bench import StagedDesign
from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, read_table, write_table
from sweeps.cli import main as sweeps
from tests.support.stages import TINY

DESIGN, PROBLEMS = StagedDesign(stages=(4, 16, 64), enough=3), 12
ASKED = [
    "evaluation@experiment.evaluation=staged",
    *(override for override in TINY if ".evaluation." not in override),
    "experiment.evaluation.n_samples=64",
    "experiment.evaluation.ks=[1,4,64]",
    "experiment.evaluation.design={stages:[4,16,64],enough:3}",
    f"experiment.evaluation.benchmarks.countdown.n_problems={PROBLEMS}",
]
FIXED = [key for key in ASKED if "design" not in key] + ["experiment.evaluation.design=null"]
pytestmark = pytest.mark.slow


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """Where the sweep stands; nothing of it is made yet."""
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(tmp_path))
    for name in ("MLFLOW_TRACKING_URI", "FGRPO_VERDICTS"):
        monkeypatch.delenv(name, raising=False)
    return RunPaths(root=tmp_path, sweep="smoke", experiment="countdown-tiny", version="v1")


def run(paths: RunPaths, *overrides: str):
    """Run the sweep: of base model and both points the stage and its benchmark's files."""
    assert sweeps(["run", "smoke", *overrides]) == 0
    points = load_results(paths).points
    assert len(points) == 3
    return [(point.evaluate, point.evaluate.benchmark("countdown")) for point in points]


def made(evaluations) -> list[int]:
    """Draws of the last attempt at each evaluation."""
    return [read_json(stage.done)["draws_made"]["countdown"] for stage, _ in evaluations]


def stop(verdicts: list[bool]) -> int:
    """Draws of a problem by DESIGN, in so many words."""
    for stage in DESIGN.stages:
        if sum(verdicts[:stage]) >= DESIGN.enough:
            return stage
    return DESIGN.stages[-1]


def correct(files) -> dict[str, list[bool]]:
    """Verdicts of each problem in the order of its draws, which are numbered from 0 on."""
    grades = read_table(files.grades("countdown-1"), GRADES).sort("problem_id", "draw")
    verdicts = {}
    for (name,), rows in grades.group_by("problem_id", maintain_order=True):
        assert rows["draw"].to_list() == list(range(len(rows)))
        verdicts[name] = (rows["outcome"] == "correct").to_list()
    assert len(verdicts) == PROBLEMS
    return verdicts


def check_report(paths: RunPaths, capsys: pytest.CaptureFixture[str]) -> None:
    """Every number of the report follows from the draws."""
    capsys.readouterr()
    assert report(["--verify", str(paths.report / "report.md"), "--regrade"]) == 0
    assert "judged again and built anew, nothing differs" in capsys.readouterr().out


@pytest.mark.rare  # tests/evaluators/test_staged_draws.py shows both of drawing itself
def test_a_fixed_number_and_another_judgement_use_the_draws_that_a_design_made(paths, capsys):
    staged = run(paths, *ASKED)
    lengths = []
    for _, files in staged:
        verdicts = correct(files)
        assert all(len(of) == stop(of) for of in verdicts.values())
        lengths += map(len, verdicts.values())
    assert len(set(lengths)) > 1 and sum(made(staged)) == sum(lengths)
    check_report(paths, capsys)
    before = [(read_table(files.draws, DRAWS), files.passk().read_bytes()) for _, files in staged]

    # Fixed: only what stopped problems lack is drawn. Back again: nothing.
    fixed = run(paths, *FIXED)
    assert made(fixed) == [64 * PROBLEMS - len(draws) for draws, _ in before]
    for (_, files), (draws, _) in zip(fixed, before, strict=True):
        kept = read_table(files.draws, DRAWS).join(draws, on=["problem_id", "draw"], how="semi")
        assert kept.sort("problem_id", "draw").equals(draws.sort("problem_id", "draw"))
    check_report(paths, capsys)
    whole = [files.draws.read_bytes() for _, files in fixed]
    again = run(paths, *ASKED)
    assert made(again) == [0, 0, 0]
    assert [files.draws.read_bytes() for _, files in again] == whole
    assert [files.passk().read_bytes() for _, files in again] == [passk for _, passk in before]
    assert analyse(load_results(paths)).estimates["is_redesigned"].all()
    assert "‡" in (paths.report / "report.md").read_text()

    # Graded anew: a problem that former verdicts had stopped too early waits for draws, and the
    # same command makes these.
    stage, files = again[0]
    stops = {name: stop(of) for name, of in correct(files).items()}
    name = next(name for name, n in stops.items() if n > DESIGN.stages[0])
    cut = (pl.col("problem_id") == name) & (pl.col("draw") >= DESIGN.stages[0])
    write_table(files.draws, read_table(files.draws, DRAWS).filter(~cut), DRAWS)
    files.grades("countdown-1").unlink()
    rewritten(stage, [files.draws])
    capsys.readouterr()
    assert evaluators(["grade", str(stage.folder)]) == 0
    assert f"1 of {PROBLEMS} problems would not have stopped" in capsys.readouterr().out
    assert report(["smoke"]) == 0
    assert "†" in (paths.report / "report.md").read_text()
    check_report(paths, capsys)
    assert made(run(paths, *ASKED)) == [stops[name] - DESIGN.stages[0], 0, 0]
    assert files.passk().read_bytes() == before[0][1]
    check_report(paths, capsys)
