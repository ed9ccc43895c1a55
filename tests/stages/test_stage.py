"""The shape of a stage: done once, stopped at a save, failed aloud."""

import os
import signal
import threading
from dataclasses import replace

import pytest

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_json, write_json
from fgrpo_bench.stages.digests import sha256_file, with_checksum
from fgrpo_bench.stages.locks import locked
from fgrpo_bench.stages.markers import Marker, damage, is_done, rewritten, undivided
from fgrpo_bench.stages.stage import (
    EXIT_CONTINUE,
    EXIT_DONE,
    EXIT_FAILED,
    StageRun,
    Stopped,
    run_stage,
)


@pytest.fixture
def stage(tmp_path):
    paths = StagePaths(tmp_path / "stage")
    write_json(paths.spec, {"kind": "train", "fingerprint": "f", "target": {"n_samples": 8}})
    handlers = {s: signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGINT)}
    yield paths
    for signum, handler in handlers.items():
        signal.signal(signum, handler)


def test_a_stage_works_once_and_leaves_its_marker(stage, capsys):
    calls = []

    def work(spec, run):
        calls.append(spec.fingerprint)
        return Record(further={"fact": 1, "weights_sha256": "w"})

    assert [run_stage(stage, work), run_stage(stage, work)] == [EXIT_DONE, EXIT_DONE]
    assert calls == ["f"]
    assert list(read_json(stage.done)) == [
        *("fingerprint", "target", "owner", "finished", "finished_ms", "wall_seconds"),
        *("cpu_seconds", "outputs", "fact", "weights_sha256", "content_sha256"),
    ]
    assert "already done" in capsys.readouterr().out


def test_a_spec_that_was_changed_is_not_worked_by(stage, capfd):
    spec = with_checksum(read_json(stage.spec) | {"point": {"group_size": 8}})
    write_json(stage.spec, spec | {"point": {"group_size": 4}})
    assert run_stage(stage, lambda spec, run: pytest.fail("it worked")) == EXIT_FAILED
    assert "spec.json was changed after it was written" in capfd.readouterr().err
    write_json(stage.spec, spec)
    assert run_stage(stage, lambda spec, run: Record()) == EXIT_DONE


@pytest.mark.parametrize(
    ("asked", "done"),
    [
        ({"n_samples": 4, "ks": [4]}, True),
        ({"n_samples": 16}, False),
        ({"ks": [4, 8]}, False),
        ({"other": [1]}, False),
        ({"grader": "a-2"}, False),
    ],
)
def test_a_target_is_covered_by_a_larger_one_and_a_list_by_one_that_contains_it(stage, asked, done):
    target = {"n_samples": 8, "ks": [1, 4], "grader": "a-1"}
    write_json(stage.spec, {"kind": "train", "fingerprint": "f", "target": target})
    run_stage(stage, lambda spec, run: Record())
    assert is_done(stage, fingerprint="f", target=asked) == done
    assert not is_done(stage, fingerprint="g", target={})


def test_a_signal_stops_the_work_at_its_save_and_leaves_no_marker(stage, capsys):
    def work(spec, run):
        os.kill(os.getpid(), signal.SIGTERM)
        if run.stopping:
            raise Stopped("step 3 is saved")
        return Record()

    assert run_stage(stage, work) == EXIT_CONTINUE
    assert not stage.done.exists()
    assert "step 3 is saved; run the same command again" in capsys.readouterr().out


def test_a_stop_reaches_a_process_that_waits_for_another_which_never_lets_go(stage, capsys):
    def say_stop():
        os.kill(os.getpid(), signal.SIGTERM)

    with locked(stage.lock, wait=False, what="the stage of a process that hangs"):
        timer = threading.Timer(0.5, say_stop)
        timer.start()
        assert run_stage(stage, lambda spec, run: Record()) == EXIT_CONTINUE
        timer.join()
    assert "another process has the stage, and nothing was begun here" in capsys.readouterr().out
    assert not stage.done.exists() and not stage.owner.exists()


def test_a_marker_is_the_owners_or_older_than_the_owner_and_else_not_believed(stage):
    run_stage(stage, lambda spec, run: Record())
    first = read_json(stage.done)
    assert read_json(stage.owner)["over"] is None
    write_json(stage.owner, {"token": "newer", "over": None})  # began before the marker was written
    assert not is_done(stage, fingerprint="f", target={})
    run_stage(stage, lambda spec, run: Record())
    assert is_done(stage, fingerprint="f", target={})
    StageRun(stage).acquire()  # a process that wants more than the marker covers
    assert is_done(stage, fingerprint="f", target={})
    write_json(stage.done, first)  # a process that was given up long ago wakes up
    assert not is_done(stage, fingerprint="f", target={})


def test_an_error_fails_the_stage_with_its_traceback(stage, capsys):
    def work(spec, run):
        raise RuntimeError("the policy broke")

    assert run_stage(stage, work) == EXIT_FAILED
    assert not stage.done.exists()
    assert "RuntimeError: the policy broke" in capsys.readouterr().err


