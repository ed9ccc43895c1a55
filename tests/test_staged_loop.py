"""A staged sweep with the real engine through the commands a user types: run to its report, which
is verified, in MLflow and on the dashboard; then fixed, then graded anew, over the same draws."""

from __future__ import annotations

import csv
import shutil
from io import StringIO
from pathlib import Path

import polars as pl
import pytest

from evaluators.__main__ import main as evaluators
from fgrpo_bench import StagedDesign, pass_at_k
from fgrpo_bench.analysis import analyse
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.report.__main__ import main as report
from fgrpo_bench.stages.markers import rewritten
from fgrpo_bench.stages.tables import DRAWS, GRADES, PASSK, read_table, write_table
from fgrpo_bench.tracking.__main__ import main as tracking
from fgrpo_bench.tracking.sync import embedded_uri
from sweeps.cli import main as sweeps
from tests.dashboards.conftest import client_of
from tests.support.dashboard import Reader
from tests.support.mlflow_store import contents
from tests.support.stages import TINY

DESIGN = StagedDesign(stages=(4, 16, 64), enough=3)
KS, PROBLEMS = (1, 4, 64), 12
ASKED = [
    "evaluation@experiment.evaluation=staged",
    *(each for each in TINY if ".evaluation." not in each),
    "experiment.evaluation.n_samples=64",
    "experiment.evaluation.ks=[1,4,64]",
    "experiment.evaluation.design={stages:[4,16,64],enough:3}",
    f"experiment.evaluation.benchmarks.countdown.n_problems={PROBLEMS}",
]
PASS_AT_1 = "countdown/pass_at_1"
FIXED = [*ASKED, "experiment.evaluation.design=null"]


def paths_of(root: Path) -> RunPaths:
    return RunPaths(root=root, sweep="smoke", experiment="countdown-tiny", version="v1")


def evaluations(root: Path):
    """Base model and both points: stage, its benchmark's files."""
    points = load_results(paths_of(root)).points
    assert len(points) == 3
    return [(point.evaluate, point.evaluate.benchmark("countdown")) for point in points]


def made(root: Path) -> list[int]:
    """Draws of the last attempt at each evaluation."""
    return [read_json(stage.done)["draws_made"]["countdown"] for stage, _ in evaluations(root)]


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
    for (name,), own in grades.group_by("problem_id", maintain_order=True):
        assert own["draw"].to_list() == list(range(len(own)))
        verdicts[name] = (own["outcome"] == "correct").to_list()
    assert len(verdicts) == PROBLEMS
    return verdicts


def check_values(files, values: dict[tuple[str, int], float]) -> None:
    """pass@k of every problem, as it is stored."""
    rows = read_table(files.passk, PASSK).select("problem_id", "k", "pass_at_k").rows()
    assert {(name, k): value for name, k, value in rows} == pytest.approx(values, abs=1e-12)


def by_hand(files) -> dict[tuple[str, int], float]:
    """pass@k of every problem from its draws up to where it stops."""
    values = {}
    for name, verdicts in correct(files).items():
        n = stop(verdicts)
        for k in KS:
            own = DESIGN.pass_at_k(n_drawn=n, n_correct=sum(verdicts[:n]), k=k)
            values[name, k] = float(own)
    return values


def mean(files, k: int) -> float:
    return sum(value for (_, own), value in by_hand(files).items() if own == k) / PROBLEMS


def fixed_by_hand(files) -> dict[tuple[str, int], float]:
    return {
        (name, k): float(pass_at_k(n_samples=64, n_correct=sum(verdicts), k=k))
        for name, verdicts in correct(files).items()
        for k in KS
    }


pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _here(staged, monkeypatch):
    monkeypatch.setenv("FGRPO_RUN_ROOT", str(staged))


@pytest.fixture(scope="module")
def staged(tmp_path_factory):
    """The root of the sweep, which was run to its end."""
    root = tmp_path_factory.mktemp("staged")
    with pytest.MonkeyPatch.context() as context:
        context.setenv("FGRPO_RUN_ROOT", str(root))
        for name in ("MLFLOW_TRACKING_URI", "FGRPO_VERDICTS"):
            context.delenv(name, raising=False)
        assert sweeps(["run", "smoke", *ASKED]) == 0
    return root


def test_each_problem_has_the_draws_up_to_its_stop_and_no_other(staged):
    lengths = []
    for _, files in evaluations(staged):
        verdicts = correct(files)
        assert all(len(own) == stop(own) for own in verdicts.values())
        check_values(files, by_hand(files))
        lengths += map(len, verdicts.values())
    assert len(set(lengths)) > 1 and sum(made(staged)) == sum(lengths)


