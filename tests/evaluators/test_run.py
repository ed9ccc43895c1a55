"""The evaluation command on a real checkpoint: killed, extended, damaged."""

import time
from copy import deepcopy

import polars as pl
import pytest

from evaluators.__main__ import main
from evaluators.records import SamplingEngine
from fgrpo_bench.engines.embedded.warmup import warm_up
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.spec import read_spec
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.markers import Marker, write_marker
from fgrpo_bench.stages.stage import StageRun
from fgrpo_bench.stages.tables import DRAWS, PASSK, read_table
from tests.evaluators.fake_engine import Answering
from tests.support.stages import freeze, start

BIG = [
    "experiment.evaluation.n_samples=4096",
    "experiment.evaluation.benchmarks.countdown.n_problems=12",
]


STAGED = [*BIG, "+experiment.evaluation.design={stages:[512,1024,2048,4096],enough:400}"]


def warmed_up(root, *overrides):
    """The evaluation of a warmed-up base model, ready to run."""
    plan, paths = freeze(root, *overrides)
    warmup = paths.warmup(11)
    facts = warm_up(read_spec(warmup), StageRun(warmup), "cpu")
    write_marker(
        warmup, Marker.parsed({"fingerprint": "f", "target": {}, "outputs": {}} | facts.as_json())
    )
    name = next(s.name for s in plan.stages if s.kind == "evaluate" and s.step == 0)
    return StagePaths(paths.folder / name)


@pytest.fixture
def stage(tmp_path):
    return warmed_up(tmp_path, *BIG)


def shard_sizes(paths):
    return {shard: shard.stat().st_size for shard in paths.shards.glob("*")}


def saved(paths):
    """(problem_id, draw) of everything that is stored, in whatever file."""
    draws = []
    if paths.draws.exists():
        draws += read_table(paths.draws, DRAWS).select("problem_id", "draw").rows()
    if paths.shards.exists():
        lines = (line for shard in sorted(paths.shards.iterdir()) for line in read_lines(shard))
        draws += [(line[0], line[1]) for line in lines]
    return draws


@pytest.mark.slow
@pytest.mark.rare  # tests/test_loop.py kills the same commands
def test_kills_in_the_middle_of_stages_end_with_the_same_bytes_and_repeat_no_saved_draw(tmp_path):
    stage = warmed_up(tmp_path, *STAGED)
    other = StagePaths(stage.folder.with_name("undisturbed"))
    write_json(other.spec, read_json(stage.spec))
    assert main(["run", str(other.folder)]) == 0
    whole = read_table(other.benchmark("countdown").draws, DRAWS)
    lengths = set(whole.group_by("problem_id").len()["len"])
    assert len(lengths) > 1 and lengths <= {512, 1024, 2048, 4096}

    paths, kept = stage.benchmark("countdown"), []
    for _ in range(3):
        process, before = start("evaluate", stage.folder), shard_sizes(paths)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
            if shard_sizes(paths) != before:
                before = shard_sizes(paths)
                if len(saved(paths)) > len(kept):
                    break
        process.kill()
        process.communicate()
        now = saved(paths)
        assert len(kept) < len(now) == len(set(now)) < len(whole) and set(kept) < set(now)
        assert not stage.done.exists()
        kept = now
    assert main(["run", str(stage.folder)]) == 0
    assert read_json(stage.done)["draws_made"]["countdown"] == len(whole) - len(kept)
    ours, theirs = (s.benchmark("countdown") for s in (stage, other))
    assert ours.draws.read_bytes() == theirs.draws.read_bytes()
    assert ours.passk().read_bytes() == theirs.passk().read_bytes()
    scored = read_table(ours.passk(), PASSK)
    assert 0 < scored.filter(pl.col("k") == 1)["pass_at_k"].mean() < 1
    bags = ["".join(sorted(name.partition("-")[0])) for name in scored["problem_id"]]
    assert scored["cluster"].to_list() == bags
    done = read_json(stage.done)
    assert main(["run", str(stage.folder)]) == 0  # nothing is drawn again
    assert read_json(stage.done) == done


