"""An evaluation by the real vLLM that is stopped and killed again and again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from fgrpo_bench.specs import DesignSpec, to_dict
from fgrpo_bench.stages.digests import weights_sha256
from fgrpo_bench.stages.files import read_json, write_json
from fgrpo_bench.stages.journal import read_lines
from fgrpo_bench.stages.paths import StagePaths
from fgrpo_bench.tables import DRAWS, read_table
from tests.support.vllm_draws import EVALUATION, PLACEMENT, SETTINGS

pytestmark = pytest.mark.openrlhf

N_PROBLEMS, N_SAMPLES = 25, 256
TOTAL = N_PROBLEMS * N_SAMPLES
DESIGN = DesignSpec(stages=(64, 128, N_SAMPLES), enough=8)


@pytest.fixture(scope="module")
def source(model, tmp_path_factory):
    """A stage whose checkpoint 0 is the model."""
    paths = StagePaths(tmp_path_factory.mktemp("source"))
    paths.checkpoint(0).parent.mkdir(parents=True)
    paths.checkpoint(0).symlink_to(model)
    write_json(paths.done, {"step": 0, "weights_sha256": weights_sha256(model)})
    return paths


def stage(folder, source, design=None):
    benchmark = replace(EVALUATION.benchmarks["countdown"], n_problems=N_PROBLEMS)
    evaluation = replace(
        EVALUATION, benchmarks={"countdown": benchmark}, n_samples=N_SAMPLES, design=design
    )
    paths = StagePaths(folder)
    spec = {
        "kind": "evaluate",
        "fingerprint": "f",
        "target": {},
        "identity": {"sampling": SETTINGS, "source": "s", "step": 0},
        "evaluation": to_dict(evaluation),
        "data": {},
        "source": str(source.folder),
        "step": 0,
    }
    write_json(paths.spec, spec)
    return paths


def start(paths, **environment):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("FGRPO_", "VLLM_"))}
    placement = json.dumps(to_dict(PLACEMENT))
    command = [sys.executable, "-m", "evaluators", "run", str(paths.folder)]
    with (paths.folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--placement", placement],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=inherited
            | {"PYTHONPATH": ".", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
            | environment,
            start_new_session=True,
        )


def finish(paths):
    log = paths.folder / "log"
    assert start(paths).wait(300) == 0, log.read_text()[-3000:]
    return read_table(paths.benchmark("countdown").draws, DRAWS)


def stored(paths):
    """How many bytes of draws are on the disk."""
    return sum(path.stat().st_size for path in paths.benchmark("countdown").shards.glob("*.jsonl"))


@pytest.mark.slow
def test_three_kills_in_the_middle_of_stages_lose_no_stored_draw_and_change_none(source, tmp_path):
    undisturbed = finish(stage(tmp_path / "undisturbed", source, DESIGN))
    stops = set(undisturbed.group_by("problem_id").len()["len"])
    assert len(stops) > 1 and stops <= set(DESIGN.stages)
    paths = stage(tmp_path / "killed", source, DESIGN)
    rng, kept = random.Random(11), 0
    for _ in range(3):
        before, more = stored(paths), rng.randrange(10_000, 60_000)
        process = start(paths)
        while stored(paths) < before + more:
            assert process.poll() is None, (paths.folder / "log").read_text()[-3000:]
            time.sleep(0.005)
        process.kill()
        process.wait()
        shards = paths.benchmark("countdown").shards.iterdir()
        now = len({(line[0], line[1]) for shard in shards for line in read_lines(shard)})
        assert kept < now < len(undisturbed)
        kept = now
    killed = finish(paths)
    assert read_json(paths.done)["draws_made"] == {"countdown": len(undisturbed) - kept}
    assert killed.select("problem_id", "draw").is_unique().all()
    assert killed.equals(undisturbed)


def engine_is_there(process):
    """Whether vLLM's engine, a process of its own as on GPUs, has begun to start."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # others come and go
            name, _, fields = stat.read_text().partition("(")[2].rpartition(")")
            if name.startswith("VLLM::EngineCor") and int(fields.split()[3]) == process.pid:
                return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["start", "sampling"])
def test_a_signal_to_all_processes_stops_one_engine_and_the_same_command_goes_on(
    moment, source, tmp_path
):
    """As SLURM sends it: to the engine's own processes too."""
    paths = stage(tmp_path / "stopped", source)
    process = start(paths, VLLM_ENABLE_V1_MULTIPROCESSING="1")
    while not (engine_is_there(process) if moment == "start" else stored(paths) > 10_000):
        assert process.poll() is None, (paths.folder / "log").read_text()[-3000:]
        time.sleep(0.01)
    assert moment == "sampling" or not stored(paths)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(300) == 75, (paths.folder / "log").read_text()[-3000:]
    assert "stopped: " in (paths.folder / "log").read_text()
    shards = list(paths.benchmark("countdown").shards.glob("*.jsonl"))
    kept = sum(len(list(read_lines(path))) for path in shards)
    assert (kept == 0) == (moment == "start") and kept < TOTAL
    made = finish(paths)
    assert len(made) == TOTAL and read_json(paths.done)["draws_made"] == {"countdown": TOTAL - kept}
