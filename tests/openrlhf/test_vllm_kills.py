"""An evaluation by the real vLLM that is stopped and killed again and again."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.whole import read_json
from fgrpo_bench.specs import DesignSpec, to_dict
from fgrpo_bench.stages.tables import DRAWS, read_table
from tests.openrlhf.vllm_draws import PLACEMENT, environment, source_of, stage_of

pytestmark = pytest.mark.openrlhf

N_PROBLEMS, N_SAMPLES = 25, 256
TOTAL = N_PROBLEMS * N_SAMPLES
DESIGN = DesignSpec(stages=(64, 128, N_SAMPLES), enough=8)


@pytest.fixture(scope="module")
def source(model, tmp_path_factory):
    return source_of(model, tmp_path_factory.mktemp("source"))


def stage(folder, source, design=None):
    return stage_of(folder, source, n_problems=N_PROBLEMS, n_samples=N_SAMPLES, design=design)


def start(paths, **variables):
    placement = json.dumps(to_dict(PLACEMENT))
    command = [sys.executable, "-m", "evaluators", "run", str(paths.folder)]
    with (paths.folder / "log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--placement", placement],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment(**variables),
            start_new_session=True,
        )


def finish(paths, **variables):
    log = paths.folder / "log"
    assert start(paths, **variables).wait(300) == 0, log.read_text()[-3000:]
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
    under = {"FGRPO_RUN_ROOT": str(tmp_path)}
    rng, kept = random.Random(11), 0
    for _ in range(3):
        before, more = stored(paths), rng.randrange(10_000, 60_000)
        process = start(paths, **under)
        while stored(paths) < before + more:
            assert process.poll() is None, (paths.folder / "log").read_text()[-3000:]
            time.sleep(0.005)
        process.kill()
        process.wait()
        shards = paths.benchmark("countdown").shards.iterdir()
        now = len({(line[0], line[1]) for shard in shards for line in read_lines(shard)})
        assert kept < now < len(undisturbed)
        kept = now
    killed = finish(paths, **under)
    assert read_json(paths.done)["draws_made"] == {"countdown": len(undisturbed) - kept}
    assert killed.select("problem_id", "draw").is_unique().all()
    assert killed.equals(undisturbed)
    again = stage(tmp_path / "again", source, DESIGN)
    assert finish(again, **under).equals(undisturbed)
    marker = read_json(again.done)
    assert marker["draws_made"] == {"countdown": 0}
    assert marker["taken_from"] == {"countdown": "killed"}


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
