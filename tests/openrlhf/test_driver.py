"""The driver end to end: real Ray, DeepSpeed and vLLM on the CPU, about a minute each."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from openrlhf.trainer.ray import utils
from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap
from safetensors.torch import load_file

from fgrpo_bench.engines.openrlhf import cluster
from fgrpo_bench.engines.openrlhf.cluster import Meeting, SlurmStep
from fgrpo_bench.engines.openrlhf.rollout import QuietWorker
from fgrpo_bench.stages.digests import sha256_file
from tests.gpu.shapes import SAVED
from tests.support.openrlhf import Run, heldout_problems, train_problems, write_prompts

pytestmark = pytest.mark.openrlhf

CLOCKS = {"time_ms", "seconds", "seconds_generation", "seconds_experience", "seconds_training",
          "seconds_sync", "seconds_evaluation"}  # fmt: skip


def learned(rows):
    """Rows without clocks and evaluations."""
    other = CLOCKS | {"eval_pass_at_1", "eval_pass_at_n"}
    return [{name: row[name] for name in row.keys() - other} for row in rows]


def weights(run, step):
    return sha256_file(run.folder / "checkpoints" / f"step-{step:05d}" / "model.safetensors")


def long_folder(parent):
    """A folder for temporary files whose path has 80 characters or more."""
    folder = parent / ("x" * max(1, 79 - len(str(parent))))
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def undisturbed(model, tmp_path_factory):
    """Focal GRPO for five steps, though its prompts would do for seven; finished. The environment
    names a Ray that is not there, and a folder too long for the paths of sockets."""
    folder = tmp_path_factory.mktemp("undisturbed")
    prompts = write_prompts(folder / "prompts.jsonl", train_problems(62))
    environment = {"RAY_ADDRESS": "127.0.0.1:1", "TMPDIR": str(long_folder(folder))}
    run = Run(folder=folder / "run", model=model, prompts=prompts, steps=5, environment=environment)
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


def evaluated(folder, *, every, n_samples):
    """Options of a run that evaluates on twelve held-out problems while it trains."""
    return {
        "--eval.dataset": str(write_prompts(folder / "evaluation.jsonl", heldout_problems(12))),
        "--eval.steps": str(every),
        "--eval.temperature": "1.0",
        "--eval.n_samples_per_prompt": str(n_samples),
    }


def test_a_run_that_evaluates_is_stopped_and_goes_on_ends_with_the_same_weights(
    undisturbed, tmp_path
):
    options = evaluated(tmp_path, every=2, n_samples=4)
    run = replace(undisturbed, folder=tmp_path / "run", options=options)
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
    evaluations = [row["eval_pass_at_1"] for row in run.rows()]
    assert [value is None for value in evaluations] == [True, False, True, False, True]
    assert learned(run.rows()) == learned(undisturbed.rows())
    assert weights(run, 5) == weights(undisturbed, 5)


def cispo(folder, model, options):
    """Two steps of CISPO with a KL penalty, an update each."""
    return Run(
        folder=folder / "run",
        model=model,
        prompts=write_prompts(folder / "prompts.jsonl", train_problems(16)),
        objective="cispo",
        steps=2,
        options={
            "--actor.eps_clip_low_high": "1.0 5.0",
            "--train.batch_size": "64",
            "--algo.kl.init_coef": "0.01",
            "--algo.kl.use_loss": "",
            "--algo.kl.estimator": "k3",
        }
        | options,
    )


@pytest.fixture(scope="module")
def killed(model, tmp_path_factory):
    """Such a run that was killed in the evaluation after its second step and gone on with."""
    folder = tmp_path_factory.mktemp("killed")
    options = evaluated(folder, every=2, n_samples=128) | {"--ckpt.save_steps": "1"}
    run = cispo(folder, model, options)
    process = run.start()
    while "evaluating step 2: 12 prompts x 128" not in run.log.read_text(errors="replace"):
        assert process.poll() is None, run.last_lines(40)
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert [row["step"] for row in run.rows()] == [1]
    assert run.run() == 0, run.last_lines(40)
    return run


def test_cispo_that_is_killed_in_an_evaluation_goes_on_from_the_last_state(killed):
    log = killed.log.read_text(errors="replace")
    assert "step 1 is done" in log and SAVED.search(log)
    first, second = killed.rows()
    assert first["eval_pass_at_1"] is None
    assert 0 < second["eval_pass_at_1"] <= second["eval_pass_at_n"] <= 1
    assert second["seconds_evaluation"] > 0
    assert first["rollouts"] == 64 and second["rollouts"] == 128  # evaluation counts apart


def test_metrics_are_the_same_whatever_the_micro_batches(killed, model, tmp_path):
    """OpenRLHF's own means of dynamic batches are too small by their number."""
    options = {"--train.dynamic_batch_enable": "", "--train.max_tokens_per_gpu": "200"}
    run = cispo(tmp_path, model, options)
    assert run.run() == 0, run.last_lines(40)
    for row, plain in zip(run.rows(), killed.rows(), strict=True):
        # the second step's rollouts may differ, as its weights do in their last bits
        within = {"abs": 1e-6, "rel": 0.01 if row["step"] == 1 else 0.2}
        assert row["success_rate"] == pytest.approx(plain["success_rate"], **within)
        assert row["loss"] == pytest.approx(plain["loss"], **within)
        assert row["entropy"] == pytest.approx(plain["entropy"], **within)
        assert row["reference_kl"] == pytest.approx(plain["reference_kl"], **within)
    assert row["reference_kl"] > 0


