"""One warmed-up small sweep, shared by the tests of the engine."""

import pytest
import torch

from fgrpo_bench.engines.embedded.warmup import warm_up
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import read_spec
from fgrpo_bench.stages.stage import StageRun
from tests.support.stages import freeze


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


@pytest.fixture(scope="session")
def warmed(tmp_path_factory):
    """(plan, paths) of sweep smoke with its warm-up done."""
    from fgrpo_bench.stages.markers import Marker, write_marker

    plan, paths = freeze(tmp_path_factory.mktemp("runs"))
    stage = paths.warmup(11)
    facts = warm_up(read_spec(StagePaths(stage.folder)), StageRun(StagePaths(stage.folder)), "cpu")
    write_marker(
        stage, Marker.parsed({"fingerprint": "f", "target": {}, "outputs": {}} | facts.as_json())
    )
    return plan, paths
