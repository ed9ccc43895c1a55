"""The checks of `make check-gpu`: the commands that a user types, on small models, and what must
hold of what they leave. Each raises AssertionError with what it saw, or returns what it measured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.command.runs import find_runs
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.specs import config
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.locks import lock_holder
from fgrpo_bench.stages.tables import METRICS, read_table
from sweeps import REPOSITORY
from sweeps.freeze import run_paths
from sweeps.plan import make_plan
from tests.gpu.machine import Machine, check_gone, family, on_gpus, running
from tests.support.stages import freeze, start

PATIENCE_S = 900
"""For one stage; the first of OpenRLHF on a GPU captures graphs and may compile kernels."""
STEPS = 60
"""Of the built-in engine."""
BUILT_IN = [
    *("sweep.grid.focal_gamma=[1.0]", "experiment.train.warmup.steps=40"),
    *(f"experiment.train.steps={STEPS}", "experiment.train.save_every=20"),
]
WIDE = ["experiment.train.rollouts_per_step=2048", "experiment.train.task.n_digits=4"]
"""Steps large enough to be worth a GPU, and a task with as many problems."""
TWO_STEPS = [
    *("sweep.grid.algorithm=[grpo]", "sweep.grid.focal_gamma=[0.5]"),
    *(
        "experiment.train.warmup.steps=40",
        "experiment.train.steps=2",
        "experiment.train.save_every=2",
    ),
    *("profile.max_parallel=1", "profile.placement.state_every=1"),
]
GAP = 0.02
"""Nats per token by which vLLM and the policy may differ with the same weights in bf16."""


def computes(machine: Machine, folder: Path) -> str:
    """Matrix products of the device are those of the CPU."""
    import torch

    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(1024, 1024, generator=generator, dtype=torch.float64) for _ in "ab")
    got = (a.to(machine.device) @ b.to(machine.device)).cpu()
    error = float((got - a @ b).abs().max())
    assert error < 1e-9, f"largest error of a product in float64: {error:.1e}"
    return f"largest error of a product in float64: {error:.1e}"


def resumes(machine: Machine, folder: Path) -> str:
    """A run that is killed after a save ends with the weights of one that nothing befell."""
    weights = []
    for name in ("undisturbed", "struck"):
        stage = _ready(folder / name, machine.device)
        if name == "struck":
            _kill_after_a_save(stage, machine.device)
        said = _work("train", stage, machine.device)
        assert name == "undisturbed" or "resuming after step" in said, said[-2000:]
        weights.append(sha256_file(stage.checkpoint(STEPS) / "model.safetensors"))
    assert weights[0] == weights[1], "the weights differ"
    return "weights equal to the bit"


def speed(machine: Machine, folder: Path) -> str:
    """Sampled tokens a second of training steps."""
    rates = {}
    for device in ("cpu", machine.device):
        stage = _ready(folder / f"speed-{device}", device, *WIDE)
        _work("train", stage, device)
        steps = read_table(stage.metrics, METRICS).sort("step")
        late = steps.filter(pl.col("step") > STEPS // 2)
        tokens = late["tokens"].max() - steps["tokens"][STEPS // 2 - 1]
        rates[device] = tokens / late["seconds"].sum()
    ratio = rates[machine.device] / rates["cpu"]
    return f"{rates[machine.device]:,.0f} tokens/s, {ratio:.1f} times one thread of the CPU"


def openrlhf(machine: Machine, folder: Path) -> str:
    """Two steps, killed after the first, which leaves no process behind; on a GPU policy and engine
    take turns."""
    sweep, before = _rehearsal(folder / "openrlhf", machine), on_gpus()
    process = _start(sweep)
    _wait(lambda: any(sweep.stage.folder.glob("openrlhf/**/whole.json")), process)
    stage = lock_holder(sweep.stage.lock)["pid"]
    started, computing = family(stage), on_gpus().keys() - before.keys()
    os.kill(stage, signal.SIGKILL)
    process.communicate()
    assert not sweep.stage.done.exists(), "the run ended before it was killed"
    check_gone(started, running)
    check_gone(dict.fromkeys(computing, "on a GPU"), on_gpus)  # as nvidia-smi, which may see more
    ended = f"{len(started)} processes ended with the one that was killed, "
    ended += f"{len(computing)} of nvidia-smi's" if computing else "nvidia-smi names none"
    _end(_start(sweep))
    log = "".join(path.read_text(errors="replace") for path in sorted(sweep.stage.logs.iterdir()))
    assert "step 1 is done" in log, log[-2000:]
    return f"{_two_steps(sweep.stage)}; {ended}"


def evaluates(machine: Machine, folder: Path) -> str:
    """The evaluation of that run is complete."""
    (paths,) = find_runs(folder / "openrlhf")
    results = load_results(paths)
    (point,) = [point for point in results.points if point.cell is not None]
    rows = len(point.passk(results.benchmarks[0]))
    assert rows, "the evaluation is not complete"
    return f"{rows} rows of pass@k"


def two_gpus(machine: Machine, folder: Path) -> str:
    """The layout of node-8gpu on two GPUs: two ranks of ZeRO 3, an engine on each GPU."""
    engines = ["profile.placement.vllm_engines=2"]
    if machine.device == "cuda":
        engines += ["profile.placement.evaluation_engines=2"]
    return _two_ranks(folder / "two-gpus", machine, "node-8gpu", *engines)


def tensor_parallel(machine: Machine, folder: Path) -> str:
    """Two ranks of ZeRO 3, and one engine over both GPUs, which no shipped placement has."""
    wide = ["profile.placement.vllm_tensor_parallel=2", "experiment.train.model.hidden_size=128"]
    # two GPUs share the heads of a model, and this one has three
    wide += [f"experiment.train.model.{name}=4" for name in ("n_heads", "n_kv_heads")]
    return _two_ranks(folder / "tensor-parallel", machine, "single-gpu", *wide)


def _two_ranks(root: Path, machine: Machine, placement: str, *overrides: str) -> str:
    ranks = ["profile.placement.actor_gpus_per_node=2", "profile.placement.zero_stage=3"]
    sweep = _rehearsal(root, machine, *ranks, *overrides, placement=placement)
    _end(_start(sweep))
    return _two_steps(sweep.stage)


def _ready(root: Path, device: str, *overrides: str) -> StagePaths:
    """A frozen training stage of the built-in engine, its base model trained."""
    plan, paths = freeze(root, *BUILT_IN, *overrides)
    _work("warmup", paths.warmup(11), device)
    (name,) = [stage.name for stage in plan.stages if stage.kind == "train"]
    return StagePaths(paths.folder / name)


def _work(kind: str, stage: StagePaths, device: str) -> str:
    """Run a stage to its end; what it said."""
    process = start(kind, stage.folder, "--device", device)
    said, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, said[-2000:]
    return said


def _kill_after_a_save(stage: StagePaths, device: str) -> None:
    process = start("train", stage.folder, "--device", device, "--save-seconds", "0")
    _wait(lambda: stage.state(0).exists() or stage.state(1).exists(), process)
    process.kill()
    process.communicate()
    assert not stage.done.exists(), "the run ended before it was killed"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """One training run of OpenRLHF and its evaluation."""

    overrides: list[str]
    stage: StagePaths
    """Of the training."""


def _rehearsal(
    root: Path, machine: Machine, *overrides: str, placement: str = "single-gpu"
) -> Sweep:
    """Sweep `rehearsal` of one point; on a GPU with what a GPU's placement has."""
    chosen = [f"run_root='{root}'", *TWO_STEPS]
    if machine.device == "cuda":
        chosen += [f"placement@profile.placement={placement}", "profile.device=cuda"]
        chosen += [f"profile.placement.gpu_memory_gb={machine.gpu_memory_gb:.0f}"]
    chosen += overrides
    declaration = config.load("rehearsal", chosen)
    paths = run_paths(declaration)
    (name,) = [stage.name for stage in make_plan(declaration).stages if stage.kind == "train"]
    return Sweep(overrides=chosen, stage=StagePaths(paths.folder / name))


def _start(sweep: Sweep) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sweeps", "run", "rehearsal", *sweep.overrides],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate(timeout=3 * PATIENCE_S)
    assert process.returncode == 0, said[-3000:]


def _two_steps(stage: StagePaths) -> str:
    """Both steps are there, and vLLM had the policy's weights in each."""
    rows = read_table(stage.metrics, METRICS).sort("step")
    steps = rows["step"].to_list()
    assert steps == [1, 2], f"steps {steps} and not 1 and 2"
    gap = rows["rollout_kl"].abs().max()
    assert gap < GAP, f"rollout_kl {gap:.1e}: the engine has other weights than the policy"
    return f"largest rollout_kl {gap:.1e} nats per token"


def _wait(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Until it holds; AssertionError with what was said where the process ends before."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None, (process.stdout.read() if process.stdout else "")[-3000:]
        assert time.monotonic() < deadline, f"nothing for {PATIENCE_S} s"
        time.sleep(0.05)
