"""Children that end with their parent and are deaf to what tells it to save."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

from fgrpo_bench.engines.openrlhf import driver
from fgrpo_bench.engines.processes import STOP_SIGNALS, deaf

BLOCKED = "import signal; print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))))"
TRACKER = "from multiprocessing import resource_tracker as r; r.ensure_running(); "
HOOK = "from fgrpo_bench.engines.processes import stay_deaf; stay_deaf(); "


def blocked(code: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.strip("[]\n").split(",") if number]


def test_what_is_started_deaf_gets_no_stop_signal_and_this_process_still_does() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with deaf():
        assert set(STOP_SIGNALS) <= set(blocked(BLOCKED))
        # which unblocks them otherwise, at least on Python 3.11
        assert signal.SIGTERM in blocked(HOOK + TRACKER + BLOCKED)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_every_worker_of_ray_is_told_to_stay_deaf() -> None:
    hook = driver.ray_arguments("n1:1", None)["runtime_env"]["worker_process_setup_hook"]
    module, _, name = hook.rpartition(".")
    assert callable(getattr(import_module(module), name))


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys; "
        "from fgrpo_bench.engines.processes import die_with_parent; "
        "child = subprocess.Popen(['sleep', '60'], preexec_fn=die_with_parent); "
        "print(child.pid, flush=True); child.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    stat = Path(f"/proc/{int(parent.stdout.readline())}/stat")
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 120
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.01)
