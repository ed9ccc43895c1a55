"""Debian's packages: installed as root and nothing started, or an error with the remedy."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import debian
from tests.support.debian import Requirement

# An apt-get that notes what it is asked, and whether a package could start a service.
APT_GET = """#!/bin/sh
echo "$DEBIAN_FRONTEND $*" >> {folder}/asked
if {folder}/policy-rc.d 2> {folder}/shell; then :; else echo "policy $?" >> {folder}/asked; fi
case "$*" in *install*) {install} ;; esac
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root's machine: the folder of all its programs, without apt-get and without tool-bin."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(debian, "SERVICE_POLICY", tmp_path / "policy-rc.d")
    return tmp_path


def add_apt_get(machine: Path, *, install: str) -> None:
    """install: the shell commands that `apt-get install` gives here."""
    program = machine / "apt-get"
    program.write_text(APT_GET.format(folder=machine, install=install), encoding="utf-8")
    program.chmod(0o755)


def requirement(machine: Path, *, starts_services: bool = False) -> Requirement:
    return Requirement(
        name="The tool",
        make_target="test-tool",
        packages=["tool-bin", "tool-data"],
        missing=lambda: [] if (machine / "tool").exists() else ["tool-bin"],
        starts_services=starts_services,
    )


def test_only_what_is_missing_is_installed_after_an_update(machine: Path) -> None:
    add_apt_get(machine, install=f": > {machine}/tool")
    requirement(machine).install()
    update, install = [line for line in asked(machine) if "policy" not in line]
    assert update == "noninteractive -q update"
    assert install == "noninteractive -q install -y --no-install-recommends tool-bin"


def test_nothing_is_asked_where_nothing_is_missing(machine: Path) -> None:
    add_apt_get(machine, install="exit 1")
    (machine / "tool").touch()
    requirement(machine).install()
    assert not (machine / "asked").exists()


@pytest.mark.parametrize("starts_services", [True, False])
def test_packages_with_services_are_kept_from_starting_them(
    machine: Path, starts_services: bool
) -> None:
    add_apt_get(machine, install=f": > {machine}/tool")
    requirement(machine, starts_services=starts_services).install()
    # A shell says 127 where there is no such program: no policy, and services may start.
    policy = "policy 101" if starts_services else "policy 127"
    assert asked(machine)[1::2] == [policy, policy]
    assert not (machine / "policy-rc.d").exists()


def test_services_may_start_again_after_a_failure(machine: Path) -> None:
    add_apt_get(machine, install="echo no such package >&2; exit 100")
    with pytest.raises(RuntimeError, match=r"install .* tool-bin failed:\nno such package"):
        requirement(machine, starts_services=True).install()
    assert not (machine / "policy-rc.d").exists()


def test_an_installation_that_leaves_the_program_missing_is_an_error(machine: Path) -> None:
    add_apt_get(machine, install=":")
    with pytest.raises(RuntimeError, match="lacks tool-bin"):
        requirement(machine).install()


@pytest.mark.parametrize("user", [0, 1000])
def test_without_root_or_apt_get_the_error_names_the_packages_and_the_remedy(
    machine: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    if user:
        add_apt_get(machine, install=f": > {machine}/tool")
    with pytest.raises(SystemExit) as end:
        requirement(machine).main()
    said = str(end.value)
    assert "lacks tool-bin." in said and "packages: tool-bin tool-data" in said
    assert "`make test-tool` as root on Debian or Ubuntu" in said
    assert not (machine / "asked").exists()


def test_a_policy_that_was_there_stays(machine: Path) -> None:
    policy = machine / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 7\n", encoding="utf-8")
    policy.chmod(0o755)
    with debian.services_stay_stopped():
        assert subprocess.call([policy]) == 7
    assert subprocess.call([policy]) == 7


def asked(machine: Path) -> list[str]:
    return (machine / "asked").read_text(encoding="utf-8").splitlines()
