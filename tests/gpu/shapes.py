"""Two training steps at the size of the published models: random weights of their architecture, so
that nothing is downloaded, and lengths, batches and placement of the shipped experiments.

What it measured is left where `plan` looks for rates: <run root>/_measured/<model>.<gpu>.json. That
is a cache; without it the plan assumes its rates.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Any

from fgrpo_bench.command.runs import default_root
from fgrpo_bench.engines.openrlhf import fit
from fgrpo_bench.engines.openrlhf.arguments import OpenRLHFTrain
from fgrpo_bench.engines.openrlhf.compilation import available_gib
from fgrpo_bench.engines.openrlhf.prompts import messages, token_counter
from fgrpo_bench.engines.openrlhf.states import states_folder
from fgrpo_bench.files.journal import read_lines
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.specs import config
from sweeps.commands import stage_command, stage_environment
from sweeps.estimate import MeasuredRates
from sweeps.freeze import freeze, run_paths
from sweeps.plan import Plan, expand, make_plan
from tests.gpu.machine import Machine, lacks_openrlhf, watched_memory
from tests.gpu.model import make_model, sizes, write_problems

GROUP_SIZE = 8
PROMPTS = 32
"""A step, for each GPU: what a GPU of node-8gpu has of the experiments' 256."""
RESPONSE_TOKENS = 2048
"""Random weights end hardly any response sooner."""
STEP = 2
"""The step that is measured: the first compiles kernels."""
PROBLEMS = "problems.jsonl"
UNPUBLISHED = {
    "qwen2.5-1.5b": [
        "experiment=qwen2.5-7b",
        "experiment.train.pretrained.name=qwen2.5-1.5b",
        "experiment.train.pretrained.parameters=1543714304",
        "experiment.train.pretrained.shape={hidden_size: 1536, n_layers: 28, n_kv_heads: 2, "
        "head_dim: 128, vocabulary_size: 151936}",
    ]
}
"""How a size is declared that no shipped experiment has; of the others one bears the name."""
PATIENCE_S = 5400
SAVED = re.compile(r"saved the state of step \d+: \S+ GB in (\S+) s, (\S+) GB a second")
"""What fgrpo_bench.engines.openrlhf.trainer prints: seconds, and GB (10^9 bytes) a second."""
PHASES = {
    "generate": "seconds_generation",
    "score": "seconds_experience",
    "update": "seconds_training",
    "sync": "seconds_sync",
}
"""Their names in a row of fgrpo_bench.engines.openrlhf.metrics."""


def lacks(model: str, machine: Machine, folder: Path, *, saves: bool = True) -> str:
    """Why these steps cannot run here; empty where they can. saves: whether the state is saved."""
    if lacking := lacks_openrlhf(machine):
        return lacking
    try:
        plan = planned(model, machine, folder, saves=saves)
    except ValueError as error:
        return str(error)
    if machine.device == "cpu":
        return ""
    pretrained = fit.published(plan.points[0])
    assert pretrained is not None
    parameters = pretrained.parameters
    # on disk weights and checkpoint, 2 bytes each, and the state, 14; in the host's memory an
    # optimizer with its gradients, 16, and vLLM's weights while it sleeps
    disk, memory = (18 if saves else 4) * parameters / 1e9, 18 * parameters / 2**30
    if (free := shutil.disk_usage(folder).free / 1e9) < disk:
        remedy = "name another with --keep" + ", or give --no-state" * saves
        return f"needs {disk:.0f} GB of disk and {folder} has {free:.0f}: {remedy}"
    processors = len(os.sched_getaffinity(0))
    if (free := available_gib(os.environ, processors=processors)) < memory:
        return f"needs {memory:.0f} GiB of the host's memory, and {free:.0f} are free"
    return ""


