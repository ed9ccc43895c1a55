"""The command: what it makes, what a kill costs, and the ways to its results."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dashboards.export import chosen_runs
from dashboards.queries.store import Store
from fgrpo_bench.report.__main__ import main as report_main
from fgrpo_bench.results import load_results
from fgrpo_bench.simulation.__main__ import main
from fgrpo_bench.simulation.report import ends, write_report
from fgrpo_bench.simulation.runs import RunPaths, freeze, load, masses_path, run_paths
from fgrpo_bench.simulation.settings import Settings, grid
from fgrpo_bench.simulation.workers import make, make_one, peak_mb
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.tracking.desired import desired_experiment
from sweeps.cli import main as sweeps_main

TINY = Settings(n_actions=500, n_correct=40, steps=40)
RUNS = grid(None, group_sizes=[2, 8, 32], gammas=[0.0, 1.0], seeds=[0, 1])
LONG = Settings(n_actions=500, n_correct=40, steps=30_000)


def made(root: Path) -> RunPaths:
    simulation = freeze(run_paths(root, "v1"), TINY, RUNS)
    for run in RUNS:
        make_one(simulation.stage(run))
    return simulation.paths


@pytest.mark.slow
def test_workers_make_every_run_and_a_second_call_none(tmp_path: Path) -> None:
    simulation = freeze(run_paths(tmp_path, "v1"), TINY, RUNS[:3])
    told: list[None] = []
    make(simulation, workers=2, tell=lambda: told.append(None))
    assert (simulation.undone, len(told)) == ([], 3)
    marks = {run: simulation.stage(run).done.read_bytes() for run in RUNS[:3]}
    make(simulation, workers=2, tell=lambda: told.append(None))
    assert all(simulation.stage(run).done.read_bytes() == mark for run, mark in marks.items())
    assert len(told) == 3


def test_a_damaged_spec_fails_with_the_name_of_its_run(tmp_path: Path) -> None:
    simulation = freeze(run_paths(tmp_path, "v1"), TINY, RUNS[:1])
    spec = simulation.stage(RUNS[0]).spec
    spec.write_text(spec.read_text().replace('"n_correct":40', '"n_correct":1'))
    with pytest.raises(RuntimeError, match=r"adam-n2-g0-s0.*n_correct=1"):
        make(simulation, workers=1, tell=lambda: None)


@pytest.mark.slow
def test_kill_9_loses_the_run_in_flight_and_no_worker_outlives_the_driver(tmp_path: Path) -> None:
    simulation = freeze(run_paths(tmp_path, "v1"), LONG, RUNS[-3:])
    code = (
        "from pathlib import Path\n"
        "from fgrpo_bench.simulation.runs import load, run_paths\n"
        "from fgrpo_bench.simulation.workers import make\n"
        "if __name__ == '__main__':\n"
        f"    simulation = load(run_paths(Path({str(tmp_path)!r}), 'v1'))\n"
        "    make(simulation, workers=1, tell=lambda: print('done', flush=True))\n"
    )
    script = tmp_path / "driver.py"
    script.write_text(code)
    driver = subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert driver.stdout is not None
    while driver.stdout.readline().strip() != "done":
        assert driver.poll() is None
    workers = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    driver.stdout.close()
    assert workers
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{pid}").exists() and not zombie(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert len(simulation.undone) == 2
    assert not any(masses_path(simulation.stage(run)).exists() for run in simulation.undone)


def zombie(pid: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_other_settings_at_the_same_address_are_refused(tmp_path: Path) -> None:
    paths = run_paths(tmp_path, "v1")
    freeze(paths, TINY, RUNS[:2])
    with pytest.raises(
        ValueError, match=r"settings\.steps: 40 there, 30000 asked for[^$]*--version"
    ):
        freeze(paths, LONG, RUNS[1:4])
    assert [run.point_id for run in load(paths).runs] == ["adam-n2-g0-s0", "adam-n2-g0-s1"]


def test_more_runs_stand_beside_the_former_ones(tmp_path: Path) -> None:
    paths = run_paths(tmp_path, "v1")
    freeze(paths, TINY, RUNS[-1:])
    freeze(paths, TINY, RUNS[:1])
    assert load(paths).runs == (RUNS[0], RUNS[-1])
    assert load(paths).settings == TINY


def test_the_report_has_words_tables_and_a_figure(tmp_path: Path) -> None:
    paths = made(tmp_path)
    report = write_report(paths)
    names = {path.name for path in report.files}
    assert names == {
        "report.md",
        "results.csv",
        "simulation.svg",
        "simulation.pdf",
    }
    text = (paths.report / "report.md").read_text()
    # At N = 2 both retain as much, but for rounding.
    assert "gamma = 1 retains more at 1 of 3 group sizes (at N = 8 by less than the" in text
    assert "The literal rule" in text
    csv = (paths.report / "results.csv").read_text().splitlines()
    assert len(csv) == 1 + 3 * 2 + 3
    [cell] = (
        ends(load(paths).masses()).filter(rule="adam", group_size=2, focal_gamma=1.0).to_dicts()
    )
    (row,) = [line for line in csv if line.startswith("adam,2,1,2,")]
    assert float(row.split(",")[4]) == pytest.approx(cell["total_mean"])
    before = text, (paths.report / "simulation.svg").read_bytes()
    write_report(paths)
    assert before == ((paths.report / "report.md").read_text(),
                      (paths.report / "simulation.svg").read_bytes())  # fmt: skip


def test_a_report_in_between_says_how_many_runs_are_missing(tmp_path: Path) -> None:
    paths = run_paths(tmp_path, "v1")
    freeze(paths, TINY, RUNS)
    assert "Only 0 of 15 runs are done" in write_report(paths).text
    make_one(paths.point(RUNS[0].point_id))
    assert "Only 1 of 15 runs are done" in write_report(paths).text


@pytest.mark.slow
def test_the_report_command_and_the_status_of_sweeps_find_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    assert report_main(["simulation", "--root", str(tmp_path), "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("rule,group_size,focal_gamma,n_seeds")
    assert report_main(["simulation", "--root", str(tmp_path)]) == 0
    assert "report.md" in capsys.readouterr().out
    assert sweeps_main(["status", "simulation", f"run_root={tmp_path}"]) == 0
    assert "15 of 15 points done" in capsys.readouterr().out


def test_mlflow_is_to_hold_a_run_with_both_masses_by_step(tmp_path: Path) -> None:
    paths = made(tmp_path)
    wanted = desired_experiment(paths)
    assert wanted.name == "simulation/categorical"
    assert len(wanted.runs) == len(RUNS)
    run = wanted.runs[0].state()
    assert run.params["group_size"] == "2"
    assert run.tags["point_id"] == "adam-n2-g0-s0"
    assert {(point.key, point.step) for point in run.points} == {
        (f"simulation/{name}", step)
        for name in ("total_correct_mass", "retained_mass")
        for step in range(0, 50, 10)
    }
    assert wanted == desired_experiment(paths)


def test_a_marker_says_what_the_run_took(tmp_path: Path) -> None:
    marker = read_json(made(tmp_path).point(RUNS[0].point_id).done)
    assert marker["cpu_seconds"] >= 0
    assert 10 < marker["peak_mb"] < peak_mb() + 1
    assert marker["step"] == TINY.steps


def test_a_dry_run_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(tmp_path), "--dry-run"]) == 0
    assert "153 runs of 1,000 steps over 128,000 actions" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert main(["--root", str(tmp_path), "--group-size", "1"]) == 1
    assert "group_size=1" in capsys.readouterr().err


def test_the_dashboard_lists_sweeps_only_and_their_readers_refuse_it_by_name(
    tmp_path: Path,
) -> None:
    paths = run_paths(tmp_path, "v1")
    freeze(paths, TINY, RUNS[:1])
    assert Store(root=tmp_path).runs() == []
    with pytest.raises(LookupError, match="no such sweep"):
        chosen_runs(tmp_path, "simulation", [])
    with pytest.raises(ValueError, match=r"fgrpo_bench\.report simulation"):
        load_results(paths)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--gamma", "nan"], "focal_gamma=nan"),
        (["--gamma", "1e300"], "gamma is from 0 to 100"),
        (["--seed", "-1"], "seed=-1"),
        (["--group-size", "1000000000"], "a group has 2 to 10,000,000 draws"),
        (["--version", "../../../evil"], "--version '../../../evil': string should match"),
    ],
)
def test_numbers_that_cannot_be_meant_and_names_that_are_paths_are_refused(
    wrong: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*wrong, "--root", str(tmp_path / "runs"), "--dry-run"]) == 1
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_minus_zero_is_the_run_of_zero() -> None:
    (run,) = grid("adam", group_sizes=[2], gammas=[-0.0], seeds=[0])
    assert run == grid("adam", group_sizes=[2], gammas=[0.0], seeds=[0])[0]
    assert run.point_id == "adam-n2-g0-s0"
