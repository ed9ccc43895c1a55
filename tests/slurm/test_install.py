"""What of SLURM is missed, and that an error names all of its packages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.slurm import install


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "SEARCH_PATH", str(tmp_path))


@pytest.mark.usefixtures("bare_machine")
def test_without_root_the_error_names_every_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RuntimeError) as error:
        install.SLURM.install()
    assert all(package in str(error.value) for package in install.PACKAGES.values())
    assert "as root on Debian or Ubuntu" in str(error.value)


def test_a_program_that_is_there_is_not_missed(tmp_path: Path, bare_machine: None) -> None:
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert "slurm-client" not in install.missing_packages()
    assert "slurmctld" in install.missing_packages()