LORA = {"--ds.lora.rank": "4", "--ds.lora.alpha": "8", "--actor.adam.lr": "3e-2"}


@pytest.mark.parametrize(
    "further", [{}, pytest.param(LORA, marks=pytest.mark.slow)], ids=["all weights", "lora"]
)
def test_dapo_with_dynamic_filtering_on_two_ranks_of_zero_3(further, model, tmp_path):
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
        "--algo.advantage.is_correction_level": "token",
        "--algo.advantage.is_correction_mode": "clip",
        "--algo.advantage.is_correction_threshold": "0 2",
    } | further
    run = Run(folder=tmp_path / "run", model=model, prompts=prompts, steps=2, options=options)
    assert run.run() == 0, run.last_lines(40)
    rows = run.rows()
    assert [row["rollouts"] for row in rows] == [64, 64 + 8 * rows[1]["groups"]]
    assert rows[1]["groups"] > 8  # what was filtered counts as sampled
    for row in rows:
        assert row["active_fraction"] == pytest.approx(8 / row["groups"])
        assert abs(row["rollout_kl"]) < 0.02
        assert row["gpus"] == 0
    assert weights(run, 1) != weights(run, 2)
    exported = load_file(run.folder / "checkpoints/step-00002/model.safetensors")
    assert exported.keys() == load_file(model / "model.safetensors").keys()
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
        [sys.executable, "-m", "tests.openrlhf.log_probs", kind, str(checkpoint), str(out)],
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


@pytest.fixture(scope="module")
def foreign():
    """Somebody else's Ray on this machine, as `ray start --head` starts it: (its address, their
    folder for temporary files, which names it)."""
    folder = Path(tempfile.mkdtemp(prefix="foreign-", dir="/tmp"))
    step = SlurmStep(rank=0, nodes=("n1",), node="n1", job=os.getpid(), restarts=0)
    address = cluster.free_address(cluster.own_host(), step.job)
    meeting = Meeting.of(folder, step)
    head = cluster.start(step, meeting, address, gpus=1, temporary=folder / "ray")
    named, nodes = folder / "ray" / "ray_current_cluster", cluster.RayNodes(address)
    try:
        while not (named.exists() and nodes.states().get("n1")):
            assert head.poll() is None, cluster.ended(step, meeting, head)
            time.sleep(0.1)
        assert named.read_text() == address
        yield address, folder
    finally:
        cluster.end(head)
        shutil.rmtree(folder, ignore_errors=True)


