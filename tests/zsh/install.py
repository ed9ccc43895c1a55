"""Installs zsh, whose completion is tested: `python -m tests.zsh.install`."""

from __future__ import annotations

import shutil

from tests.support.debian import Requirement


def missing_packages() -> list[str]:
    """The shell, where it is not there."""
    return [] if shutil.which("zsh") else ["zsh"]


ZSH = Requirement(name="zsh", make_target="test-zsh", packages=["zsh"], missing=missing_packages)

if __name__ == "__main__":
    ZSH.main()
