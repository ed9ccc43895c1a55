"""A job's payload as a process of its own: signals, exit codes, requeues and fencing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.attempts import Note, attempts, begin
from fgrpo_bench.stages.stage import run_stage
from fgrpo_bench.stages.watch import Progress
from sweeps.slurm.attempts import idle
from tests.slurm.processes import PATIENCE_S, wait_until
from tests.slurm.running import BATCH, counting, start_payload

SPEC = {"kind": "train", "fingerprint": "ff", "target": {}}


@pytest.fixture
def stage(tmp_path: Path) -> StagePaths:
    paths = StagePaths(tmp_path / "point")
    write_json(paths.spec, SPEC)
    return paths


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """The environment of a job that is being ended; scontrol notes what it is told."""
    programs = tmp_path / "bin"
    programs.mkdir()
    install(programs / "scontrol", f'echo "$@" >> {tmp_path}/scontrol')
    install(programs / "squeue", shows("COMPLETING"))
    path = f"{programs}:{os.environ['PATH']}"
    return {"PATH": path, "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}


def shows(state: str, name: str = BATCH) -> str:
    """A queue with the job; it runs a file in the batch's folder."""
    return f"echo '12_3|{name}|{state}|n1|0:10|N/A|None|/r/{BATCH}/{'0' * 32}.sh'"


