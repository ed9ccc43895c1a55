"""Without SLURM: an error that names the packages, or an installation that starts nothing."""

from __future__ import annotations

import os
import subprocess
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
        install.install()
    assert all(package in str(error.value) for package in install.PACKAGES.values())
    assert "as root on Debian or Ubuntu" in str(error.value)


def test_a_program_that_is_there_is_not_missed(tmp_path: Path, bare_machine: None) -> None:
    program = tmp_path / "sbatch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert "slurm-client" not in install.missing_packages()
    assert "slurmctld" in install.missing_packages()


def test_an_installation_may_start_no_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(install, "SERVICE_POLICY", policy)
    with install.services_stay_stopped():
        assert subprocess.call([policy]) == 101
    assert not policy.exists()


def test_a_policy_that_was_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("mine")
    monkeypatch.setattr(install, "SERVICE_POLICY", policy)
    with install.services_stay_stopped():
        assert policy.read_text() == "mine"
    assert policy.read_text() == "mine"
