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

from fgrpo_bench.core import registry
from fgrpo_bench.engines.openrlhf import cluster
from fgrpo_bench.engines.openrlhf.cluster import Meeting, SlurmStep
from fgrpo_bench.engines.openrlhf.epochs import PromptOrder
from fgrpo_bench.engines.openrlhf.rollout import QuietWorker
from fgrpo_bench.stages.digests import sha256_file
from tests.gpu.shapes import SAVED
from tests.openrlhf.vllm_draws import observed_of
from tests.support.openrlhf import Run, heldout_problems, train_problems, write_prompts

pytestmark = pytest.mark.openrlhf

CLOCKS = {"time_ms", "seconds", "seconds_generation", "seconds_experience", "seconds_training",
          "seconds_sync", "seconds_evaluation"}  # fmt: skip
N_PROMPTS = 62
CISPO = {
    "--actor.lr_scheduler": "constant_with_warmup",
    "--actor.lr_warmup_ratio": "0.5",  # so that the first of all updates changes nothing
    "--actor.eps_clip_low_high": "1.0 5.0",
    "--algo.kl.init_coef": "0.01",
    "--algo.kl.use_loss": "",
    "--algo.kl.estimator": "k3",
}


def learned(rows):
    """Rows without clocks and evaluations."""
    other = CLOCKS | {"eval_pass_at_1", "eval_pass_at_n"}
    return [{name: row[name] for name in row.keys() - other} for row in rows]


def weights(run, step):
    return sha256_file(run.folder / "checkpoints" / f"step-{step:05d}" / "model.safetensors")


def said(run):
    return run.log.read_text(errors="replace")


@pytest.fixture(scope="module")
def undisturbed(model, tmp_path_factory):
    """Five steps of CISPO with focal weights and a KL penalty, though its prompts would do for
    seven; finished. The environment names a Ray that is not there, and a folder too long for the
    paths of sockets."""
    folder = tmp_path_factory.mktemp("undisturbed")
    long_folder = folder / ("x" * max(1, 79 - len(str(folder))))
    long_folder.mkdir()
    run = Run(
        folder=folder / "run",
        model=model,
        prompts=write_prompts(folder / "prompts.jsonl", train_problems(N_PROMPTS)),
        objective="cispo",
        steps=5,
        options=CISPO,
        environment={"RAY_ADDRESS": "127.0.0.1:1", "TMPDIR": str(long_folder)},
    )
    assert run.run() == 0, run.last_lines(40)
    return run


