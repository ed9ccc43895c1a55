"""A stage that counts instead of training: `python -m tests.support.fake_stage <folder>`.

It stands at the process boundary in place of the training and evaluation programs and keeps their
contract (fgrpo_bench.stages.stage): it saves every SAVE_EVERY steps, resumes from its save, stops
on SIGTERM, and what it computes follows from its spec and from the result of its source stage
alone. Every step it takes is a line of steps.jsonl, so that a test can see what was computed twice.

FAKE_STEPS, FAKE_STEP_SECONDS: how long it takes. FAKE_FAIL, FAKE_SILENT, FAKE_RESTLESS: parts of a
stage's name, to fail after a step, to end with 0 without a marker, to stop by itself once.
FAKE_KILLED: likewise, to be killed before the first step, always.
FAKE_HOLD: a file; while it is there, stages with FAKE_HELD in their name wait before the last step
but one, so that a stage that is stopped there has something left to do.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fgrpo_bench.files.journal import append_line
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.spec import StageSpec
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.specs import Profile
from fgrpo_bench.stages.stage import StageRun, Stopped, run_stage

SAVE_EVERY = 4


def fake_command(kind: str, folder: Path, profile: Profile, environment: str) -> list[str]:
    """In place of sweeps.commands.stage_command."""
    return [sys.executable, "-m", "tests.support.fake_stage", str(folder)]


def work(spec: StageSpec, run: StageRun) -> Record:
    """Hash on from the source's result, step by step."""
    folder, steps = run.paths.folder, int(os.environ.get("FAKE_STEPS", "8"))
    saved = folder / "saved.json"
    source = spec.further.get("base") or spec.source
    state: dict[str, Any] = {"step": 0, "value": spec.fingerprint}
    if source is not None:
        state["value"] += read_json(folder / source / "result.json")["value"]
    if saved.exists():
        state = read_json(saved)
    if _named("FAKE_KILLED", folder):
        os.kill(os.getpid(), signal.SIGKILL)
    for step in range(state["step"] + 1, steps + 1):
        time.sleep(float(os.environ.get("FAKE_STEP_SECONDS", "0.005")))
        while step == steps - 1 and _held(folder) and not run.stopping:
            time.sleep(0.01)
        state = {"step": step, "value": hashlib.sha256(f"{state}".encode()).hexdigest()}
        append_line(folder / "steps.jsonl", {"step": step, "pid": os.getpid()})
        run.progress(step=step, of=steps, reward=step / steps)
        if _named("FAKE_FAIL", folder):
            raise RuntimeError("the fake stage was told to fail")
        if _named("FAKE_SILENT", folder):
            os._exit(0)
        restless = _named("FAKE_RESTLESS", folder) and not (folder / "rested").exists()
        if step % SAVE_EVERY == 0 or run.stopping or restless:
            write_json(saved, state)
        if restless:
            (folder / "rested").touch()
        if run.stopping or restless:
            raise Stopped(f"saved at step {step}")
    write_json(folder / "result.json", state)
    run.register_outputs(folder / "result.json")
    return Record()


def _held(folder: Path) -> bool:
    return os.environ.get("FAKE_HELD", "") in str(folder) and Path(os.environ["FAKE_HOLD"]).exists()


def _named(variable: str, folder: Path) -> bool:
    part = os.environ.get(variable)
    return part is not None and part in str(folder)


if __name__ == "__main__":
    sys.exit(run_stage(StagePaths(Path(sys.argv[1])), work))
