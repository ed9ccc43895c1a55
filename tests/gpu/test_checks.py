"""What `make check-gpu` reads, plans, writes and prints, with a fake nvidia-smi and no GPU."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from fgrpo_bench.data.fetch import check_model
from fgrpo_bench.data.published import model_shape
from fgrpo_bench.files.whole import read_json
from tests.gpu import checks, machine, model, shapes
from tests.gpu.__main__ import Check, run
from tests.gpu.machine import Machine
from tests.support.plans import loaded
from tests.support.stages import freeze

H100 = "NVIDIA H100 80GB HBM3"


def here(n_gpus: int, memory: float = 79.1) -> Machine:
    gpus = (H100,) * n_gpus
    return Machine(device="cuda", gpus=gpus, gpu_memory_gb=memory, described=(), has_openrlhf=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", model.CONFIGS)
def test_models_have_the_published_number_of_parameters(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(model.CONFIGS[name]))
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(tmp_path))
    declared = shapes.UNPUBLISHED.get(name, [f"experiment={name}"])
    train = loaded("rehearsal", *declared).experiment.train
    assert model_shape(replace(train.pretrained, path=str(tmp_path), shape=None)) == (
        train.pretrained.shape
    )
    assert sum(p.numel() for p in made.parameters()) == train.pretrained.parameters
    assert made.config.rope_parameters["rope_theta"] == 1e6


@pytest.mark.slow
@pytest.mark.parametrize("name", model.CONFIGS)
def test_a_made_model_is_a_folder_as_publishers_make_it(name: str, tmp_path: Path) -> None:
    model.make_model(tmp_path / "model", model.sizes(name, "cpu"), device="cpu")
    check_model(tmp_path / "model", chat_template=True)
    made = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert made.dtype == torch.bfloat16 and made.config.model_type == name[:5]
    assert len(tokenizer) == made.config.vocab_size
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "2 + 2?"}], add_generation_prompt=True, tokenize=False
    )
    assert text == "<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert all(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))


@pytest.mark.slow
def test_problems_are_as_long_as_problems_in_words(tmp_path: Path) -> None:
    model.write_problems(tmp_path / "problems.jsonl", 64)
    rows = [json.loads(line) for line in (tmp_path / "problems.jsonl").read_text().splitlines()]
    assert len({row["problem"] for row in rows}) == 64 and rows[6]["answer"] == "14"
    tokenizer = model.byte_tokenizer(151936)
    assert len(tokenizer) == 151936
    assert all(100 < len(tokenizer(row["problem"])["input_ids"]) < 400 for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_gpus", "used"),
    [
        *(("qwen2.5-7b", 1, 1), ("qwen3-4b-base", 1, 1), ("qwen2.5-1.5b", 1, 1)),
        *(("qwen2.5-7b", 3, 2), ("qwen3-4b-base", 8, 8)),
    ],
)
def test_the_shipped_placement_is_run_on_the_gpus_that_are_here(
    name: str, n_gpus: int, used: int, tmp_path: Path
) -> None:
    plan = shapes.planned(name, here(n_gpus), tmp_path)
    placement = plan.declaration.profile.placement
    assert placement.colocate and placement.packing and not placement.vllm_enforce_eager
    assert placement.actor_gpus_per_node == placement.vllm_engines == used
    assert placement.vllm_tensor_parallel == 1
    assert placement.zero_stage == 3
    if used != 2:  # 113 GiB of states do not fit one GPU, 60 fit beside activations
        assert placement.adam_offload == (used == 1 and name == "qwen2.5-7b")
    point = plan.points[0]
    assert point.n_prompts * point.group_size == 256 * used
    assert point.train.dataset.source == "file" and point.train.eval_every == 0


def test_the_built_in_engines_sweeps_can_be_planned(tmp_path: Path) -> None:
    for overrides in ([], checks.WIDE):
        freeze(tmp_path, *checks.BUILT_IN, *overrides)


@pytest.mark.slow
def test_two_gpus_run_what_node_8gpu_ships(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[checks.Sweep] = []
    monkeypatch.setattr(checks, "_start", started.append)
    monkeypatch.setattr(checks, "_end", lambda _: None)
    monkeypatch.setattr(checks, "_two_steps", lambda _: "")
    checks.two_gpus(here(2), tmp_path)
    shipped = loaded("rehearsal", "placement@profile.placement=node-8gpu").profile.placement
    on_two = {"actor_gpus_per_node": 2, "vllm_engines": 2, "evaluation_engines": 2}
    profile = loaded("rehearsal", *started[0].overrides).profile
    assert profile.device == "cuda"
    assert profile.placement == replace(shipped, **on_two, gpu_memory_gb=79.0, state_every=1)


@pytest.mark.slow
def test_what_a_machine_has_no_room_for_is_told_with_the_numbers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "it cannot fit" in shapes.lacks("qwen2.5-7b", here(1, memory=24.0), tmp_path)
    monkeypatch.setattr(shapes, "available_gib", lambda *_, **__: 100.0)
    fake = type("Usage", (), {"free": int(100e9)})
    monkeypatch.setattr(shapes.shutil, "disk_usage", lambda _: fake)
    assert shapes.lacks("qwen3-4b-base", here(1), tmp_path) == ""
    assert "needs 137 GB of disk" in shapes.lacks("qwen2.5-7b", here(1), tmp_path)
    fake.free = int(60e9)  # where the sizes below fit, and the two published ones with no state
    assert "72 GB" in (without := shapes.lacks("qwen3-4b-base", here(1), tmp_path))
    assert without.endswith("name another with --keep, or give --no-state")
    assert shapes.lacks("qwen3-4b-base", here(1), tmp_path, saves=False) == ""
    assert shapes.lacks("qwen2.5-1.5b", here(1), tmp_path) == ""
    for saves, every in ((True, 2), (False, 4)):  # of two steps
        plan = shapes.planned("qwen2.5-1.5b", here(1), tmp_path, saves=saves)
        assert plan.declaration.profile.placement.state_every == every
    fake.free = int(200e9)
    assert (
        shapes.lacks("qwen2.5-7b", here(1), tmp_path)
        == "needs 128 GiB of the host's memory, and 100 are free"
    )
    for lacks in (machine.lacks_two_gpus, machine.lacks_two_ranks):
        assert lacks(here(1)) == "needs two GPUs" and lacks(here(2)) == ""


ROW = {
    "step_tokens": 524_288,
    "seconds_generation": 64.0,
    "seconds_experience": 28.0,
    "seconds_training": 100.0,
    "seconds_sync": 10.0,
}
SAID = """step 1 is done
saved the state of step 1: 48.3 GB in 40.2 s, 1.20 GB a second
saved the state of step 2: 48.3 GB in 20.1 s, 2.40 GB a second
"""

MEASURED_OF = {
    **{"model": "qwen3-4b-base", "parameters": 4022468096, "gpu": H100, "placement": "node-8gpu"},
    **{"offloads": False, "n_gpus": 2, "prompt_tokens": 27_712.0},
    **{"peak_memory_gib": 71.25, "planned_memory_gib": 66.5},
}


def test_what_is_measured_is_stored_for_plan_and_told(tmp_path: Path) -> None:
    record = shapes.measured(
        ROW,
        SAID,
        saves=True,
        **MEASURED_OF,
    )
    path = shapes.store(record, tmp_path)
    assert path == tmp_path / "_measured" / "qwen3-4b-base.NVIDIA-H100-80GB-HBM3.json"
    stored = read_json(path)
    assert stored.pop("date").startswith("20")
    assert stored == {
        "model": "qwen3-4b-base",
        "parameters": 4022468096,
        "gpu": H100,
        "placement": "node-8gpu",
        "adam_offload": False,
        "n_gpus": 2,
        "source": "make check-gpu",
        "generate_tokens_per_second_per_gpu": 4096.0,
        "train_tokens_per_second_per_gpu": 2000.0,
        "save_gb_per_second": 2.4,
        "peak_memory_gib": 71.25,
        "planned_memory_gib": 66.5,
        "seconds": {"generate": 64.0, "score": 28.0, "update": 100.0, "sync": 10.0, "save": 20.1},
    }
    assert shapes.in_words(record) == (
        "generate 64.0 s, score 28.0 s, update 100.0 s, sync 10.0 s, save 20.1 s; tokens per "
        "second and GPU: generate 4,096, train 2,000; save 2.40 GB a second; peak memory of a GPU "
        "71.2 GiB, 66.5 by the plan; node-8gpu"
    )
    stateless = shapes.measured(ROW, "step 2 is done", saves=False, **MEASURED_OF)
    assert stateless.save_gb_per_second is None and "save" not in stateless.seconds
    assert "train 2,000; no state saved; peak memory" in shapes.in_words(stateless)
    for said, saves in (("step 2 is done", True), (SAID, False)):
        with pytest.raises(AssertionError, match="saves are told of"):
            shapes.measured(ROW, said, saves=saves, **MEASURED_OF)


def test_answers_of_nvidia_smi_are_read() -> None:
    answer = "41234, VLLM::EngineCore\n41102, ray::PolicyActor\n[N/A], [Not Found]\n"
    assert machine.processes(answer) == {41234: "VLLM::EngineCore", 41102: "ray::PolicyActor"}
    assert machine.processes("") == {}
    assert machine.mebibytes("81229\n4\n[N/A]\n") == [81229, 4]


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake one: of the pids in its file `pids` it lists those that live, and its memory grows."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"""#!/bin/sh
cd {tmp_path}
echo "$@" >> asked
case "$*" in
  *compute-apps*) while read pid; do kill -0 $pid 2> /dev/null && echo "$pid, VLLM::EngineCore"; done < pids ;;
  *loop-ms*) printf '1024\\n512\\n9216\\n4608\\n2048\\n512\\n'; touch grown; exec sleep 600 ;;
  *memory.used*) printf '1024\\n512\\n' ;;