def test_a_run_trains_logs_and_exports(undisturbed):
    rows = undisturbed.rows()
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5]
    assert [row["rollouts"] for row in rows] == [64, 128, 192, 256, 320]
    assert [row["optimizer_steps"] for row in rows] == [2, 4, 6, 8, 10]
    assert all(0 < row["focal_weight"] < 1 and 0 < row["active_fraction"] < 1 for row in rows)
    assert all(abs(row["rollout_kl"]) < 0.02 for row in rows)  # vLLM has the weights of this step
    assert all(row["grad_norm"] > 0 and row["entropy"] > 0 for row in rows)
    assert "FGRPO_OPENRLHF_DEVICE=cpu: stand-ins for CUDA are on" in said(undisturbed)
    sizes = "vLLM draws up to 48 sequences at once in passes of up to 1024 tokens"
    assert sizes in said(undisturbed)
    folder = undisturbed.folder / "checkpoints" / "step-00005"
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {
        p.name for p in folder.iterdir()
    }
    assert [p.name for p in folder.parent.iterdir()] == ["step-00005"]


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_that_evaluates_is_killed_then_stopped_and_ends_with_the_same_weights(
    undisturbed, tmp_path, is_killed
):
    """Killed or not: a kill in the middle of saves is test_zero.py's in every run."""
    options = CISPO | {
        "--eval.dataset": str(write_prompts(tmp_path / "evaluation.jsonl", heldout_problems(12))),
        "--eval.steps": "2",
        "--eval.temperature": "1.0",
        "--eval.n_samples_per_prompt": "16",
    }
    run = replace(undisturbed, folder=tmp_path / "run", options=options)
    if is_killed:
        saving = replace(run, options=options | {"--ckpt.save_steps": "1"})
        process = saving.start()
        while "evaluating step 2: 12 prompts x 16" not in said(run):
            assert process.poll() is None, run.last_lines(40)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert [row["step"] for row in run.rows()] == [1] and SAVED.search(said(run))

    process = run.start()
    run.wait_for_rows(2, process)
    process.send_signal(signal.SIGTERM)
    assert run.finish(process) == 75, run.last_lines(40)
    assert not is_killed or "step 1 is done" in said(run)
    assert "signal SIGTERM: stopping after the running step" in said(run)
    stopped_after = len(run.rows())
    assert 2 <= stopped_after < 5
    assert not (run.folder / "checkpoints").exists()

    assert run.run() == 0, run.last_lines(40)
    assert f"step {stopped_after} is done" in said(run)
    assert learned(run.rows()) == learned(undisturbed.rows())
    assert weights(run, 5) == weights(undisturbed, 5)
    evaluated = [row for row in run.rows() if row["eval_pass_at_1"] is not None]
    assert [row["step"] for row in evaluated] == [2, 4]
    for row in evaluated:
        assert 0 < row["eval_pass_at_1"] <= row["eval_pass_at_n"] <= 1
        assert row["seconds_evaluation"] > 0


@pytest.fixture(scope="module")
def broken(undisturbed, tmp_path_factory):
    """The same run in dynamic batches; the targets of the third step's prompts are none."""
    folder = tmp_path_factory.mktemp("broken")
    order = list(PromptOrder(seed=11, problems=N_PROMPTS, size=N_PROMPTS))
    problems = train_problems(N_PROMPTS)
    for i in order[2 * 8 : 3 * 8]:
        problems[i] = replace(problems[i], target=problems[i].target.replace("-", "-x"))
    dynamic = {"--train.dynamic_batch_enable": "", "--train.max_tokens_per_gpu": "200"}
    prompts = write_prompts(folder / "prompts.jsonl", problems)
    run = replace(undisturbed, folder=folder / "run", prompts=prompts, options=CISPO | dynamic)
    assert run.run() == 1, run.last_lines(40)
    return run


@pytest.mark.slow
def test_metrics_are_the_same_whatever_the_micro_batches(undisturbed, broken):
    """OpenRLHF's own means of dynamic batches are too small by their number."""
    rows = broken.rows()
    assert [row["step"] for row in rows] == [1, 2]
    for row, plain in zip(rows, undisturbed.rows(), strict=False):
        # both updates of the first step are of the same weights, and later ones of weights that
        # differ in their last bits
        within = {"abs": 1e-6, "rel": 0.01 if row["step"] == 1 else 0.2}
        for name in ("success_rate", "loss", "entropy", "reference_kl"):
            assert row[name] == pytest.approx(plain[name], **within), name
    assert (
        row["reference_kl"] > 0 and row["learning_rate"] == undisturbed.rows()[1]["learning_rate"]
    )


@pytest.mark.slow
def test_a_reward_that_raises_fails_the_run_with_its_reason_last(broken):
    last = broken.last_lines(1)
    assert last.startswith("training failed: RuntimeError: grader 'countdown' on problem")
    assert "raised ValueError" in last


LORA = {"--ds.lora.rank": "4", "--ds.lora.alpha": "8", "--actor.adam.lr": "3e-2"}


@pytest.mark.slow
@pytest.mark.parametrize("further", [{}, LORA], ids=["all weights", "lora"])
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


@pytest.mark.slow
def test_too_few_prompts_for_the_steps_fail_the_run(model, tmp_path):
    prompts = write_prompts(tmp_path / "prompts.jsonl", train_problems(13))
    run = Run(folder=tmp_path / "run", model=model, prompts=prompts, steps=2)
    assert run.run() == 1
    assert "used up after step 1 of 2: 13 prompts, passed over 1 times" in run.last_lines(1)


