"""These tests run in the environment of `make test-integrations`."""

import shutil
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if find_spec("verl") is None:  # any other environment cannot even import them
    collect_ignore_glob = ["test_*.py"]
else:
    import torch

    with warnings.catch_warnings(action="ignore"):  # they tell of engines that are not installed
        import trl  # noqa: F401
        import verl.trainer.ppo.v1.utils  # noqa: F401

    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs verl and TRL."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integrations)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel of this checkout is installed, alone."""
    source, built, into = (tmp_path_factory.mktemp(name) for name in ("source", "built", "into"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(HERE.parents[1] / name, source)
    ours = HERE.parents[1] / "fgrpo_bench"
    shutil.copytree(ours, source / ours.name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    quick = ["--no-deps", "--no-build-isolation", "-w", str(built), str(source)]
    subprocess.run([*pip, "wheel", *quick], check=True, stderr=subprocess.PIPE)
    (made,) = built.iterdir()
    subprocess.run([*pip, "install", "--no-deps", "--target", str(into), str(made)], check=True)
    return into
