"""Locks name their holder and die with its process."""

import json
import os
import subprocess
import sys

import pytest

from fgrpo_bench.stages.locks import is_locked, locked


def test_a_second_holder_is_refused_and_told_who_the_first_is(tmp_path):
    path = tmp_path / "x.lock"
    with locked(path, wait=False, what="sweep x"):
        assert is_locked(path)
        with (
            pytest.raises(BlockingIOError, match=f"sweep x is already .* process {os.getpid()} on"),
            locked(path, wait=False, what="sweep x"),
        ):
            pass
    assert not is_locked(path)


def test_a_killed_holder_frees_the_lock(tmp_path):
    path = tmp_path / "x.lock"
    code = (
        "import sys, time; from pathlib import Path; from fgrpo_bench.stages.locks import locked\n"
        "with locked(Path(sys.argv[1]), wait=False, what='x'):\n"
        "    print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    assert is_locked(path)
    assert json.loads(path.read_text())["pid"] == child.pid
    child.kill()
    child.wait()
    child.stdout.close()
    assert not is_locked(path)