def test_vllm_and_transformers_read_an_exported_checkpoint_alike(undisturbed, tmp_path):
    checkpoint = undisturbed.folder / "checkpoints" / "step-00005"
    found = observed_of(checkpoint, tmp_path, "likelihoods")
    assert found["vllm"] == pytest.approx(found["transformers"], rel=1e-4)
    assert min(found["vllm"]) > 0 and len(set(found["vllm"])) == 3


@pytest.fixture(scope="module")
def foreign():
    """Somebody else's Ray on this machine, as `ray start --head` starts it: (its address, their
    folder for temporary files, which names it)."""
    folder = Path(tempfile.mkdtemp(prefix="foreign-", dir="/tmp"))
    step = SlurmStep(rank=0, nodes=("n1",), node="n1", job=os.getpid(), restarts=0)
    address = cluster.free_address(cluster.node_address(), step.job)
    meeting = Meeting.from_step(folder, step)
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

ADDED = {"objectives": "plain", "advantages": "centred", "graders": "parity"}


def added():
    from fgrpo_bench.core import registry

    return [registry.origin(table, name) for table, name in ADDED.items()]


with driver.connected(sys.argv[2] if len(sys.argv) > 2 else None):
    node = ray._private.worker._global_node
    folder = Path(node.get_temp_dir_path())
    found = {
        "address": node.gcs_address,
        "gpus": ray.cluster_resources()["GPU"],
        "folder": str(folder),
        "sockets": [str(path) for path in folder.rglob("*") if path.is_socket()],
        "worker": ray.get(ray.remote(lambda: dict(os.environ)).remote()),
        "added": ray.get(ray.remote(added).remote()) if os.environ.get("FGRPO_PLUGINS") else None,
    }
found["is_removed"] = not folder.exists()
Path(sys.argv[1]).write_text(json.dumps(found))
"""


def rays_place(tmp_path, environment, *address):
    """What RAYS_PLACE says of a driver's Ray, in a process of its own."""
    out = tmp_path / "out.json"
    inherited = {name: text for name, text in os.environ.items() if name != "VLLM_RPC_BASE_PATH"}
    usual = {"PYTHONPATH": ".", "FGRPO_OPENRLHF_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", RAYS_PLACE, str(out), *address],
        env=inherited | usual | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.mark.slow
def test_a_run_takes_part_in_the_ray_that_it_is_told_of(foreign, tmp_path):
    address, _ = foreign
    found = rays_place(tmp_path, {"RAY_ADDRESS": "127.0.0.1:1"}, address)
    assert (found["address"], found["gpus"]) == (address, 1)
    assert not found["is_removed"] and cluster.answers(address)


def test_a_run_has_a_ray_of_its_own_whose_workers_get_its_environment_and_plugins(
    foreign, tmp_path
):
    """Though RAY_ADDRESS and the folder for temporary files name another."""
    address, folder = foreign
    environment = {"RAY_ADDRESS": address, "TMPDIR": str(folder), "OMP_NUM_THREADS": "3"}
    plugin = "tests.plugin.fgrpo_parity"
    found = rays_place(tmp_path, environment | {registry.VARIABLE: plugin})
    assert [origin["package"] for origin in found["added"]] == [plugin] * 3  # in a worker
    assert found["address"] != address and found["gpus"] > 1
    assert found["worker"].get("RAY_ADDRESS") != address
    assert found["worker"]["OMP_NUM_THREADS"] == "3"
    of_vllm = found["worker"].get("VLLM_RPC_BASE_PATH", str(folder))
    assert len(of_vllm) + len("/") + 36 <= 107  # a UUID
    assert found["is_removed"] and cluster.answers(address)
    assert found["sockets"]
    parent = str(Path(found["folder"]).parent)
    for path in found["sockets"]:
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
