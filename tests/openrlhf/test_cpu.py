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


def test_a_compilers_lock_that_a_killed_run_left_is_removed(lock, capfd):
    then = time.time() - cpu.STALE_SECONDS - 1
    os.utime(lock, (then, then))
    waiting(lock).join(5)
    assert not lock.exists()
    assert f"removed {lock}, which a killed run had left" in capfd.readouterr().out


def test_a_fresh_lock_is_waited_for_and_named(lock, capfd):
    thread = waiting(lock)
    thread.join(0.2)
    assert thread.is_alive() and lock.exists()
    lock.unlink()
    thread.join(5)
    assert not thread.is_alive()
    assert capfd.readouterr().out.count(f"if none runs, delete {lock}") == 1