def measure(model: str, machine: Machine, folder: Path, *, saves: bool = True) -> str:
    """Two steps; what they took is stored for `plan` and returned in words. What they leave is
    removed, so that a disk need hold the largest size alone."""
    plan, root = planned(model, machine, folder, saves=saves), folder / model
    make_model(root / "model", sizes(model, machine.device), device=machine.device)
    write_problems(root / PROBLEMS, 2 * plan.points[0].n_prompts)
    paths, profile = run_paths(plan.declaration), plan.declaration.profile
    freeze(paths, plan, nothing_to_run=False)
    (training,) = [stage for stage in plan.stages if stage.kind == "train"]
    environment = stage_environment(profile, paths, os.environ, fetches=False)
    with watched_memory() as memory:
        for stage in plan.stages:
            if stage.name in (*training.needs, training.name):
                own = paths.folder / stage.name
                command = stage_command(stage.kind, own, profile, stage.environment)
                said = _say(command, environment, root / f"{own.name}.log")
    trained = StagePaths(paths.folder / training.name)
    rows = {row["step"]: row for row in read_lines(trained.step_rows)}
    placement, pretrained = profile.placement, fit.published(plan.points[0])
    assert pretrained is not None
    expected = fit.phases(plan.points[0], placement, nodes=1)
    record = measured(
        rows[STEP],
        said,
        model=model,
        parameters=pretrained.parameters,
        gpu=machine.gpus[0] if machine.gpus else "cpu",
        placement=_placement(machine),
        offloads=placement.adam_offload,
        n_gpus=placement.actor_gpus_per_node,
        prompt_tokens=_prompt_tokens(plan, root),
        peak_memory_gib=memory.peak_gib,
        planned_memory_gib=None if expected is None else max(expected.peaks.values()),
        saves=saves,
    )
    for place in (root / "model", trained.checkpoints, states_folder(trained.folder)):
        shutil.rmtree(place, ignore_errors=True)
    # rates of a small model on processors are none of the published one's
    store(record, default_root() if machine.device == "cuda" else folder)
    return in_words(record)


def _prompt_tokens(plan: Plan, root: Path) -> float:
    """Of a step's prompts, each as often as it is drawn from."""
    (point,) = plan.points
    train = point.train
    assert isinstance(train, OpenRLHFTrain)
    length = token_counter(root / "model", train.prompt)
    problems = [json.loads(line)["problem"] for line in (root / PROBLEMS).open()]
    mean = fmean(length(messages(problem, train.prompt)) for problem in problems)
    return mean * point.n_prompts * point.group_size


def _say(command: list[str], environment: Mapping[str, str], log: Path) -> str:
    """Run a stage to its end, its output into a file; what it said."""
    with log.open("w") as output:
        done = subprocess.run(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, timeout=PATIENCE_S
        )
    said = log.read_text(errors="replace")
    assert done.returncode == 0, said[-3000:]
    return said


def measured(
    row: Mapping[str, Any],
    said: str,
    *,
    model: str,
    parameters: int,
    gpu: str,
    placement: str,
    offloads: bool,
    n_gpus: int,
    prompt_tokens: float,
    peak_memory_gib: float | None,
    planned_memory_gib: float | None,
    saves: bool,
) -> MeasuredRates:
    """What `plan` reads: sampled tokens over the seconds of drawing and judging them, and tokens of
    prompts and responses over those of all that comes before the next are drawn.

    row: of the measured step, as fgrpo_bench.engines.openrlhf.metrics.step_row has it. said: what
    the run printed; AssertionError where it tells of no save and saves is True. offloads: whether
    the optimizer lived in the host's memory, which is slower. prompt_tokens: of all samples of the
    step. peak_memory_gib, planned_memory_gib: None where they are not known.
    """
    saved = SAVED.findall(said)
    assert bool(saved) == saves, f"{len(saved)} saves are told of in {said[-2000:]}"
    seconds = {phase: row[column] for phase, column in PHASES.items()}
    sampled = row["step_tokens"]
    rest = seconds["score"] + seconds["update"] + seconds["sync"]
    return MeasuredRates(
        model=model,
        parameters=parameters,
        gpu=gpu,
        placement=placement,
        adam_offload=offloads,
        n_gpus=n_gpus,
        source="make check-gpu",
        date=date.today().isoformat(),
        generate_tokens_per_second_per_gpu=sampled / seconds["generate"] / n_gpus,
        train_tokens_per_second_per_gpu=(sampled + prompt_tokens) / rest / n_gpus,
        save_gb_per_second=float(saved[-1][1]) if saved else None,
        peak_memory_gib=peak_memory_gib,
        planned_memory_gib=planned_memory_gib,
        seconds=seconds | ({"save": float(saved[-1][0])} if saved else {}),
    )


