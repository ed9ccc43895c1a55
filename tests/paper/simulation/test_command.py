"""The command: what it makes and stores, what a kill costs, what it refuses, and the report."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from fgrpo_bench.paper.simulation import Settings, make, planned_runs, run_path, stored
from fgrpo_bench.paper.simulation.__main__ import (
    ends,
    frame,
    main,
    summary_paragraphs,
    write_report,
)

EXAMPLE = Path(__file__).parents[3] / "fgrpo_bench/report/examples/simulation"
TINY = Settings(n_actions=500, n_correct=40, steps=40)
RUNS = planned_runs(None, group_sizes=[2, 8, 32], gammas=[0.0, 1.0], seeds=[0, 1])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    told: list[None] = []
    make(folder, TINY, RUNS, workers=2, tell=lambda: told.append(None))
    assert len(told) == len(RUNS)
    return folder


@pytest.mark.rare
@pytest.mark.slow
def test_after_kill_9_no_worker_is_left_and_the_same_command_makes_the_missing_runs_of_the_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--group-size", "2", "--folder", str(tmp_path), "--workers", "1"]
    command = subprocess.Popen(
        [sys.executable, "-m", "fgrpo_bench.simulation", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not any(tmp_path.glob("masses/*.json")):
        assert command.poll() is None
        time.sleep(0.01)
    workers = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    os.kill(command.pid, signal.SIGKILL)
    command.wait()
    assert workers
    while any(is_running(pid) for pid in workers):
        time.sleep(0.05)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.glob("masses/*.json")}
    assert set(stored(tmp_path, Settings())) <= set(planned_runs(None, group_sizes=[2]))
    assert main(words) == 0
    said, left = capsys.readouterr(), 9 - len(times)
    assert f"9 runs, {left} to make" in said.out
    assert f"{left} of {left} runs made" in said.err
    assert main(words) == 0
    assert "9 runs, 0 to make" in capsys.readouterr().out
    assert all(path.stat().st_mtime_ns == before for path, before in times.items())
    ours, example = (pl.read_csv(at / "results.csv") for at in (tmp_path, EXAMPLE))
    columns = ["rule", "group_size", "focal_gamma", "n_seeds"]
    kept = ours.select(columns).join(example, on=columns, maintain_order="left")
    assert len(kept) == len(ours) == 3
    for name in set(example.columns) - {*columns}:
        assert ours[name].to_list() == pytest.approx(kept[name].to_list(), abs=1e-6)


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_results_are_read_by_rule_size_gamma_and_seed(made: Path, tmp_path: Path) -> None:
    assert list(stored(made, TINY)) == sorted(
        RUNS, key=lambda run: (run.rule, run.group_size, run.focal_gamma, run.seed)
    )
    (tmp_path / "masses").mkdir()
    for run in (RUNS[-1], RUNS[0]):
        shutil.copy(run_path(made, run), run_path(tmp_path, run))
    assert list(stored(tmp_path, TINY)) == [RUNS[0], RUNS[-1]]


def test_a_result_of_other_settings_or_changed_by_hand_is_refused_with_a_remedy(
    made: Path, tmp_path: Path
) -> None:
    longer = Settings(n_actions=500, n_correct=40, steps=30_000)
    with pytest.raises(ValueError, match=r"settings\.steps: 40 there, 30000 asked[^$]*--folder"):
        stored(made, longer)
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    path = run_path(tmp_path, RUNS[0])
    path.write_text(path.read_text().replace("[40,0.", "[40,1."))
    with pytest.raises(ValueError, match=rf"{path} was changed .*: delete it, and the same"):
        stored(tmp_path, TINY)
    path.write_text("{")
    with pytest.raises(ValueError, match=rf"{path} was changed"):
        stored(tmp_path, TINY)


@pytest.mark.slow
def test_what_a_worker_cannot_write_is_an_error_that_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "masses").touch()
    words = ["--rule", "adam", "--group-size", "2", "--gamma", "0", "--seed", "0"]
    assert main([*words, "--folder", str(tmp_path)]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("error: ") and str(tmp_path / "masses") in said


@pytest.mark.slow
def test_the_report_has_words_tables_and_a_figure(made: Path, tmp_path: Path) -> None:
    masses = frame(stored(made, TINY))
    files = write_report(tmp_path, TINY, masses)
    names = ["report.md", "table.tex", "results.csv", "simulation.svg", "simulation.pdf"]
    assert [path.name for path in files] == names
    # At N = 2 both retain as much, but for rounding.
    assert any(
        "gamma = 1 retains more at 1 of 3 group sizes (at N = 8 by less than the" in paragraph
        for paragraph in summary_paragraphs(TINY, masses)
    )
    text = (tmp_path / "report.md").read_text()
    assert all(paragraph in text for paragraph in summary_paragraphs(TINY, masses))
    assert "## The literal rule: masses after the last step, one seed" in text
    assert (tmp_path / "table.tex").read_text().count(r"\begin{tabular}") == 2
    csv = (tmp_path / "results.csv").read_text().splitlines()
    assert len(csv) == 1 + 3 * 2 + 3
    [cell] = ends(masses).filter(rule="adam", group_size=2, focal_gamma=1.0).to_dicts()
    (row,) = [line for line in csv if line.startswith("adam,2,1,2,")]
    assert float(row.split(",")[4]) == pytest.approx(cell["total_mean"])
    before = [path.read_bytes() for path in files]
    write_report(tmp_path, TINY, masses)
    assert before == [path.read_bytes() for path in files]


@pytest.mark.slow
def test_a_report_of_the_literal_rule_alone_is_whole(made: Path, tmp_path: Path) -> None:
    literal = {run: masses for run, masses in stored(made, TINY).items() if run.rule == "literal"}
    write_report(tmp_path, TINY, frame(literal))
    text = (tmp_path / "report.md").read_text()
    assert "Adam on the ratio surrogate" not in text
    assert "retained, gamma=0" in text


def test_a_dry_run_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path), "--dry-run"]) == 0
    assert "153 runs of 1,000 steps over 128,000 actions" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--gamma", "nan"], "focal_gamma=nan"),
        (["--gamma", "1e300"], "gamma is from 0 to 100"),
        (["--seed", "-1"], "seed=-1"),
        (["--group-size", "1"], "group_size=1"),
        (["--group-size", "1000000000"], "a group has 2 to 10,000,000 draws"),
        (["--workers", "0"], "--workers 0: at least one"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused_before_anything_is_made(
    wrong: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*wrong, "--folder", str(tmp_path / "simulation")]) == 1
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_names_are_of_one_gamma_each_and_minus_zero_is_zero() -> None:
    gammas = {-0.0: "0", 0.5: "0.5", 100.0: "100", 0.12345671: "0.12345671", 0.12345672: None}
    runs = planned_runs("adam", group_sizes=[2], gammas=[*gammas], seeds=[0])
    assert runs[0] == planned_runs("adam", group_sizes=[2], gammas=[0.0], seeds=[0])[0]
    assert len({run.name for run in runs}) == len(gammas)
    for run, written in zip(runs, gammas.values(), strict=True):
        assert written is None or run.name == f"adam-n2-g{written}-s0"