esac
exit 0
""")  # noqa: E501
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    return tmp_path


def test_an_engine_that_outlives_its_parent_fails_with_its_pid(nvidia_smi: Path) -> None:
    script = f"sleep 600 & echo $! > {nvidia_smi}/new; mv {nvidia_smi}/new {nvidia_smi}/pids; wait"
    stage = subprocess.Popen(["sh", "-c", script])
    while not (nvidia_smi / "pids").exists():
        time.sleep(0.01)
    engine = int((nvidia_smi / "pids").read_text())
    try:
        started, computing = machine.family(stage.pid), machine.on_gpus()
        assert started == {stage.pid: "sh", engine: "sleep"}
        assert computing == {engine: "VLLM::EngineCore"}
        stage.kill()
        stage.wait()
        with pytest.raises(AssertionError, match=rf": pid {engine} \(sleep\);"):
            machine.check_gone(started, machine.running, patience_s=0)
        with pytest.raises(AssertionError, match=rf": pid {engine} \(VLLM::EngineCore\);"):
            machine.check_gone(computing, machine.on_gpus, patience_s=0)
    finally:
        os.kill(engine, signal.SIGKILL)
    machine.check_gone(started, machine.running)
    assert "--id=2,3" in (nvidia_smi / "asked").read_text()


def test_the_peak_is_the_most_on_one_gpu_over_what_was_in_use(nvidia_smi: Path) -> None:
    with machine.watched_memory() as memory:
        while not (nvidia_smi / "grown").exists():
            time.sleep(0.01)
    assert memory.peak_gib == 8.0


def test_without_nvidia_smi_no_peak_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with machine.watched_memory() as memory:
        pass
    assert memory.peak_gib is None and machine.on_gpus() == {}


def check(name: str, *, lacking: str = "", fault: str = "", decides: bool = True) -> Check:
    def work(here: Machine, folder: Path) -> str:
        if fault:
            raise AssertionError(f"a line of a log\n{fault}")
        return "3.0 GiB"

    return Check(name=name, run=work, lacks=lambda *_: lacking, decides=decides)


FINE, ABSENT = check("a"), check("b", lacking="needs two GPUs")
TOLD, BROKEN = check("c", fault="no reply", decides=False), check("d", fault="other weights")


@pytest.mark.parametrize(
    ("every", "code"),
    [([FINE, ABSENT, TOLD], 0), ([FINE, BROKEN], 1), ([ABSENT], 1), ([TOLD], 1)],
)
def test_the_exit_code_is_that_of_the_checks_that_decide(
    every: list[Check], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(here(1), tmp_path, every) == code
    lines = {
        "a": "| a | passed | 0 | 3.0 GiB |",
        "b": "| b | not here | 0 | needs two GPUs |",
        "c": "| c | failed, decides nothing | 0 | no reply |",
        "d": "| d | FAILED | 0 | other weights |",
    }
    printed = capsys.readouterr().out.splitlines()
    assert printed[-len(every) :] == [lines[each.name] for each in every]