def test_progress_says_how_far_and_how_long(stage, capsys):
    def work(spec, run):
        for step in (1, 2, 3):
            run.progress(step=step, of=3, reward=0.25)
        return Record()

    run_stage(stage, work)
    told = read_json(stage.progress)
    assert (told["step"], told["of"], told["reward"], told["pid"]) == (3, 3, 0.25, os.getpid())
    assert "step 3/3  reward 0.250" in capsys.readouterr().out


def test_the_log_has_numbers_of_any_size(stage, capsys):
    StageRun(stage).progress(step=1, of=1, rollout_kl=0.00013, tokens_per_second=9562.4, clipped=0)
    said = "step 1/1  rollout_kl 1.3e-04  tokens_per_second 9562  clipped 0.000\n"
    assert capsys.readouterr().out == said


def test_the_time_left_counts_from_where_steps_are_made_again(stage, monkeypatch):
    monkeypatch.setattr("fgrpo_bench.stages.stage.PROGRESS_SECONDS", 0.0)
    run = StageRun(stage)
    for step in (50, 40, 41):
        run.progress(step=step, of=100)
    assert read_json(stage.progress)["eta_seconds"] >= 0


def write_two(spec, run):
    """Work that promises a file and a folder."""
    run.paths.metrics.write_text("metrics")
    run.paths.checkpoint(0).mkdir(parents=True, exist_ok=True)
    (run.paths.checkpoint(0) / "model.safetensors").write_bytes(b"weights")
    run.register_outputs(run.paths.metrics, run.paths.checkpoints)
    return Record()


def test_the_marker_lists_every_promised_file_with_bytes_and_digest(stage):
    run_stage(stage, write_two)
    assert read_json(stage.done)["outputs"] == {
        "metrics.parquet": {"bytes": 7, "sha256": sha256_file(stage.metrics)},
        "checkpoints/step-00000/model.safetensors": {
            "bytes": 7,
            "sha256": sha256_file(stage.checkpoint(0) / "model.safetensors"),
        },
    }


def test_a_stage_whose_promised_file_is_gone_is_not_done_and_is_made_again(stage):
    run_stage(stage, write_two)
    stage.metrics.unlink()
    assert not is_done(stage, fingerprint="f", target={})
    assert damage(stage, fingerprint="f") == {"metrics.parquet": "is missing"}
    assert run_stage(stage, write_two) == EXIT_DONE
    assert is_done(stage, fingerprint="f", target={}) and stage.metrics.exists()


def test_a_file_that_was_cut_short_is_moved_aside_and_made_again(stage, capsys):
    run_stage(stage, write_two)
    stage.metrics.write_text("met")
    assert not is_done(stage, fingerprint="f", target={})
    assert run_stage(stage, write_two) == EXIT_DONE
    assert stage.metrics.read_text() == "metrics"
    assert (stage.damaged / "metrics.parquet").read_text() == "met"
    assert "has 3 bytes instead of 7" in capsys.readouterr().out


def test_what_a_killed_process_wrote_after_the_marker_is_not_taken_for_damage(stage):
    run_stage(stage, write_two)
    StageRun(stage).acquire()  # begins again, for more draws, writes and is killed
    stage.metrics.write_text("more metrics")
    assert damage(stage, fingerprint="f") == {}
    assert not is_done(stage, fingerprint="f", target={})

    def work(spec, run):
        assert stage.metrics.read_text() == "more metrics"
        return write_two(spec, run)

    assert run_stage(stage, work) == EXIT_DONE


@pytest.mark.parametrize("content", ["", "[]", "null", '{"fingerprint": 1}', "\udcff"])
def test_a_damaged_marker_is_moved_aside_when_the_stage_is_run_again(stage, content):
    run_stage(stage, write_two)
    stage.done.write_bytes(content.encode(errors="surrogateescape"))
    assert not is_done(stage, fingerprint="f", target={})
    assert list(damage(stage, fingerprint="f")) == ["DONE.json"]
    assert run_stage(stage, write_two) == EXIT_DONE
    assert is_done(stage, fingerprint="f", target={})
    assert (stage.damaged / "DONE.json").exists()


def test_a_file_written_again_is_brought_up_to_date_in_the_marker(stage):
    run_stage(stage, write_two)
    stage.metrics.write_text("other metrics")
    rewritten(stage, [stage.metrics], target={"ks": [1]})
    assert is_done(stage, fingerprint="f", target={"ks": [1]})
    assert read_json(stage.done)["outputs"]["metrics.parquet"]["bytes"] == 13


def test_an_evaluation_that_took_draws_over_does_not_tell_what_one_takes():
    made = Marker(fingerprint="f", target={}, outputs={})
    assert undivided(made, 12.0) == undivided(replace(made, taken_from={}), 12.0) == 12.0
    assert undivided(replace(made, taken_from={"a": "evals/x"}), 2.0) is None
