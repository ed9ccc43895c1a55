"""Killed drivers and workers, stops, failures, and two drivers at once; real processes all."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import RunPaths, StagePaths
from fgrpo_bench.stages.attempts import Note, attempts
from fgrpo_bench.stages.locks import is_locked, lock_holder, locked
from sweeps import REPOSITORY
from sweeps.local import pool
from tests.support.fake_sweep import FakeSweep, check_steps, fake_sweep
from tests.support.faults import (
    check_attempts,
    end_workers,
    stage_folders,
    worker_pids,
)

pytestmark = pytest.mark.slow


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def notes(paths: RunPaths) -> dict[str, list[Note]]:
    """Of all attempts, by stage."""
    by_folder = {folder: attempts(StagePaths(folder)) for folder in stage_folders(paths)}
    return {str(folder.relative_to(paths.folder)): of for folder, of in by_folder.items() if of}


def train_folder(sweep: FakeSweep) -> StagePaths:
    return sweep.paths.point("grpo-n4-g0-s11")


def test_a_worker_that_outlives_its_driver_is_waited_for_and_not_repeated(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path)
    sweep.hold.touch()
    warmup = sweep.paths.warmup(11)
    first = sweep.start()
    try:
        wait_for(lambda: worker_pids(sweep.paths))
        first.kill()
        first.wait()
        (orphan,) = worker_pids(sweep.paths)
        second = sweep.start()
        wait_for(lambda: warmup.log(2).exists() and "waiting for" in warmup.log(2).read_text())
        sweep.hold.unlink()
        assert second.wait(timeout=600) == 0
    finally:
        end_workers(sweep.paths)
    steps = list(read_lines(warmup.folder / "steps.jsonl"))
    assert {row["pid"] for row in steps} == {orphan}
    assert f"waiting for process {orphan}" in warmup.log(2).read_text()
    assert "already done" in warmup.log(2).read_text()
    check_attempts(sweep.paths)


def test_a_second_driver_refuses_and_names_the_first(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, FAKE_STEPS="2000")
    first = sweep.start()
    try:
        wait_for(lambda: worker_pids(sweep.paths))
        second = subprocess.run(
            [sys.executable, "-m", "sweeps", "run", "smoke", f"run_root='{tmp_path}'"],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        since = lock_holder(sweep.paths.driver_lock)["since"]
        assert second.returncode == 2
        assert f"already being run by process {first.pid} on" in second.stderr
        assert f"since {since}" in second.stderr
        assert "cancel" in second.stderr
        assert "Traceback" not in second.stderr
        assert [len(tried) for tried in notes(sweep.paths).values()] == [1]
    finally:
        first.kill()
        first.wait()
        end_workers(sweep.paths)


def test_ctrl_c_lets_workers_save_and_the_same_command_goes_on(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, FAKE_STEPS="30")
    sweep.hold.touch()
    driver = sweep.start()
    wait_for(lambda: (sweep.paths.warmup(11).folder / "steps.jsonl").exists())
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=600) == 130
    ((note,),) = notes(sweep.paths).values()
    assert (note.exit_code, note.outcome) == (75, "stopped")
    assert "run the same command again to continue" in sweep.log()
    sweep.hold.unlink()
    assert sweep.run() == 0
    for folder in stage_folders(sweep.paths):
        check_steps(folder, 30)
    rows = list(read_lines(sweep.paths.warmup(11).folder / "steps.jsonl"))
    assert len(rows) == 30, "a stop that is asked for computes nothing twice"


def test_a_second_ctrl_c_kills_workers_that_do_not_answer(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, FAKE_STEPS="2", FAKE_STEP_SECONDS="60")
    driver = sweep.start()
    wait_for(lambda: worker_pids(sweep.paths))
    driver.send_signal(signal.SIGTERM)
    wait_for(lambda: "the same signal again kills" in sweep.log())
    assert driver.poll() is None
    driver.send_signal(signal.SIGTERM)
    assert driver.wait(timeout=600) == 143
    assert worker_pids(sweep.paths) == []
    ((note,),) = notes(sweep.paths).values()
    assert (note.exit_code, note.outcome) == (-9, "stopped")


def test_stopping_also_stops_the_orphan_that_a_worker_waits_for(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, FAKE_STEPS="2000", FAKE_STEP_SECONDS="0.02")
    first = sweep.start()
    wait_for(lambda: worker_pids(sweep.paths))
    first.kill()
    first.wait()
    second = sweep.start()
    try:
        waiting = sweep.paths.warmup(11).log(2)
        wait_for(lambda: waiting.exists() and "waiting for" in waiting.read_text())
        second.send_signal(signal.SIGINT)
        assert second.wait(timeout=600) == 130
        assert worker_pids(sweep.paths) == []
    finally:
        end_workers(sweep.paths)


def test_cancel_stops_a_driver_or_the_workers_it_left(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, FAKE_STEPS="2000", FAKE_STEP_SECONDS="0.02")

    def cancel() -> str:
        command = [sys.executable, "-m", "sweeps", "cancel", "smoke", f"run_root={tmp_path}"]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        return done.stdout

    first = sweep.start()
    wait_for(lambda: worker_pids(sweep.paths))
    said = cancel()
    assert f"asked the driver, process {first.pid}, to stop" in said
    assert "run the same command again to continue" in said
    assert first.wait(timeout=600) == 143
    second = sweep.start()
    wait_for(lambda: worker_pids(sweep.paths))
    (worker,) = worker_pids(sweep.paths)
    second.kill()
    second.wait()
    said = cancel()
    assert f"no driver is running; asked process {worker} at" in said
    assert not is_locked(sweep.paths.warmup(11).lock)
    assert cancel() == "nothing of smoke is running\n"


LATE_NAME = """
import fcntl, json, os, socket, sys, time
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
time.sleep(0.3)
file.truncate(0)
file.write(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
file.flush()
time.sleep(600)
"""


def test_cancel_asks_who_holds_the_lock_and_not_who_held_it_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "NAME_SECONDS", 60.0)
    paths = RunPaths(root=tmp_path, sweep="smoke", experiment="countdown-tiny", version="v1")
    paths.driver_lock.parent.mkdir(parents=True)
    before = subprocess.Popen([sys.executable, "-c", ""])
    before.wait()
    name = {"pid": before.pid, "host": socket.gethostname()}
    paths.driver_lock.write_text(json.dumps(name))
    driver = subprocess.Popen(
        [sys.executable, "-c", LATE_NAME, str(paths.driver_lock)], stdout=subprocess.PIPE
    )
    try:
        assert driver.stdout is not None
        driver.stdout.readline()
        assert next(pool.cancel(paths)).startswith(f"asked the driver, process {driver.pid}, to")
        assert driver.wait(timeout=600) == -signal.SIGTERM
    finally:
        driver.kill()
        driver.communicate()


def test_cancel_says_on_which_host_the_driver_is(tmp_path: Path) -> None:
    paths = RunPaths(root=tmp_path, sweep="smoke", experiment="countdown-tiny", version="v1")
    with locked(paths.driver_lock, wait=False, what="smoke"):
        name = {"pid": 12, "host": "elsewhere", "since": "2026-01-01T00:00:00+00:00"}
        paths.driver_lock.write_text(json.dumps(name))
        with pytest.raises(
            ValueError, match=r"process 12 on elsewhere since 2026.* `cancel` there"
        ):
            list(pool.cancel(paths))


@pytest.mark.rare
def test_a_failed_stage_holds_up_only_what_needs_it(tmp_path: Path) -> None:
    failing, silent = "grpo-n4-g0-s11", "grpo-n4-g1-s11"
    sweep = fake_sweep(tmp_path, FAKE_FAIL=failing, FAKE_SILENT=silent)
    assert sweep.run() == 1
    outcomes = {name: tried[-1].outcome for name, tried in notes(sweep.paths).items()}
    assert {name for name, outcome in outcomes.items() if outcome == "failed"} == {failing, silent}
    assert len(outcomes) == 4, "their evaluations were not started"
    assert train_folder(sweep).attempt(1).exists()
    assert "RuntimeError: the fake stage was told to fail" in sweep.log()
    assert "ended with 0 but left no completion marker" in sweep.log()
    assert str(train_folder(sweep).log(1)) in sweep.log()
    assert "2 stages failed, 2 that need them were not started, 2 are done" in sweep.log()
    mended = fake_sweep(tmp_path)
    assert mended.run() == 0
    check_attempts(sweep.paths)


def test_a_stage_that_stops_by_itself_is_started_again_and_each_end_is_said_in_order(
    tmp_path: Path,
) -> None:
    sweep = fake_sweep(tmp_path, "profile.max_parallel=1", FAKE_RESTLESS="grpo-n4-g0-s11")
    assert sweep.run() == 0
    assert [note.exit_code for note in attempts(train_folder(sweep))] == [75, 0]
    check_steps(train_folder(sweep).folder, 8)
    said = [line[21:] for line in sweep.log().splitlines()]
    assert said[2] == "2 runs, 6 stages: 0 done before, 6 to run, 1 worker at once"
    assert said[3].startswith("done    warm-up base-s11  after ")
    assert len([line for line in said if line.startswith("done ")]) == 6
    assert sweep.log().endswith("finished\n")
    # Finished, it starts nothing and reports again.
    before = notes(sweep.paths), sweep.paths.sweep_json.read_bytes()
    (sweep.paths.report / "table.json").unlink()
    assert sweep.run() == 0
    assert (notes(sweep.paths), sweep.paths.sweep_json.read_bytes()) == before
    assert (sweep.paths.report / "table.json").exists()


@pytest.mark.rare
def test_no_more_workers_run_at_once_than_allowed(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, "profile.max_parallel=1", FAKE_HELD="grpo")  # two are trained
    sweep.hold.touch()
    driver = sweep.start()
    try:
        deadline = time.monotonic() + 600
        while len(trained := list(sweep.paths.folder.glob("grpo-*/logs/*.log"))) < 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.5)  # in which a second worker would begin with the other one
        assert list(sweep.paths.folder.glob("grpo-*/logs/*.log")) == trained
    finally:
        sweep.hold.unlink()
    assert driver.wait(timeout=600) == 0
    assert len(re.findall(r"  done ", sweep.log())) == 6


def test_a_disk_that_fills_up_under_a_driver_leaves_no_worker_behind(tmp_path: Path) -> None:
    sweep = fake_sweep(tmp_path, "profile.max_parallel=2", FAKE_STEPS="200")
    program = """
import runpy
from fgrpo_bench.stages import attempts

write = attempts.write_json
def full(path, note):
    if "g1" in str(path):
        raise OSError(28, f"cannot write {path}")
    write(path, note)
attempts.write_json = full
runpy.run_module("tests.support.fake_driver", None, "__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(sweep.declaration)],
        cwd=REPOSITORY,
        env=sweep.environment | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert f"cannot write {sweep.paths.point('grpo-n4-g1-s11').attempt(1)}" in done.stderr
    assert worker_pids(sweep.paths) == []