def store(record: MeasuredRates, root: Path) -> Path:
    """Write it under a run root; where."""
    gpu = re.sub(r"[^A-Za-z0-9.]+", "-", record.gpu)
    path = root / "_measured" / f"{record.model}.{gpu}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record.as_json())
    return path


def in_words(record: MeasuredRates) -> str:
    """For the table."""
    peak, expected = record.peak_memory_gib, record.planned_memory_gib
    save = record.save_gb_per_second
    offload = ", adam_offload=true" if record.adam_offload else ""
    phases = ", ".join(f"{phase} {took:.1f} s" for phase, took in record.seconds.items())
    return (
        f"{phases}; tokens per second and GPU: generate "
        f"{record.generate_tokens_per_second_per_gpu:,.0f}, train "
        f"{record.train_tokens_per_second_per_gpu:,.0f}; "
        + ("no state saved" if save is None else f"save {save:.2f} GB a second")
        + "; peak memory of a GPU "
        + ("not told by nvidia-smi" if peak is None else f"{peak:.1f} GiB")
        + ("" if expected is None else f", {expected:.1f} by the plan")
        + f"; {record.placement}{offload}"
    )


def _placement(machine: Machine) -> str:
    if machine.device == "cpu":
        return "cpu"
    return "node-8gpu" if len(machine.gpus) > 1 else "single-gpu"


def planned(model: str, machine: Machine, folder: Path, *, saves: bool = True) -> Plan:
    """The plan of these steps on as many GPUs as divide a node of eight; the optimizer lives in the
    host's memory where the plan's own check says that it fits a GPU badly or not. ValueError where
    it does not fit even so. saves: whether the state after them is saved."""
    on_cpu = machine.device == "cpu"
    n_gpus = max((n for n in (1, 2, 4, 8) if n <= len(machine.gpus)), default=1)
    prompts, response = (8, 32) if on_cpu else (PROMPTS * n_gpus, RESPONSE_TOKENS)
    root = folder / model
    train, data = "experiment.train", "experiment.train.dataset"
    chosen = [
        *UNPUBLISHED.get(model, [f"experiment={model}"]),
        *(f"run_root='{root}'", f"sweep.grid.group_size=[{GROUP_SIZE}]"),
        *("sweep.grid.algorithm=[grpo]", "sweep.grid.focal_gamma=[0.5]"),
        *(f"{train}.steps={STEP}", f"{train}.epochs=1", f"{train}.save_every={STEP}"),
        *(f"{train}.eval_every=0", f"{train}.eval_dataset=null", f"{train}.lr_warmup_steps=0"),
        *(f"{train}.prompts_per_step={prompts}", f"{train}.response_tokens={response}"),
        f"{train}.pretrained.path='{root / 'model'}'",
        *(f"{data}.source=file", f"{data}.path='{root / PROBLEMS}'"),
        *(f"{data}.{name}=null" for name in ("repository", "max_tokens", "tokenizer")),
        *(f"{data}.token_field=null", f"{data}.expected_rows=null", f"{data}.deduplicate=false"),
        f"placement@profile.placement={_placement(machine)}",
        f"profile.placement.state_every={STEP if saves else 2 * STEP}",
    ]
    if not on_cpu:
        chosen += [
            "profile.device=cuda",
            f"profile.placement.gpu_memory_gb={machine.gpu_memory_gb:.0f}",
            f"profile.placement.actor_gpus_per_node={n_gpus}",
            f"profile.placement.vllm_engines={n_gpus}",
            f"profile.placement.evaluation_engines={n_gpus}",
        ]
    declaration = config.load("rehearsal", chosen)
    try:
        is_tight = bool(fit.check(expand(declaration)[0], None, declaration.profile.placement))
    except ValueError:
        is_tight = True
    if is_tight:
        declaration = config.load("rehearsal", [*chosen, "profile.placement.adam_offload=true"])
    return make_plan(declaration)
