"""An evaluation without a sweep: a checkpoint, some benchmarks, and a folder under evals/.

<root>/evals/<name>/                                the checkpoint as a stage: spec.json, DONE.json
<root>/evals/<name>/eval/alone-<fp8>/step-00000/    the evaluation, in the shape of a sweep's

Another temperature, prompt, dtype, stream or sampler is another <fp8>; more benchmarks or draws are
not.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evaluators import checkpoint
from evaluators.request import Request
from evaluators.sample import expected_seeds, stored_draws
from fgrpo_bench.benchmarks import load_problems
from fgrpo_bench.engines import of_sampler
from fgrpo_bench.kinds import evaluate
from fgrpo_bench.kinds.expected_draws import expected, words
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.kinds.graded import read_graded
from fgrpo_bench.specs import DatasetSpec, TaskSpec, from_dict, to_dict
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.stages.digests import weights_sha256
from fgrpo_bench.stages.files import write_json
from fgrpo_bench.stages.paths import DataPaths, StagePaths, between, shared_data
from fgrpo_bench.stages.spec import read_spec_of

REPOSITORY = Path(__file__).resolve().parents[1]


def freeze(request: Request) -> StagePaths:
    """Find and check everything that the request names and write the stage's spec.json.

    Raises ValueError, FileNotFoundError or OSError with value, rule and remedy.
    """
    evals = request.root / "evals"
    folder = checkpoint.locate(request.checkpoint, request.revision, evals / "_models")
    embedded = request.evaluation.sampler == "embedded"
    checkpoint.check(
        folder,
        sampler=request.evaluation.sampler,
        chat_template=request.prompt.chat_template,
        tokens=None if embedded else request.prompt_tokens + request.response_tokens,
    )
    task = _task(request, folder)
    data = {
        name: data_folder(request.root, name, benchmark.dataset)
        for name, benchmark in request.evaluation.benchmarks.items()
        if benchmark.dataset is not None
    }
    sha256 = weights_sha256(folder)
    name = request.name or checkpoint.default_name(request.checkpoint, sha256)
    source = StagePaths(evals / name)
    checkpoint.adopt(folder, source, named=request.checkpoint)
    sampling = evaluate.sampling_identity(
        request.evaluation,
        task=None if task is None else from_dict(TaskSpec, task),
        prompt=None if embedded else request.prompt,
        prompt_tokens=None if embedded else request.prompt_tokens,
        response_tokens=None if embedded else request.response_tokens,
        stream=request.stream,
    )
    sampling["benchmarks"] = {}  # each has its own mark, so that more of them are no other address
    identity = {"sampling": sampling, "source": sha256, "step": 0}
    mark = fingerprint(identity)
    paths = source.evaluation(request.evaluation.name, fingerprint(sampling)[:8], 0)
    spec = evaluate.EvaluationSpec(
        kind=evaluate.NAME,
        fingerprint=mark,
        target=evaluate.target(request.evaluation),
        identity=identity,
        source=between(paths.folder, source.folder),
        step=0,
        plugins=tuple(request.plugins) or None,
        evaluation=to_dict(request.evaluation),
        data={key: between(paths.folder, of) for key, of in data.items()},
        marks={
            name: fingerprint([mark, evaluate.benchmark_identity(request.evaluation, name)])
            for name in request.evaluation.benchmarks
        },
    )
    write_json(paths.spec, _with_former(spec, paths).as_json())
    return paths


def _task(request: Request, folder: Path) -> dict[str, Any] | None:
    """The task of the checkpoint's own run, where a benchmark is its held-out split."""
    own = [b.name for b in request.evaluation.benchmarks.values() if b.dataset is None]
    task = checkpoint.task_of(folder)
    if own and task is None:
        raise ValueError(
            f"benchmark {own[0]} is the held-out split of a sweep's task, but {folder} is no "
            "checkpoint of a sweep (<stage>/checkpoints/step-<n>): name such a checkpoint, or "
            "another benchmark"
        )
    return task if own else None


def _with_former(spec: evaluate.EvaluationSpec, paths: StagePaths) -> evaluate.EvaluationSpec:
    """The spec, with the benchmarks that were evaluated here before and are not asked for now."""
    if not paths.spec.exists():
        return spec
    old = read_spec_of(evaluate.EvaluationSpec, paths)
    former = {name: old.known[name] for name in old.known if name not in spec.asked.benchmarks}
    data = {name: old.data[name] for name in former if name in old.data}
    return replace(spec, former=former, data=data | spec.data)


def data_folder(root: Path, name: str, dataset: DatasetSpec) -> Path:
    """Where a benchmark's problems are; FileNotFoundError where they were never fetched."""
    folder = shared_data(root, dataset.name, dataset_stage(dataset).fingerprint)
    if not (StagePaths(folder).done.exists() and DataPaths(folder).problems.exists()):
        raise FileNotFoundError(
            f"benchmark {name} is not here (there is no {folder}): run `python -m evaluators fetch "
            f"{name}` on a machine that reaches its publisher; others only read it"
        )
    return folder


def expected_draws(paths: StagePaths) -> str:
    """What a run would draw, of a sweep's stage too; ValueError where a stage of that folder is no
    evaluation."""
    spec = read_spec_of(evaluate.EvaluationSpec, paths)
    evaluation, sizes = spec.eval_spec, dict[str, int]()
    lines = [f"checkpoint {checkpoint.named(*spec.looks_at)}, sampler {evaluation.sampler}"]
    for name, benchmark in evaluation.benchmarks.items():
        problems = load_problems(benchmark, spec.task, spec.data_folder(name))
        n_samples = evaluation.n_samples
        seeds = expected_seeds(problems, n_samples=n_samples, seed=spec.draw_seed)
        have = len(stored_draws(paths.benchmark(name), seeds)[0])
        sizes[name] = len(problems)
        asked = f"{name}: {len(problems)} problems x {n_samples} draws"
        if evaluation.design is None:
            left = max(len(problems) * n_samples - have, 0)
            lines.append(f"{asked}; {have:,} are there, {left:,} to make")
        else:
            lines.append(f"{asked} at most; {have:,} are there")
    graded = read_graded(paths, spec.fingerprint, sizes)
    lines += words(expected(evaluation, sizes, [graded]))
    return "\n".join([*lines, f"files: {paths.folder}"])


def elsewhere(request: Request) -> Path | None:
    """The interpreter that has vLLM; None where this one will do. FileNotFoundError without any."""
    if request.evaluation.sampler != "vllm" or find_spec("vllm") is not None:
        return None
    environment = of_sampler("vllm").environment
    python = Path(environment.interpreter(request))
    if not python.exists():
        raise FileNotFoundError(
            f"sampler=vllm, but vLLM is not installed here and there is no {python}: run `make "
            f"{environment.target(request.device)}`, name an interpreter with "
            "placement.python=<path>, or set sampler=transformers"
        )
    return python


def run_elsewhere(python: Path, paths: StagePaths, request: Request) -> int:
    """Run the stage with another interpreter, on this terminal; its exit code."""
    search = os.pathsep.join([str(REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [str(python), "-m", "evaluators", "run", str(paths.folder), "--bar"]
    command += ["--device", request.device, "--threads", str(request.threads)]
    command += ["--placement", json.dumps(to_dict(request.placement))]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the stage as well
    try:
        own = {"HF_HUB_OFFLINE": "1"} | os.environ | {"PYTHONPATH": search}  # `freeze` has fetched
        return subprocess.run(command, env=own).returncode
    finally:
        signal.signal(signal.SIGINT, before)
