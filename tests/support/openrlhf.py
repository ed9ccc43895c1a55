"""A small model, its prompts, and the driver as the command that a stage starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from fgrpo_bench.core.problems import Problem
from fgrpo_bench.engines.embedded.engine import EmbeddedTrain
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.specs import ModelSpec, WarmupSpec, to_dict
from fgrpo_bench.tasks import make_task
from fgrpo_bench.tasks.countdown import CountdownSpec

TASK = CountdownSpec(name="countdown", seed=4, n_digits=2, max_target=99, heldout_fraction=0.2)
MODEL = ModelSpec(
    name="tiny",
    hidden_size=96,
    n_layers=3,
    n_heads=3,
    n_kv_heads=3,
    intermediate_size=192,
    rope_theta=10_000.0,
)
TRAIN = EmbeddedTrain(
    engine="embedded",
    task=TASK,
    model=MODEL,
    warmup=WarmupSpec(steps=40, batch_size=64, learning_rate=0.002, weight_decay=0.01),
    budget="constant_rollouts",
    rollouts_per_step=64,
    prompts_per_step=None,
    steps=4,
    updates_per_batch=2,
    learning_rate=1e-4,
    lr_warmup_updates=0,
    beta1=0.9,
    beta2=0.999,
    weight_decay=0.0,
    grad_clip=1.0,
    temperature=1.0,
    save_every=4,
    eval_every=0,
    eval_n_problems=8,
    eval_n_samples=8,
)
"""The embedded engine's settings; its warm-up makes the model that the runs here start from."""


def make_model(folder: Path) -> Path:
    """A checkpoint of the embedded engine after a short warm-up."""
    from fgrpo_bench.engines.embedded.warmup import warm_up
    from fgrpo_bench.files.paths import StagePaths
    from fgrpo_bench.files.whole import write_json
    from fgrpo_bench.specs.stored import WarmupStageSpec
    from fgrpo_bench.stages.stage import StageRun

    paths = StagePaths(folder)
    fields = {name: to_dict(TRAIN)[name] for name in ("warmup", "beta1", "beta2", "grad_clip")}
    spec = WarmupStageSpec(
        kind="warmup",
        fingerprint="0" * 64,
        target={},
        identity={},
        seed=11,
        task=to_dict(TASK),
        model=to_dict(MODEL),
        **fields,
    )
    write_json(paths.spec, spec.as_json())
    warm_up(spec, StageRun(paths), "cpu")
    return paths.checkpoint(0)


def make_untrained(folder: Path) -> Path:
    """A checkpoint of the same shape with random weights: its draws are of any kind."""
    import torch

    from fgrpo_bench.engines.embedded.checkpoint import save_checkpoint
    from fgrpo_bench.engines.embedded.model import Policy
    from fgrpo_bench.engines.embedded.tokenizer import Tokenizer

    tokenizer = Tokenizer(make_task(TASK).vocabulary)
    torch.manual_seed(0)
    policy = Policy(MODEL, tokenizer.size)
    with torch.no_grad():
        policy.get_parameter("model.embed_tokens.weight").mul_(0.1)  # so that no token is certain
    save_checkpoint(folder, policy, tokenizer)
    return folder


def write_prompts(path: Path, problems: list[Problem]) -> Path:
    """A prompt file."""
    from fgrpo_bench.engines.openrlhf.labels import LABEL, PROMPT, make_label

    lines = [json.dumps({PROMPT: p.prompt, LABEL: make_label(p)}) for p in problems]
    path.write_text("\n".join(lines) + "\n")
    return path


def train_problems(count: int) -> list[Problem]:
    """The first training problems of the small task."""
    task = make_task(TASK)
    return [task.problem(i) for i in range(count)]


def heldout_problems(count: int) -> list[Problem]:
    """The first held-out problems of the small task."""
    task = make_task(TASK)
    return task.heldout_problems(count)


