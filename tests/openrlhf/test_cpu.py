"""The stand-ins for CUDA, where they can be tested without a run."""

import os
import threading
import time

import pytest
from torch.utils.file_baton import FileBaton

from fgrpo_bench.training.openrlhf import cpu

pytestmark = pytest.mark.openrlhf


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "lock"
    path.touch()
    return path


def waiting(lock):
    thread = threading.Thread(target=FileBaton(str(lock), 0.01).wait, daemon=True)
    thread.start()
    return thread


def test_a_lock_that_a_killed_run_left_on_a_compiled_extension_is_removed(lock, capfd):
    (lock.parent / "fused_adam.so").touch()
    then = time.time() - cpu.STALE_SECONDS - 1
    os.utime(lock, (then, then))
    waiting(lock).join(5)
    assert not lock.exists()
    assert f"{lock} was left by a run that was killed: removed" in capfd.readouterr().out


@pytest.mark.parametrize(("age", "compiled"), [(0.0, True), (1e6, False)])
def test_a_lock_that_is_fresh_or_of_a_compilation_is_waited_for(lock, age, compiled):
    if compiled:
        (lock.parent / "fused_adam.so").touch()
    os.utime(lock, (time.time() - age, time.time() - age))
    thread = waiting(lock)
    thread.join(0.2)
    assert thread.is_alive() and lock.exists()
    lock.unlink()
    thread.join(5)
    assert not thread.is_alive()
