"""These tests run in the environment of `make test-integrations`."""

import subprocess
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.wheel import PIP, build

HERE = Path(__file__).parent

if find_spec("verl") is None:  # any other environment cannot even import them
    collect_ignore_glob = ["test_*.py"]
else:
    import torch

    with warnings.catch_warnings(action="ignore"):  # they tell of engines that are not installed
        import trl  # noqa: F401
        import verl.trainer.ppo.v1.utils  # noqa: F401

        import fgrpo_bench.conformance.trainers.skyrl  # noqa: F401  (it makes skyrl load here)

    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs verl, TRL and SkyRL."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.integrations)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel of this checkout is installed, alone."""
    built, into = (tmp_path_factory.mktemp(name) for name in ("built", "into"))
    words = ["install", "--no-deps", "--target", str(into), str(build(built))]
    subprocess.run([*PIP, *words], check=True)
    return into