def test_its_report_has_their_means_and_is_verified_and_an_edit_is_seen(staged, capsys):
    folder = paths_of(staged).report
    text = (folder / "results.csv").read_text()
    rows = {int(r["k"]): r for r in csv.DictReader(StringIO(text)) if r["method"] == "Base"}
    _, files = evaluations(staged)[0]
    drawn = sum(map(len, correct(files).values()))
    for k in KS:
        assert float(rows[k]["pass_at_k"]) == pytest.approx(mean(files, k), abs=1e-9)
        assert float(rows[k]["n_draws"]) == pytest.approx(drawn / PROBLEMS)
        assert rows[k]["design"] == DESIGN.words and rows[k]["is_redesigned"] == "false"
    for name in ("report.md", "results.csv"):
        assert report(["--verify", str(folder / name), "--regrade"]) == 0
        said = "every number computed and judged again, none differs"
        assert said in capsys.readouterr().out
    edited = text.replace(rows[1]["n_draws"], "3.5", 1)
    (folder / "results.csv").write_text(edited)
    try:
        assert report(["--verify", str(folder / "results.csv")]) == 1
    finally:
        (folder / "results.csv").write_text(text)
    assert "column n_draws: has '3.5'" in capsys.readouterr().out


def test_mlflow_and_the_dashboard_have_the_same_numbers(staged):
    assert tracking(["sync", "smoke", "--root", str(staged)]) == 0
    runs = contents(embedded_uri(paths_of(staged)))
    designed = [run for run in runs.values() if run["params"].get("design_enough") == "3"]
    assert len(designed) >= 3
    assert {run["params"]["design_stages"] for run in designed} == {"4, 16, 64"}
    values = [float(run["latest"].get(PASS_AT_1, "nan")) for run in designed]
    page = client_of(staged).get("/smoke/countdown-tiny/v1/compare")
    text = Reader(page.text).text
    for _, files in evaluations(staged):
        own = mean(files, 1)
        assert float(f"{own:.4g}") in values, "MLflow's four digits"
        assert f"{100 * own:.1f}" in text


def test_a_fixed_number_and_another_judgement_use_the_draws_that_are_there(staged, capsys):
    def run(*overrides: str):
        assert sweeps(["run", "smoke", *overrides]) == 0
        return evaluations(staged)

    folder = paths_of(staged).report
    before = [
        (read_table(files.draws, DRAWS), files.passk.read_bytes())
        for _, files in evaluations(staged)
    ]

    # Fixed: only what stopped problems lack is drawn. Back again: nothing.
    fixed = run(*FIXED)
    assert made(staged) == [64 * PROBLEMS - len(draws) for draws, _ in before]
    for (_, files), (draws, _) in zip(fixed, before, strict=True):
        check_values(files, fixed_by_hand(files))
        kept = read_table(files.draws, DRAWS).join(draws, on=["problem_id", "draw"], how="semi")
        assert kept.sort("problem_id", "draw").equals(draws.sort("problem_id", "draw"))
    whole = [files.draws.read_bytes() for _, files in fixed]
    again = run(*ASKED)
    assert made(staged) == [0, 0, 0]
    assert [files.draws.read_bytes() for _, files in again] == whole
    assert [files.passk.read_bytes() for _, files in again] == [passk for _, passk in before]
    estimates = analyse(load_results(paths_of(staged))).estimates
    assert estimates["is_redesigned"].all()
    assert "‡" in (folder / "report.md").read_text()

    # Graded anew: a problem that former verdicts had stopped too early waits for draws, and the
    # same command makes these.
    stage, files = again[0]
    stops = {name: stop(own) for name, own in correct(files).items()}
    name = next(name for name, n in stops.items() if n > DESIGN.stages[0])
    cut = (pl.col("problem_id") == name) & (pl.col("draw") >= DESIGN.stages[0])
    write_table(files.draws, read_table(files.draws, DRAWS).filter(~cut), DRAWS)
    files.grades("countdown-1").unlink()
    rewritten(stage, [files.draws])
    capsys.readouterr()
    assert evaluators(["grade", str(stage.folder)]) == 0
    assert f"1 of {PROBLEMS} problems would not have stopped" in capsys.readouterr().out
    assert report(["smoke"]) == 0
    assert "†" in (folder / "report.md").read_text()
    assert report(["--verify", str(folder / "report.md")]) == 0
    shutil.rmtree(paths_of(staged).draws)  # else they are taken from there
    run(*ASKED)
    assert made(staged) == [stops[name] - DESIGN.stages[0], 0, 0]
    assert files.passk.read_bytes() == before[0][1]
    assert report(["--verify", str(folder / "report.md"), "--regrade"]) == 0
