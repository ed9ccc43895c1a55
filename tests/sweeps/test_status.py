"""Status from files alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fgrpo_bench.analysis.scoring import score
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.attempts import begin, end
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.plan import read_plan
from fgrpo_bench.stages.states import StageStatus, driver_id, living_driver, read_stages
from fgrpo_bench.stages.tables import PASSK, UNFINISHED, write_table
from sweeps import REPOSITORY, status
from sweeps.cli import main
from sweeps.plan import Plan, plan_record
from sweeps.slurm import drive
from sweeps.text import printable
from tests.support.plans import frozen, planned

TRAIN = "grpo-n4-g0-s11"


def waiting(root: Path, *overrides: str) -> tuple[RunPaths, Plan]:
    """A sweep of which nothing but the plan is written."""
    paths, plan = planned(root, "smoke", *overrides)
    write_json(paths.plan, plan_record(plan).as_json())
    return paths, plan


def finish(paths: RunPaths, plan: Plan, name: str) -> None:
    (stage,) = [stage for stage in plan.stages if stage.name == name]
    marker = {"fingerprint": stage.fingerprint, "target": stage.target, "outputs": {}}
    write_json(StagePaths(paths.folder / name).done, marker)


def note(paths: RunPaths, kind: str, driver: str = "gone", attempt: int = 1, **more: Any) -> None:
    path = paths.point(TRAIN).attempt(attempt)
    begun = {"attempt": attempt, "driver": driver, "begun": f"t{attempt}"}
    write_json(path, begun if kind == "start" else read_json(path) | more)


def found(paths: RunPaths) -> StageStatus:
    stages = read_stages(paths, read_plan(paths).stages)
    (train,) = [stage for stage in stages if stage.name == TRAIN]
    return train


PROGRESS = {"step": 120, "of": 300, "eta_seconds": 42.0, "reward": 0.3125, "pid": 1}


def test_a_started_stage_runs_while_its_lock_is_held_and_was_else_stopped_by_a_kill(
    tmp_path: Path,
) -> None:
    paths, plan = waiting(tmp_path)
    assert (found(paths).state, found(paths).attempts) == ("waiting", 0)
    note(paths, "start")
    write_json(paths.point(TRAIN).progress, PROGRESS)
    with locked(paths.point(TRAIN).lock, wait=False, what="the stage"):
        running = found(paths)
    assert (running.state, running.attempts, running.step, running.of) == ("running", 1, 120, 300)
    assert (running.numbers, running.eta_seconds) == ({"reward": 0.3125}, 42.0)
    stopped = found(paths)
    assert (stopped.state, stopped.step, stopped.eta_seconds) == ("stopped", 120, None)
    write_json(paths.point(TRAIN).progress, PROGRESS | {"entropy": "high"})
    assert (found(paths).step, found(paths).numbers) == (None, {}), "other things than numbers"
    finish(paths, plan, TRAIN)
    assert found(paths).state == "done", "whatever the notes say"


def test_what_an_earlier_driver_left_waits_for_the_one_at_work(tmp_path: Path) -> None:
    paths, _ = waiting(tmp_path)
    with locked(paths.driver_lock, wait=False, what="the sweep"):
        driver = driver_id(living_driver(paths) or {})
        note(paths, "start")
        assert found(paths).state == "waiting"
        note(paths, "end", exit_code=1, outcome="failed", wall_seconds=1.0)
        assert found(paths).state == "waiting"
        note(paths, "start", driver=driver, attempt=2)
        assert found(paths).state == "running", "its worker has just been started"
        note(paths, "end", driver=driver, attempt=2, exit_code=1, outcome="failed")
        assert found(paths).state == "failed"
    assert found(paths).attempts == 2


@pytest.mark.parametrize(
    ("ending", "state"),
    [
        ({}, "running"),
        ({"outcome": "failed", "exit_code": 1}, "failed"),
        ({"outcome": "failed", "exit_code": -9}, "failed"),
        ({"outcome": "stopped", "exit_code": 75}, "stopped"),
        ({"outcome": "unready"}, "waiting"),
    ],
)
def test_an_attempt_that_ended_says_how_and_a_job_is_believed_until_the_scheduler_is_asked(
    tmp_path: Path, ending: dict[str, Any], state: str
) -> None:
    paths, _ = waiting(tmp_path)
    note(paths, "start")
    job = {"attempt": 2, "job_id": "12_3", "batch": "b", "begun": "t2"}
    write_json(paths.point(TRAIN).attempt(2), job | ending)
    assert found(paths).state == state
    if "exit_code" in ending:
        paths.point(TRAIN).attempt(2).unlink()
        note(paths, "end", **ending)
        assert found(paths).state == state


def test_a_damaged_note_is_told_of_and_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, _ = waiting(tmp_path)
    note(paths, "start")
    note(paths, "end", exit_code=1, outcome="failed")
    paths.point(TRAIN).attempt(2).write_text('{"attempt": "two"}')
    assert main(["status", "smoke", f"run_root={tmp_path}"]) == 0
    damaged = paths.point(TRAIN).attempt(2)
    assert f"{damaged} is damaged and was passed over" in capsys.readouterr().err
    assert found(paths).state == "failed"


def test_a_marker_that_does_not_cover_the_plan_is_not_done(tmp_path: Path) -> None:
    paths, plan = waiting(tmp_path)
    name = plan.stages[-1].name
    finish(paths, plan, name)
    assert status.report(paths)["stages"]["done"] == 1
    waiting(tmp_path, "experiment.evaluation.n_samples=64")
    assert status.report(paths)["stages"]["done"] == 0


def test_the_table_has_a_row_a_point_and_a_summary(tmp_path: Path) -> None:
    paths, plan = waiting(tmp_path)
    finish(paths, plan, "_warmup/s11")
    note(paths, "start")
    write_json(paths.point(TRAIN).progress, PROGRESS)
    with locked(paths.point(TRAIN).lock, wait=False, what="the stage"):
        text = status.render(status.report(paths))
    lines = text.splitlines()
    assert lines[3].split() == ["point", "train", "evaluate", "step", "reward", "left", "attempts"]
    assert lines[4].split() == ["base-s11", "done", "waiting", "0", "+", "0"]
    row = ["grpo-n4-g0-s11", "running", "waiting", "120/300", "0.312", "42", "s", "1", "+", "0"]
    assert lines[5].split() == row
    assert "0 of 2 runs done; stages: 1 done, 1 running, 4 waiting" in text
    assert lines[-1] == "no driver is running"


def test_the_numbers_of_the_last_step_and_what_to_look_into_are_told(tmp_path: Path) -> None:
    paths, plan = waiting(tmp_path)
    note(paths, "start")
    numbers = {"active_fraction": 0, "clip_fraction": 0.0012, "truncated_fraction": 0.75}
    write_json(paths.point(TRAIN).progress, PROGRESS | numbers | {"tokens_per_second": 9562.4})
    with locked(paths.point(TRAIN).lock, wait=False, what="the stage"):
        told = json.loads(json.dumps(status.report(paths)))
    lines = status.render(told).splitlines()
    assert lines[3].split()[3:11] == [
        *("step", "reward", "active", "clipped", "truncated", "tokens/s", "left", "attempts")
    ]
    assert lines[5].split()[3:8] == ["120/300", "0.312", "0%", "0.12%", "75%"]
    warned = [line for line in lines if line.startswith(f"warning: {TRAIN}: ")]
    assert [line.split()[2] for line in warned] == ["truncated_fraction", "active_fraction"]
    (train,) = [s for p in told["points"] for s in p["stages"] if s["name"] == TRAIN]
    assert (train["numbers"], len(train["warnings"])) == (
        {"reward": 0.3125, "tokens_per_second": 9562.4} | numbers,
        2,
    )
    on_slurm = drive.render(told)
    assert [line for line in on_slurm.splitlines() if line.startswith("warning: ")] == warned
    assert "120/300  0.312   0%      0.12%    75%        9,562" in on_slurm
    for render in (status.render, drive.render):
        narrow = [line for line in render(told, 80).splitlines() if "warning" not in line]
        assert max(len(line) for line in narrow[3:8]) <= 80
        assert any(line.startswith("left out: ") and "--wide" in line for line in narrow)
    finish(paths, plan, TRAIN)
    assert "warning" not in status.render(status.report(paths)), "a run that is done"


@pytest.mark.slow
def test_what_is_fetched_for_jobs_is_told_by_its_files(tmp_path: Path) -> None:
    chosen = ["profile=slurm-8gpu", "experiment=qwen2.5-7b"]
    paths, plan = frozen(tmp_path, *chosen, sweep="groupsize")
    data = next(stage.name for stage in plan.stages if stage.kind == "fetch")
    folder = StagePaths(paths.folder / data)
    note, log = begin(folder, driver="gone")
    log.close()
    end(folder, note, exit_code=1, outcome="failed", seconds=2.0)
    told = drive.report(paths, warn=pytest.fail, call=pytest.fail)
    (fetched,) = [s for p in told["points"] for s in p["stages"] if s["name"] == data]
    assert (fetched["state"], fetched["attempts"]) == ("failed", 1)
    assert fetched["reason"] == "its files are not here: `run` fetches them"


def test_status_imports_nothing_heavy(tmp_path: Path) -> None:
    waiting(tmp_path)
    program = (
        "import sys, sweeps.cli; code = sweeps.cli.main(sys.argv[1:]); "
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "status", "smoke", "--json", f"run_root={tmp_path}"],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    states = dict.fromkeys(("running", "failed", "damaged", "stopped", "done"), 0)
    assert json.loads(done.stdout)["stages"] == states | {"waiting": 6}
    heavy = {"hydra", "omegaconf", "pydantic", "polars", "torch", "mlflow", "rich"}
    assert heavy.isdisjoint(done.stderr.split())


def failed(root: Path, *logs: str) -> dict[str, Any]:
    """The status of a failed training run with these logs."""
    paths, _ = waiting(root)
    note(paths, "start")
    note(paths, "end", exit_code=1, outcome="failed")
    for number, text in enumerate(logs, 1):
        paths.point(TRAIN).log(number).write_text(text)
    return status.with_last_lines(paths, status.report(paths))


def test_the_last_lines_of_the_newest_log_of_a_failed_stage_are_shown(tmp_path: Path) -> None:
    told = failed(tmp_path, "old\n", "one\ntwo\n\nthree\ntraining failed: ValueError: why\n")
    (train,) = [s for p in told["points"] for s in p["stages"] if s["name"] == TRAIN]
    assert train["last_lines"] == ["two", "three", "training failed: ValueError: why"]
    text = status.render_failures(told)
    assert f"failed: train of {TRAIN}\n  | two\n" in text and text.endswith("attempt-002.log\n")


def test_a_log_cannot_drive_the_terminal(tmp_path: Path) -> None:
    shown = status.render_failures(failed(tmp_path, "\x1b]0;title\x07\x1b[2J" + "x" * 9000))
    (line,) = [line for line in shown.splitlines() if line.startswith("  | ")]
    assert line.isprintable() and len(line) == len("  | ") + 200
    assert printable("a\x1b[31mb\tc") == "a [31mb c"


def test_a_failed_stage_without_a_log_is_named_too_and_nothing_where_nothing_failed(
    tmp_path: Path,
) -> None:
    assert "it was never started" in status.render_failures(failed(tmp_path))
    paths, _ = waiting(tmp_path)
    paths.point(TRAIN).attempt(1).unlink()
    whole = status.report(paths)
    assert status.with_last_lines(paths, whole) == whole and status.render_failures(whole) == ""


def test_status_tells_in_a_line_what_finished_evaluations_saved(tmp_path: Path) -> None:
    staged = "experiment.evaluation.design={stages:[8,32],enough:2}"
    paths, plan = planned(tmp_path, "smoke", "evaluation@experiment.evaluation=pass16", staged)
    first = next(stage for stage in plan.stages if stage.kind == "evaluate")
    finish(paths, plan, first.name)
    counts = pl.DataFrame(
        {
            "problem_id": ["p0", "p1"],
            "n_samples": [8, 32],
            "n_scored": [7, 32],
            "n_correct": [3, 1],
            **{name: [0] * 2 for name in UNFINISHED},
            "n_unscored": [[1, 0], [0, 0]],
        }
    )
    passk = score(counts, [1, 16], plan.points[0].evaluation.stopping)
    write_table(StagePaths(paths.folder / first.name).benchmark("countdown").passk(), passk, PASSK)
    records = plan_record(plan).stages
    told = status.saved_draws(paths, records, {first.name})
    assert told == {"evaluations": 1, "draws": 40, "of": 64}
    (line,) = status.saved_lines(told)
    assert line == "draws: 40 in 1 finished evaluation; 24 of 64 were saved by stopping (38%)"
    assert status.saved_draws(paths, records, set()) is None
    assert status.saved_lines(None) == []
