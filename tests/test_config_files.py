"""YAML that cannot be read is refused with its file, whatever is wrong with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fgrpo_bench import config

FAULTS = {
    "a tab": b"\tsteps: 3\n",
    "a key twice": b"once: 1\nonce: 2\n",
    "a tag that would run code": b"x: !!python/object/apply:os.getcwd []\n",
    "a zero byte": b"x: a\x00b\n",
    "an anchor within itself": b"a: &a [*a]\n",
    "lists within lists": b"x: " + b"[" * 5_000 + b"]" * 5_000 + b"\n",
    "no UTF-8": b"x: \xff\n",
    "a number alone": b"17",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_yaml_that_cannot_be_read_is_refused_with_its_file(tmp_path: Path, fault: str) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(config.CONF, conf)
    path = conf / "sweep" / "smoke.yaml"
    path.write_bytes(FAULTS[fault] + (path.read_bytes() if ":" in str(FAULTS[fault]) else b""))
    with pytest.raises(ValueError, match=rf"{path} is no YAML that can be read \(.*\): mend it"):
        config.load("smoke", conf=conf)
