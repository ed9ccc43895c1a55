"""The Tab key in a real zsh."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps import REPOSITORY
from sweeps.completion import main
from tests.support.terminal import Terminal

pytestmark = pytest.mark.zsh


def test_zsh_completes_on_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zsh"]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    zsh = Terminal(REPOSITORY, "zsh", "-f", "-i", ZDOTDIR=str(tmp_path))
    try:
        zsh.run(f"source {script}")
        zsh.tab("make sweep-grou", becomes="make sweep-groupsize")
        zsh.tab("python -m sweeps plan groups", becomes="plan groupsize")
        zsh.tab("python -m sweeps plan groupsize experiment=countdown-t", becomes="=countdown-tiny")
        zsh.tab("python -m sweeps plan groupsize experiment.train.steps", becomes="train.steps=")
        zsh.tab("fgrpo-bench dash", becomes="fgrpo-bench dashboards")
        (tmp_path / "Makefile").write_text("alone:\n")
        zsh.run(f"cd {tmp_path}")
        zsh.tab("make al", becomes="make alone")
    finally:
        zsh.close()
