"""These tests run in the environment of `make setup-openrlhf-cpu`, by `make test-openrlhf`."""

from importlib.util import find_spec

import pytest

if find_spec("openrlhf") is None:  # any other environment cannot even import them
    collect_ignore_glob = ["test_*.py"]
else:
    import os

    os.environ.setdefault("FGRPO_OPENRLHF_DEVICE", "cpu")
    from fgrpo_bench.engines.openrlhf import driver, rehearsal

    driver.prepare_environment()
    rehearsal.set_up()


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A checkpoint of the embedded engine."""
    import torch

    from tests.support.openrlhf import make_model

    torch.set_num_threads(1)
    return make_model(tmp_path_factory.mktemp("model"))
