"""The Tab key in a real zsh."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps import REPOSITORY
from tests.support.terminal import Terminal, with_command

pytestmark = pytest.mark.zsh


def test_zsh_completes_on_a_terminal(tmp_path: Path) -> None:
    path = with_command(tmp_path)
    zsh = Terminal(REPOSITORY, "zsh", "-f", "-i", ZDOTDIR=str(tmp_path), PATH=path)
    try:
        zsh.run("autoload -Uz compinit && compinit")
        zsh.run("source <(fgrpo-bench --show-completion)")
        zsh.tab("fgrpo-bench dash", becomes="fgrpo-bench dashboard")
        zsh.tab("fgrpo-bench sweep plan groups", becomes="plan groupsize")
        zsh.tab("fgrpo-bench sweep plan groupsize/countdown-t", becomes="groupsize/countdown-tiny")
        zsh.tab("fgrpo-bench sweep plan smoke experiment=countdown-t", becomes="=countdown-tiny")
        zsh.tab("fgrpo-bench sweep plan smoke experiment.train.steps", becomes="train.steps=12")
    finally:
        zsh.close()
