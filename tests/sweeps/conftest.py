"""The command line under a run root of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps.cli import main


@pytest.fixture
def sweeps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """sweeps(command, sweep, ...) -> exit code, output, errors; the run root is tmp_path."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, f"run_root={tmp_path}"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call
