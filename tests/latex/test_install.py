"""Without LaTeX: an error that names the packages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.latex import install


def test_without_root_the_error_names_every_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RuntimeError) as error:
        install.LATEX.install()
    assert all(package in str(error.value) for package in install.PACKAGES.values())
    assert "as root on Debian or Ubuntu" in str(error.value)