RAYS_PLACE = """
import json, os, sys
from pathlib import Path
from fgrpo_bench.engines.openrlhf import driver

driver.prepare_environment()
import ray

with driver.connected(sys.argv[2] if len(sys.argv) > 2 else None):
    node = ray._private.worker._global_node
    folder = Path(node.get_temp_dir_path())
    told = {
        "address": node.gcs_address,
        "gpus": ray.cluster_resources()["GPU"],
        "folder": str(folder),
        "sockets": [str(path) for path in folder.rglob("*") if path.is_socket()],
        "worker": ray.get(ray.remote(lambda: dict(os.environ)).remote()),
    }
told["is_removed"] = not folder.exists()
Path(sys.argv[1]).write_text(json.dumps(told))
"""


def rays_place(tmp_path, environment, *address):
    """What RAYS_PLACE tells of a driver's Ray, in a process of its own."""
    out = tmp_path / "told.json"
    inherited = {name: text for name, text in os.environ.items() if name != "VLLM_RPC_BASE_PATH"}
    own = {"PYTHONPATH": ".", "FGRPO_OPENRLHF_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", RAYS_PLACE, str(out), *address],
        env=inherited | own | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


def test_a_run_takes_part_in_the_ray_that_it_is_told_of(foreign, tmp_path):
    address, _ = foreign
    told = rays_place(tmp_path, {"RAY_ADDRESS": "127.0.0.1:1"}, address)
    assert (told["address"], told["gpus"]) == (address, 1)
    assert not told["is_removed"] and cluster.answers(address)


@pytest.mark.parametrize("named_by", ["its folder", "RAY_ADDRESS, with a long folder"])
def test_a_run_has_a_ray_of_its_own_where_there_is_another(named_by, foreign, tmp_path):
    address, folder = foreign
    environment = {"TMPDIR": str(folder), "OMP_NUM_THREADS": "3"}
    if named_by != "its folder":
        environment |= {"RAY_ADDRESS": address, "TMPDIR": str(long_folder(tmp_path))}
    told = rays_place(tmp_path, environment)
    assert told["address"] != address and told["gpus"] > 1
    assert told["worker"].get("RAY_ADDRESS") != address
    assert told["worker"]["OMP_NUM_THREADS"] == "3"
    of_vllm = told["worker"].get("VLLM_RPC_BASE_PATH", environment["TMPDIR"])
    assert len(of_vllm) + len("/") + 36 <= 107  # a UUID
    assert told["is_removed"] and cluster.answers(address)
    assert told["sockets"]
    parent = str(Path(told["folder"]).parent)
    for path in told["sockets"]:
        assert len(os.fsencode(path)) <= 107
        assert len(path) <= len(parent + cluster.LONGEST_SOCKET)  # so the bound is one


def test_vllms_workers_print_no_line_for_a_weight_that_they_get(capfd, monkeypatch):
    monkeypatch.setattr(utils, "get_physical_gpu_id", lambda: "this")
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)
    loaded, worker = [], QuietWorker()
    worker.model_config, worker.device = SimpleNamespace(dtype="bf16"), SimpleNamespace(index=3)
    worker.model_runner = SimpleNamespace(
        model=SimpleNamespace(load_weights=lambda weights: loaded.append(weights))
    )
    handle = (lambda *arguments: arguments[6], [0] * 7)
    given = ("weight", "bf16", (2,), {"this": handle})
    WorkerWrap.update_weight_cuda_ipc(worker, *given)
    assert "update weight: weight" in capfd.readouterr().out
    worker.update_weight_cuda_ipc(*given)
    monkeypatch.setattr(
        WorkerWrap, "update_weight", lambda _, name: print("update weight", loaded.append(name))
    )
    worker.update_weight("broadcast")
    assert capfd.readouterr().out == ""
    assert loaded == [[("weight", 3)], [("weight", 3)], "broadcast"]
