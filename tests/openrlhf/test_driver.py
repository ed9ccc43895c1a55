"""The driver end to end: real Ray, DeepSpeed and vLLM on the CPU, about a minute each."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from fgrpo_bench.files import sha256_file
from tests.support.openrlhf import Run, heldout_problems, train_problems, write_prompts

pytestmark = pytest.mark.openrlhf

CLOCKS = {"time_ms", "seconds", "seconds_generation", "seconds_experience", "seconds_training",
          "seconds_sync", "seconds_evaluation"}  # fmt: skip


def without_clocks(rows):
    return [{name: row[name] for name in row.keys() - CLOCKS} for row in rows]


def weights(run, step):
    return sha256_file(run.folder / "checkpoints" / f"step-{step:05d}" / "model.safetensors")


@pytest.fixture(scope="module")
def undisturbed(model, tmp_path_factory):
    """Focal GRPO for five steps, though its prompts would do for seven; finished."""
    folder = tmp_path_factory.mktemp("undisturbed")
    prompts = write_prompts(folder / "prompts.jsonl", train_problems(62))
    run = Run(folder=folder / "run", model=model, prompts=prompts, steps=5)
    assert run.run() == 0, run.last_lines(40)
    return run


def test_focal_grpo_trains_logs_and_exports(undisturbed):
    rows = undisturbed.rows()
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["rollouts"] for row in rows] == [64, 128, 192, 256, 320]
    assert [row["optimizer_steps"] for row in rows] == [2, 4, 6, 8, 10]
    assert all(0 < row["focal_weight"] < 1 and 0 < row["active_fraction"] < 1 for row in rows)
    assert all(abs(row["rollout_kl"]) < 0.02 for row in rows)  # vLLM has the weights of this step
    assert all(row["grad_norm"] > 0 and row["entropy"] > 0 for row in rows)
    log = undisturbed.log.read_text(errors="replace")
    assert "FGRPO_OPENRLHF_DEVICE=cpu: stand-ins for CUDA are on" in log
    assert "vLLM draws up to 48 sequences at once in passes of up to 1024 tokens" in log
    folder = undisturbed.folder / "checkpoints" / "step-00005"
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        p.name for p in folder.iterdir()
    }
    assert [p.name for p in folder.parent.iterdir()] == ["step-00005"]


def test_a_run_that_is_stopped_and_goes_on_ends_with_the_same_weights(undisturbed, tmp_path):
    run = replace(undisturbed, folder=tmp_path / "run")
    process = run.start()
    run.wait_for_rows(1, process)
    process.send_signal(signal.SIGTERM)
    assert run.finish(process) == 75, run.last_lines(40)
    assert "signal SIGTERM: stopping after the running step" in run.log.read_text(errors="replace")
    stopped_after = len(run.rows())
    assert 1 <= stopped_after < 5
    assert not (run.folder / "checkpoints").exists()
    assert run.run() == 0, run.last_lines(40)
    assert f"step {stopped_after} is done" in run.log.read_text(errors="replace")
    assert without_clocks(run.rows()) == without_clocks(undisturbed.rows())
    assert weights(run, 5) == weights(undisturbed, 5)


def test_cispo_with_evaluation(model, tmp_path):
    prompts = write_prompts(tmp_path / "prompts.jsonl", train_problems(16))
    heldout = write_prompts(tmp_path / "heldout.jsonl", heldout_problems(12))
    options = {
        "--actor.eps_clip_low_high": "1.0 5.0",
        "--eval.dataset": str(heldout),
        "--eval.steps": "2",
        "--eval.temperature": "1.0",
        "--eval.n_samples_per_prompt": "4",
    }
    run = Run(
        folder=tmp_path / "run",
        model=model,
        prompts=prompts,
        objective="cispo",
        steps=2,
        options=options,
    )
    assert run.run() == 0, run.last_lines(40)
    first, second = run.rows()
    assert first["eval_pass_at_1"] is None
    assert 0 < second["eval_pass_at_1"] <= second["eval_pass_at_n"] <= 1
    assert second["seconds_evaluation"] > 0
    assert first["rollouts"] == 64 and second["rollouts"] == 128  # evaluation counts apart


def test_dapo_with_dynamic_filtering_on_two_ranks_of_zero_3(model, tmp_path):
    prompts = write_prompts(tmp_path / "prompts.jsonl", train_problems(64))
    options = {
        "--algo.dynamic_filtering_enable": "",
        "--actor.eps_clip_low_high": "0.2 0.28",
        "--actor.num_gpus_per_node": "2",
        "--ds.zero_stage": "3",
        "--train.micro_batch_size": "8",
        "--rollout.micro_batch_size": "8",
        "--fgrpo.save_every": "1",
        "--ckpt.save_steps": "1",
    }
    run = Run(folder=tmp_path / "run", model=model, prompts=prompts, steps=2, options=options)
    assert run.run() == 0, run.last_lines(40)
    rows = run.rows()
    assert len(rows) == 2
    for row in rows:
        assert row["groups"] > 8 and row["active_fraction"] == pytest.approx(8 / row["groups"])
        assert row["rollouts"] > 64 * row["step"]  # what was filtered counts as sampled
        assert abs(row["rollout_kl"]) < 0.02
        assert row["gpus"] == 0
    assert weights(run, 1) != weights(run, 2)
    states = sorted(p.name for p in (run.folder / "state" / "_actor").iterdir() if p.is_dir())
    assert states == ["global_step1", "global_step2"]


def test_a_reward_that_raises_fails_the_run_with_its_reason_last(model, tmp_path):
    broken = [replace(p, target=p.target.replace("-", "-x")) for p in train_problems(8)]
    run = Run(
        folder=tmp_path / "run",
        model=model,
        prompts=write_prompts(tmp_path / "prompts.jsonl", broken),
    )
    assert run.run() == 1
    last = run.last_lines(1)
    assert last.startswith("training failed: RuntimeError: grader 'countdown' on problem")
    assert "raised ValueError" in last


@pytest.mark.slow
def test_too_few_prompts_for_the_steps_fail_the_run(model, tmp_path):
    prompts = write_prompts(tmp_path / "prompts.jsonl", train_problems(13))
    run = Run(folder=tmp_path / "run", model=model, prompts=prompts, steps=2)
    assert run.run() == 1
    assert "used up after step 1 of 2: 13 prompts, passed over 1 times" in run.last_lines(1)


def log_probs(kind, checkpoint, tmp_path):
    """Log-probability of every token of a few prompts after the first, in bf16."""
    out = tmp_path / f"{kind}.json"
    subprocess.run(
        [sys.executable, "-m", "tests.support.log_probs", kind, str(checkpoint), str(out)],
        check=True,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": "."},
    )
    return json.loads(out.read_text())


@pytest.mark.parametrize("made_by", [pytest.param("embedded", marks=pytest.mark.slow), "openrlhf"])
def test_vllm_and_transformers_read_a_checkpoint_alike(made_by, model, undisturbed, tmp_path):
    trained = undisturbed.folder / "checkpoints" / "step-00005"
    checkpoint = model if made_by == "embedded" else trained
    vllm, transformers = (
        log_probs(kind, checkpoint, tmp_path) for kind in ("vllm", "transformers")
    )
    assert len(vllm) == len(transformers) == 6 * 5
    assert vllm == pytest.approx(transformers, abs=0.05)
    assert max(vllm) - min(vllm) > 1