@dataclass(kw_only=True)
class Run:
    """One run of the driver in a folder of its own."""

    folder: Path
    model: Path
    prompts: Path
    focal_gamma: float = 0.5
    objective: str = "clip"
    steps: int = 3
    options: dict[str, str] = field(default_factory=dict)
    """Further options or other values of those below, words apart; empty for a flag."""
    environment: dict[str, str] = field(default_factory=dict)
    """Further variables."""

    @property
    def arguments(self) -> list[str]:
        """The command line after `python -m fgrpo_bench.engines.openrlhf.driver`."""
        options = {
            "--fgrpo.focal_gamma": str(self.focal_gamma),
            "--fgrpo.objective": self.objective,
            "--fgrpo.metrics": str(self.folder / "metrics.jsonl"),
            "--fgrpo.stop_flag": str(self.folder / "stop"),
            "--fgrpo.checkpoints": str(self.folder / "checkpoints"),
            "--fgrpo.save_every": "100",
            "--fgrpo.steps": str(self.steps),
            "--fgrpo.base_sha256": "0" * 64,
            "--fgrpo.vllm_max_num_seqs": "48",
            "--fgrpo.vllm_max_num_batched_tokens": "1024",
            "--actor.model_name_or_path": str(self.model),
            "--actor.num_nodes": "1",
            "--actor.num_gpus_per_node": "1",
            "--ref.num_nodes": "1",
            "--ref.num_gpus_per_node": "1",
            "--vllm.num_engines": "1",
            "--vllm.tensor_parallel_size": "1",
            "--vllm.sync_backend": "gloo",
            "--vllm.enforce_eager": "",
            "--vllm.gpu_memory_utilization": "0.1",
            "--data.prompt_dataset": str(self.prompts),
            "--data.input_key": "prompt",
            "--data.label_key": "label",
            "--data.max_len": "24",
            "--rollout.max_new_tokens": "8",
            "--rollout.temperature": "1.0",
            "--rollout.top_p": "1.0",
            "--rollout.batch_size": "8",
            "--rollout.n_samples_per_prompt": "8",
            "--rollout.micro_batch_size": "16",
            "--train.batch_size": "32",
            "--train.micro_batch_size": "16",
            "--train.max_epochs": "1",
            "--train.num_episodes": "1",
            "--train.seed": "11",
            "--actor.adam.lr": "1e-3",
            "--actor.lr_scheduler": "constant",
            "--actor.lr_warmup_ratio": "0.0",
            "--actor.entropy_coef": "0.0",
            "--algo.advantage.estimator": "group_norm",
            "--algo.kl.init_coef": "0.0",
            "--ds.zero_stage": "2",
            "--ds.param_dtype": "bf16",
            "--ds.attn_implementation": "sdpa",
            "--ckpt.path": str(self.folder / "state"),
            "--ckpt.output_dir": str(self.folder / "unused"),
            "--ckpt.save_steps": "-1",
            "--ckpt.max_num": "2",
            "--ckpt.load_enable": "",
            "--eval.steps": "-1",
        } | self.options
        return [word for name, value in options.items() for word in (name, *value.split())]

    @property
    def log(self) -> Path:
        """What the last start printed."""
        return self.folder / "log"

    def start(self) -> subprocess.Popen[bytes]:
        """Start the driver in a session of its own, its output into the log."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "fgrpo_bench.engines.openrlhf.driver", *self.arguments]
        variables = {"FGRPO_OPENRLHF_DEVICE": "cpu", "HF_HUB_OFFLINE": "1"} | self.environment
        with self.log.open("wb") as log:
            return subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ | variables,
                start_new_session=True,
            )

    def finish(self, process: subprocess.Popen[bytes], seconds: float = 1200) -> int:
        """Wait for the end; its exit code. A run that does not end is killed with all its own.

        seconds: until it is taken to hang. Right after an installation, with all files still to be
        read, the actors of a run have taken three minutes to start.
        """
        try:
            return process.wait(seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def run(self) -> int:
        """Start and finish."""
        return self.finish(self.start())

    def rows(self) -> list[dict[str, object]]:
        """The metrics so far."""
        return list(read_lines(self.folder / "metrics.jsonl"))

    def wait_for_rows(self, count: int, process: subprocess.Popen[bytes]) -> None:
        """Until that many steps are logged or the run has ended."""
        while len(self.rows()) < count and process.poll() is None:
            time.sleep(0.1)

    def last_lines(self, count: int = 3) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])