@pytest.mark.slow
def test_a_disk_that_takes_no_more_fails_the_stage_by_name_and_keeps_what_was_drawn(stage):
    paths = stage.benchmark("countdown")
    process = start("evaluate", stage.folder, file_limit=120_000)
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "cannot append" in out and "nothing was lost, free some space" in out, out
    lines = [line for shard in paths.shards.iterdir() for line in read_lines(shard)]
    kept = len({(line[0], line[1]) for line in lines})
    assert kept > 0 and not stage.done.exists()
    assert main(["run", str(stage.folder)]) == 0
    made = read_json(stage.done)["draws_made"]["countdown"]
    assert made == 12 * 4096 - kept and len(read_table(paths.draws, DRAWS)) == 12 * 4096


@pytest.mark.slow
def test_every_engine_that_made_some_of_the_draws_is_recorded_with_them(tmp_path, monkeypatch):
    stage = warmed_up(tmp_path)
    paths = stage.benchmark("countdown")
    engines = [{"engine": "vllm", "vllm": f"0.{minor}.0"} for minor in (29, 30, 31)]

    def run(facts, fails_after=None):
        backend = Answering(lambda _: "6*4", most=8, fails_after=fails_after)
        monkeypatch.setattr(
            "evaluators.evaluate.make_engine", lambda _: SamplingEngine(backend, facts)
        )
        return main(["run", str(stage.folder)])

    assert run(engines[0], fails_after=0) == 1
    assert read_json(paths.manifest)["engines"] == engines[:1]  # before its first draw
    assert run(engines[0], fails_after=10) == 1 and run(engines[1]) == 0
    assert read_json(paths.manifest)["engines"] == engines[:2]
    assert read_json(stage.done)["engines"] == {"countdown": engines[:2]}
    assert run(engines[2]) == 0  # which draws nothing
    assert read_json(paths.manifest)["engines"] == engines[:2]
    paths.draws.unlink()
    assert run(engines[2]) == 0
    assert read_json(stage.done)["engines"] == {"countdown": engines[2:]}


def other_weights(stage, spec):
    weights = stage.folder / spec["source"] / "checkpoints" / "step-00000" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    return spec


def too_many_problems(stage, spec):
    spec["evaluation"]["benchmarks"]["countdown"]["n_problems"] = 9999
    return spec


REFUSED = [
    (other_weights, "was changed or damaged; delete the stage's DONE.json"),
    (too_many_problems, "asks for n_problems=9999, but the held-out split"),
    (lambda _, spec: spec | {"kind": "train"}, "is of kind 'train': this command runs evaluate"),
]


@pytest.mark.slow
def test_a_stage_that_is_not_what_it_must_be_is_refused_by_name(stage, capsys):
    whole = read_json(stage.spec)
    for damage, said in reversed(REFUSED):
        write_json(stage.spec, damage(stage, deepcopy(whole)))
        assert main(["run", str(stage.folder)]) == 1
        assert said in capsys.readouterr().err.replace("\n", " ")
        assert not stage.done.exists()
    stage.spec.unlink()
    with pytest.raises(SystemExit, match="2"):
        main(["run", str(stage.folder)])
    assert "spec.json does not exist" in capsys.readouterr().err


def test_the_plan_of_a_sweeps_evaluation_names_its_checkpoint_and_draws_nothing(tmp_path, capsys):
    plan, paths = freeze(tmp_path, *BIG)
    name = next(s.name for s in plan.stages if s.kind == "evaluate" and s.step == 0)
    before = sorted(tmp_path.rglob("*"))
    assert main(["run", str(paths.folder / name), "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"checkpoint {paths.warmup(11).checkpoint(0)}, sampler embedded",
        "countdown: 12 problems x 4096 draws; 0 are there, 49,152 to make",
    ]
    assert sorted(tmp_path.rglob("*")) == before