def install(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def end(job: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, output and errors, once it has ended."""
    output, errors = job.communicate(timeout=PATIENCE_S)
    return job.returncode, output, errors


def start_slow(
    stage: StagePaths, slurm: dict[str, str], step_seconds: float = 0.02
) -> subprocess.Popen[str]:
    """A job in the middle of a stage of 1000 steps."""
    settings = {"FAKE_STEPS": "1000", "FAKE_STEP_SECONDS": str(step_seconds)}
    job = start_payload(stage, counting(stage), slurm, **settings)
    wait_until((stage.folder / "steps.jsonl").exists, what="a step")
    return job


def note(stage: StagePaths) -> Note:
    return attempts(stage)[-1]


def requeued(stage: StagePaths) -> list[str]:
    told = stage.folder.parent / "scontrol"
    return told.read_text().splitlines() if told.exists() else []


def test_a_stage_is_run_with_its_log_and_noted(stage: StagePaths, slurm: dict[str, str]) -> None:
    job = start_payload(stage, counting(stage), slurm, FAKE_STEPS="3", FAKE_HOLD="/none")
    code, said, errors = end(job)
    assert (code, said) == (0, "done\n"), errors
    assert "done in" in stage.log(1).read_text()
    noted = note(stage)
    assert (noted.job_id, noted.attempt) == ("12_3", 1)
    assert (noted.outcome, noted.step) == ("done", 3)


def test_where_the_marker_stands_nothing_is_started(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    write_json(stage.done, SPEC | {"outputs": {}})
    job = start_payload(stage, ["/no/such/program"], slurm)
    assert end(job)[:2] == (0, "already done\n")
    assert attempts(stage) == []


@pytest.mark.parametrize(
    ("signum", "state", "name", "is_requeued"),
    [
        pytest.param(signal.SIGUSR2, "COMPLETING", BATCH, True, id="warned"),
        pytest.param(signal.SIGUSR2, "RUNNING", "mywork", True, id="warned-and-renamed"),
        pytest.param(signal.SIGTERM, "COMPLETING", BATCH, False, id="ended"),
        pytest.param(signal.SIGUSR2, None, "other", False, id="lost-and-its-id-is-anothers"),
        pytest.param(signal.SIGTERM, "RUNNING", BATCH, True, id="in-the-grace-of-a-preemption"),
    ],
)
def test_either_signal_saves_and_what_slurm_does_not_end_or_requeue_itself_is_requeued(
    stage: StagePaths,
    slurm: dict[str, str],
    tmp_path: Path,
    signum: signal.Signals,
    state: str | None,
    name: str,
    is_requeued: bool,
) -> None:
    """In a time of grace SLURM takes a job that ends by itself for failed."""
    if state is None:
        install(tmp_path / "bin" / "squeue", "echo '12_3|other|RUNNING|n1|0:10|N/A|None|/x.sh'")
    else:
        install(tmp_path / "bin" / "squeue", shows(state, name))
    job = start_slow(stage, slurm)
    job.send_signal(signum)
    assert end(job)[0] == 75
    assert note(stage).outcome == "stopped"
    assert (stage.folder / "saved.json").exists()
    assert requeued(stage) == (["requeue 12_3"] if is_requeued else [])


def test_the_warning_goes_to_every_process_of_a_job_and_ends_none(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    job = start_slow(stage, slurm)
    os.kill(read_json(stage.owner)["pid"], signal.SIGUSR2)
    job.send_signal(signal.SIGUSR2)
    end(job)
    assert note(stage).outcome == "stopped"


def test_both_signals_requeue_nothing_because_slurm_is_at_it(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    job = start_slow(stage, slurm, step_seconds=0.3)
    job.send_signal(signal.SIGUSR2)
    job.send_signal(signal.SIGTERM)
    assert end(job)[0] == 75
    assert requeued(stage) == []


def test_a_stage_that_stops_itself_at_one_step_for_ever_is_not_requeued_for_ever(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    for turn in range(1, 4):
        job = start_payload(stage, [sys.executable, "-c", "import sys; sys.exit(75)"], slurm)
        code, _, errors = end(job)
        assert code == (1 if turn == 3 else 75)
    assert "got no further in 3 attempts of this job" in errors
    assert requeued(stage) == ["requeue 12_3"] * 2


def test_a_stage_whose_node_fails_at_one_step_for_ever_is_not_run_for_ever(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    """SLURM requeues such a job without end, and no attempt lives to note how it ended."""
    for turn in range(1, 5):
        job = start_payload(stage, ["sleep", "30"], slurm)
        if turn < 4:
            wait_until(lambda turn=turn: len(attempts(stage)) == turn, what="its attempt")
            job.kill()
        code, _, errors = end(job)
    assert code == 1
    assert "got no further in 3 attempts of this job" in errors
    assert len(attempts(stage)) == 3
    assert idle(stage, "12_3", BATCH)
    assert not idle(stage, "13_3", BATCH), "what another job did is not held against this one"


def test_a_stage_that_gets_further_each_time_may_be_killed_for_ever(stage: StagePaths) -> None:
    for number, at in enumerate([None, 10, 20, 30], start=1):
        write_json(stage.attempt(number), {"attempt": number, "job_id": "7", "from_step": at})
    write_json(stage.progress, Progress(step=40, of=80, eta_seconds=None).as_json())
    assert not idle(stage, "7", None)
    write_json(stage.progress, Progress(step=10, of=80, eta_seconds=None).as_json())
    assert idle(stage, "7", None)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit(0)", "ended with 0 but left no completion marker"),
        ("raise SystemExit(3)", "ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
    ],
)
def test_every_other_end_is_a_failure(
    stage: StagePaths, slurm: dict[str, str], code: str, words: str
) -> None:
    exit_code, _, errors = end(start_payload(stage, [sys.executable, "-c", code], slurm))
    assert exit_code == 1
    assert words in errors
    assert note(stage).outcome == "failed"
    assert requeued(stage) == []


def test_a_stage_whose_input_is_incomplete_is_not_started(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    need = StagePaths(stage.folder.parent / "need")
    write_json(need.spec, SPEC)
    job = start_payload(stage, counting(stage), slurm, str(need.folder))
    code, _, errors = end(job)
    assert code == 1
    assert "need is not complete" in errors
    assert note(stage).outcome == "unready"
    assert not (stage.folder / "steps.jsonl").exists()


def test_a_stage_whose_run_root_goes_says_so_and_makes_no_folder_in_its_place(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    moved = stage.folder.with_name("moved")
    code = f"import os; os.rename({str(stage.folder)!r}, {str(moved)!r}); exit(1)"
    exit_code, _, errors = end(start_payload(stage, [sys.executable, "-c", code], slurm))
    assert exit_code == 1
    last = errors.strip().splitlines()[-1]
    assert last.startswith(f"RuntimeError: {stage.folder} is gone: was the run root moved or rem")
    assert not stage.folder.exists()
    assert attempts(StagePaths(moved))[-1].outcome is None


def test_a_task_that_is_not_the_first_runs_the_command_and_leaves_the_rest_to_it(
    stage: StagePaths, slurm: dict[str, str]
) -> None:
    code = "import os; os.kill(os.getppid(), 12); os.kill(os.getpid(), 15); print('ran')"
    job = start_payload(stage, [sys.executable, "-c", code], slurm | {"SLURM_PROCID": "1"})
    exit_code, said, errors = end(job)
    assert (exit_code, said) == (0, "ran\ndone\n"), errors
    assert attempts(stage) == []
    job = start_payload(stage, [sys.executable, "-c", "exit(1)"], slurm | {"SLURM_PROCID": "1"})
    exit_code, _, errors = end(job)
    assert exit_code == 1 and "ended with exit code 1 on " in errors
    assert requeued(stage) == []


def test_two_attempts_never_get_one_number(stage: StagePaths) -> None:
    begun = [begin(stage, driver=f"h:{pid}:noon") for pid in range(3)]
    assert [note.attempt for note, _ in begun] == [1, 2, 3]
    assert [note.driver for note in attempts(stage)] == ["h:0:noon", "h:1:noon", "h:2:noon"]
    for _, log in begun:
        log.close()


def test_an_older_attempt_that_wakes_up_marks_nothing(
    stage: StagePaths, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(spec: object, run: object) -> Record:
        write_json(stage.owner, newer)
        return Record()

    newer = {"token": "newer", "over": None, "pid": 7, "host": "n2", "since": "noon"}

    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        assert run_stage(stage, work) == 1
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), handlers, strict=True):
            signal.signal(number, handler)
    assert "process 7 on n2 began this stage at noon" in capsys.readouterr().err
    assert not stage.done.exists()
    assert read_json(stage.owner)["token"] == "newer"
