"""Locks name their holder and die with its process."""

import errno
import fcntl
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


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_named_with_the_remedy(tmp_path, monkeypatch, number):
    def refuses(*_):
        raise OSError(number, os.strerror(number))

    path = tmp_path / "x.lock"
    path.touch()
    monkeypatch.setattr(fcntl, "flock", refuses)
    for wait in (True, False):
        with pytest.raises(OSError, match=r"needs a file system with flock .* another one") as at:
            locked(path, wait=wait, what="sweep x").__enter__()
        assert (at.value.errno, at.value.filename) == (number, str(path))
    with pytest.raises(OSError, match=f"^\\[Errno {number}\\] {os.strerror(number)}: it cannot"):
        is_locked(path)
