"""An evaluation without a sweep: a checkpoint, some benchmarks, and a folder under evals/.

In: the overrides of `fgrpo-bench evaluate run checkpoint=...`. Out: a stage in the shape of a
sweep's, which `evaluate` runs here or with the interpreter that has vLLM.

<root>/evals/<name>/                                the checkpoint as a stage: spec.json, DONE.json,
                                                    a link to an adapter over it
<root>/evals/<name>/eval/alone-<fp8>/step-00000/    the evaluation, in the shape of a sweep's

Another temperature, prompt, dtype, stream or sampler is another <fp8>; more benchmarks or draws are
not.

Three parts: the stage that a request becomes; the request, from overrides; the checkpoint that it
names, found or fetched, checked, and put where a stage's would be.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import polars as pl
from pydantic import dataclasses as checked

from fgrpo_bench.analysis.by_value import named_partitions
from fgrpo_bench.core.commandline import CHECKOUT, INSTALLED, check_once
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data import problem_columns
from fgrpo_bench.data.fetch import CODE, check_model, has_chat_template, link, patterns
from fgrpo_bench.engines import engine_for_sampler
from fgrpo_bench.engines.embedded.tokenizer import characters
from fgrpo_bench.files.paths import DataPaths, StagePaths, between, check_inside, shared_data
from fgrpo_bench.files.spec import StageSpec, read_spec, read_spec_as
from fgrpo_bench.files.whole import now, point_to, read_json, write_json
from fgrpo_bench.kinds import evaluate
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import (
    BenchmarkSpec,
    DatasetSpec,
    EvalSpec,
    Placement,
    PromptSpec,
    TaskSpec,
    config,
    from_dict,
    to_dict,
)
from fgrpo_bench.specs.base import STRICT, FolderName, Plugins, Positive, Seed
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.stored import trained_with
from fgrpo_bench.stages.digests import sha256_file, weights_sha256
from fgrpo_bench.stages.markers import Marker, read_marker, write_marker

from .adapter import ADAPTER, adapter_sha256, check_adapter
from .endpoint import served_model
from .records import check_few_shot
from .sample import expected_seeds, stored_draws


def freeze(request: Request) -> StagePaths:
    """Find and check everything that the request names and write the stage's spec.json.

    Raises ValueError, FileNotFoundError or OSError with value, rule and remedy.
    """
    evaluation = request.evaluation
    is_asked_as_task = evaluation.sampler == "embedded"
    model = _model_source(request)
    task = _task(request, model.folder)
    data = {
        name: data_folder(request.root, name, benchmark.dataset)
        for name, benchmark in evaluation.benchmarks.items()
        if benchmark.dataset is not None
    }
    for name, benchmark in evaluation.benchmarks.items():
        if evaluation.few_shot is not None:
            check_few_shot(evaluation.few_shot, load_problems(benchmark, task, data.get(name)))
    evals = request.root / "evals"
    source = StagePaths(evals / (request.name or model.name))
    check_inside(source.folder, evals)
    _adopt(model, source)
    sampling = evaluate.sampling_identity(
        evaluation,
        task=None if task is None else from_dict(TaskSpec, task),
        prompt=None if is_asked_as_task else request.prompt,
        # a server refuses prompts that are too long for it, whose tokens nobody counts here
        prompt_tokens=None if is_asked_as_task or model.folder is None else request.prompt_tokens,
        response_tokens=None if is_asked_as_task else request.response_tokens,
        stream=request.stream,
    )
    sampling |= model.sampling
    sampling["benchmarks"] = {}  # each has its own mark, so that more of them are no other address
    identity: dict[str, Any] = {"sampling": sampling, "source": model.sha256, "step": 0}
    if request.trust_remote_code and model.folder is not None:
        code = {file.name: sha256_file(file) for file in model.folder.glob(CODE)}
        identity["remote_code"] = fingerprint(code)
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
        trust_remote_code=request.trust_remote_code,
        evaluation=to_dict(request.evaluation),
        data={key: between(paths.folder, path) for key, path in data.items()},
        marks={
            name: fingerprint([mark, evaluate.benchmark_identity(request.evaluation, name)])
            for name in request.evaluation.benchmarks
        },
    )
    write_json(paths.spec, _with_former(spec, paths).as_json())
    return paths


def _task(request: Request, folder: Path | None) -> dict[str, Any] | None:
    """The task of the checkpoint's own run, where a benchmark is its held-out split; a server's
    model (None) has none."""
    heldout = [b.name for b in request.evaluation.benchmarks.values() if b.dataset is None]
    task = None if folder is None else _recorded_task(folder)
    if request.evaluation.sampler == "embedded" and not heldout:
        named = "" if task is None else f" (--data {task['name']})"
        raise ValueError(
            f"{folder} is a model of the built-in engine, which reads the characters of its own "
            f"task alone, and not {', '.join(request.evaluation.benchmarks)}: evaluate it on the "
            f"held-out problems of that task{named}, or name a model with a tokenizer for text"
        )
    if heldout and task is None:
        raise ValueError(
            f"benchmark {heldout[0]} is the held-out split of a sweep's task, but "
            f"{folder or request.checkpoint} is no "
            "checkpoint of a sweep (<stage>/checkpoints/step-<n>): name such a checkpoint, or "
            "another benchmark"
        )
    return task if heldout else None


def _with_former(spec: evaluate.EvaluationSpec, paths: StagePaths) -> evaluate.EvaluationSpec:
    """The spec, with the benchmarks that were evaluated here before and are not asked for now."""
    if not paths.spec.exists():
        return spec
    old = read_spec_as(evaluate.EvaluationSpec, paths)
    former = {
        name: old.all_benchmarks[name]
        for name in old.all_benchmarks
        if name not in spec.stored_evaluation.benchmarks
    }
    data = {name: old.data[name] for name in former if name in old.data}
    return replace(spec, former=former, data=data | spec.data)


def data_folder(root: Path, name: str, dataset: DatasetSpec) -> Path:
    """Where a benchmark's problems are; FileNotFoundError where they were never fetched."""
    folder = shared_data(root, dataset.name, dataset_stage(dataset).fingerprint)
    if not (StagePaths(folder).done.exists() and DataPaths(folder).problems.exists()):
        raise FileNotFoundError(
            f"benchmark {name} is not here (there is no {folder}): run `fgrpo-bench data "
            f"{name}` on a machine that reaches its publisher; others only read it"
        )
    return folder


def check_column(by: str, benchmarks: Mapping[str, BenchmarkSpec], root: Path) -> None:
    """Raises as fgrpo_bench.analysis.by_value.named_partitions, before anything is drawn."""
    columns, problems = dict[str, pl.DataFrame | None](), dict[str, list[str]]()
    for name, benchmark in benchmarks.items():
        columns[name], problems[name] = None, []
        if benchmark.dataset is not None:
            folder = data_folder(root, name, benchmark.dataset)
            columns[name] = problem_columns(folder)
            problems[name] = [
                problem.problem_id for problem in load_problems(benchmark, None, folder)
            ]
    named_partitions(by, columns, problems)


@dataclass(frozen=True, kw_only=True)
class PlannedDraws:
    """What a run would draw, as a person reads it (`str`) or a program."""

    checkpoint: str
    sampler: str
    benchmarks: Sequence[dict[str, Any]]
    """Of each its name, n_problems, n_samples, how many draws are there, and how many are to make;
    None where problems stop early."""
    design: str
    """In words; empty where every problem has as many draws."""
    folder: Path

    def as_json(self) -> dict[str, Any]:
        return vars(self)

    def __str__(self) -> str:
        lines = [f"checkpoint {self.checkpoint}, sampler {self.sampler}"]
        for of in self.benchmarks:
            asked = f"{of['benchmark']}: {of['n_problems']} problems x {of['n_samples']} draws"
            if of["to_make"] is None:
                lines.append(f"{asked} at most; {of['stored']:,} are there")
            else:
                lines.append(f"{asked}; {of['stored']:,} are there, {of['to_make']:,} to make")
        lines += [f"design: {self.design}"] if self.design else []
        return "\n".join([*lines, f"files: {self.folder}"])


def planned(paths: StagePaths) -> PlannedDraws:
    """What a run would draw, of a sweep's stage too; ValueError where a stage of that folder is no
    evaluation."""
    spec = read_spec_as(evaluate.EvaluationSpec, paths)
    evaluation = spec.eval_spec
    benchmarks = []
    for name, benchmark in evaluation.benchmarks.items():
        problems = load_problems(benchmark, spec.task, spec.data_folder(name))
        n_samples = evaluation.n_samples
        seeds = expected_seeds(problems, n_samples=n_samples, seed=spec.draw_seed)
        have = len(stored_draws(paths.benchmark(name), seeds)[0])
        to_make = max(len(problems) * n_samples - have, 0)
        benchmarks.append(
            {
                "benchmark": name,
                "n_problems": len(problems),
                "n_samples": n_samples,
                "stored": have,
                # How many draws a design that stops makes is known only as they are graded.
                "to_make": to_make if evaluation.stopping.is_fixed else None,
            }
        )
    return PlannedDraws(
        checkpoint=_checkpoint_name(*spec.looks_at),
        sampler=evaluation.sampler,
        benchmarks=benchmarks,
        design=evaluation.stopping.text,
        folder=paths.folder,
    )


def elsewhere(request: Request) -> Path | None:
    """The interpreter that has vLLM; None where this one will do. FileNotFoundError or
    ValueError without any."""
    if request.evaluation.sampler != "vllm" or find_spec("vllm") is not None:
        return None
    environment = engine_for_sampler("vllm").environment
    if INSTALLED:
        raise ValueError(
            "sampler=vllm, but vLLM is not installed here: install it beside fgrpo-bench, or set "
            "sampler=transformers; from another environment it draws in a checkout of fgrpo-bench"
        )
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
    search = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [str(python), "-m", "evaluators", "run", str(paths.folder), "--bar"]
    command += ["--device", request.device, "--threads", str(request.threads)]
    command += ["--placement", json.dumps(to_dict(request.placement))]
    if request.batch_size is not None:
        command += ["--batch-size", str(request.batch_size)]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the stage as well
    try:
        variables = {"PYTHONPATH": search, "FGRPO_RUN_ROOT": str(request.root.absolute())}
        environment = {"HF_HUB_OFFLINE": "1"} | os.environ | variables  # `freeze` has fetched
        # where the result is JSON, what is printed there stands beside it (application.aside)
        out = sys.stderr if sys.stdout is sys.stderr else None
        return subprocess.run(command, env=environment, stdout=out).returncode
    finally:
        signal.signal(signal.SIGINT, before)


# The request: from overrides to a checked declaration.

CONFIG = "evaluate"
EVALUATION_KEYS = {field.name for field in fields(EvalSpec)} - {"name"}
"""Keys that stand for evaluation.<key>."""


@checked.dataclass(config=STRICT, frozen=True, kw_only=True)
class Request:
    """The evaluation of one checkpoint without a sweep."""

    plugins: Plugins
    """Modules that add to the tables (fgrpo_bench.core.registry)."""
    checkpoint: str
    """A folder, an id of the Hugging Face Hub, or the name of a server's model."""
    revision: str | None
    """Branch, tag or commit of a model on the Hub; null is the newest."""
    endpoint: str | None
    """Address of a server that has the model, of which `checkpoint` is the name there; null is
    none."""
    peft: str | None
    """Folder of an adapter over the checkpoint; null is none."""
    trust_remote_code: bool
    """Whether code that the model or its tokenizer brings (auto_map) may run, with your rights."""
    name: FolderName | None
    """Folder under evals/; null is the checkpoint's name with the digest of its weights."""
    run_root: str
    """Folder of all runs."""
    evaluation: EvalSpec
    """Benchmarks and sampling."""
    prompt: PromptSpec
    """How a problem becomes what the model reads."""
    prompt_tokens: Positive
    """Longest prompt."""
    response_tokens: Positive
    """Longest response."""
    stream: Seed
    """Which random numbers the draws are made with; checkpoints that share one are compared with
    paired draws. 0 unless another is asked for; in a sweep it is the training seed."""
    device: Literal["cpu", "cuda"]
    """Where it computes."""
    threads: Positive
    """Threads of torch."""
    batch_size: Positive | None
    """Draws at once, or requests to a server; null is the sampler's own number. No part of what
    draws follow from."""
    placement: Placement
    """How vLLM uses the machine."""

    def __post_init__(self) -> None:
        self.evaluation.check_device(self.device)
        if (self.endpoint is None) == (self.evaluation.sampler == "endpoint"):
            raise ValueError(
                f"sampler={self.evaluation.sampler} with endpoint={self.endpoint or 'null'}: a "
                "server (--endpoint) draws by sampler=endpoint alone; leave --sampler out, or name "
                "the server"
            )

    @property
    def root(self) -> Path:
        """Folder of all runs."""
        return Path(self.run_root)


def load_request(overrides: Sequence[str]) -> Request:
    """The request that overrides make; ValueError names value, rule and remedy."""
    return config.validated(Request, configuration(overrides, {})[0])


def configuration(
    overrides: Sequence[str], settings: Mapping[str, Any], *, n_samples: int | None = None
) -> tuple[dict[str, Any], frozenset[str]]:
    """conf/evaluate.yaml under overrides and settings by their whole key, and every key given.

    n_samples: draws of a problem where no number is given and more than one can differ; None is
    that of conf/evaluate.yaml. ValueError where the overrides cannot be applied or name no
    checkpoint.
    """
    given = [_full(word) for word in overrides]
    check_once(overrides, key_of)
    keys = frozenset([*map(key_of, overrides), *settings])
    if "checkpoint" not in keys:
        raise ValueError(
            "no checkpoint=<folder or id of the Hub> is given: say what is to be evaluated, e.g. "
            "checkpoint=Qwen/Qwen2.5-7B"
        )
    on_gpu = settings.get("device") == "cuda" or "device=cuda" in given
    if on_gpu and "placement" not in keys:
        given.append("placement=single-gpu")
    named = [name for word in given for name in _benchmarks(word)]
    files = [word for word in given if word.startswith(("evaluation=", "plugins="))]
    shipped = _shipped(*files) if named else ()
    given = [word for word in given if not word.startswith("evaluation.benchmarks=")]
    more = [f"+benchmark@evaluation.benchmarks.{name}={name}" for name in named]
    added = [word for word, name in zip(more, named, strict=True) if name not in shipped]
    composed = config.compose([*added, *given], root=CONFIG)
    for key, value in settings.items():
        *groups, name = key.split(".")
        node = composed
        for group in groups:
            node = node[group]
        node[name] = value
    evaluation: dict[str, Any] = composed["evaluation"]
    evaluation["name"] = "alone"
    if composed["endpoint"] is not None and "evaluation.sampler" not in keys:
        evaluation["sampler"] = "endpoint"
        if "evaluation.dtype" not in keys:
            evaluation["dtype"] = None
    if "evaluation.n_samples" not in keys:
        if evaluation["temperature"] == 0:  # all greedy draws of a problem are one
            evaluation["n_samples"] = 1
        elif n_samples is not None:
            evaluation["n_samples"] = n_samples
    if named:
        evaluation["benchmarks"] = {name: evaluation["benchmarks"][name] for name in named}
    if any(key.partition(".")[0] == "prompt" for key in keys):  # then it is that of all
        for benchmark in evaluation["benchmarks"].values():
            benchmark["prompt"] = None
    if "evaluation.ks" not in keys and isinstance(evaluation["n_samples"], int):
        evaluation["ks"] = [k for k in evaluation["ks"] if k <= evaluation["n_samples"]]
    return composed, keys


@cache  # composing takes longer than all else of a request
def _shipped(*files: str) -> tuple[str, ...]:
    """The benchmarks that conf/evaluate.yaml has with the files that overrides choose."""
    composed = config.compose(["checkpoint=x", *files], root=CONFIG)
    return tuple(composed["evaluation"]["benchmarks"])


def key_of(override: str) -> str:
    """The whole key that an override sets."""
    return _full(override).lstrip("+~").partition("=")[0]


def _full(override: str) -> str:
    """An override with its whole key, e.g. n_samples=64 -> evaluation.n_samples=64; design=staged
    is the file of that name."""
    if "=" not in override:
        raise ValueError(f"{override!r} is no override: write key=value, e.g. n_samples=64")
    if "/" in override.partition("=")[0] and "@" not in override and "hydra/" not in override:
        raise ValueError(f"{override} is no file or folder here, and no override (key=value)")
    sign, assignment = re.fullmatch(r"([+~]*)(.*)", override, re.DOTALL).groups()  # type: ignore[union-attr]
    head = re.split(r"[.=]", assignment, maxsplit=1)[0]
    if head == "design" and assignment.partition("=")[2] in config.option_names("design"):
        return f"+design@evaluation.{assignment}"
    return f"{sign}evaluation.{assignment}" if head in EVALUATION_KEYS else override


def _benchmarks(override: str) -> list[str]:
    """The names in benchmarks=[a,b]; ValueError for one that is none, with those near it."""
    key, _, value = override.partition("=")
    if key != "evaluation.benchmarks":
        return []
    valid = config.option_names("benchmark")
    names = [name.strip(" '\"") for name in value.strip("[] ").split(",") if name.strip(" '\"")]
    for name in names:
        if name not in valid:
            near = difflib.get_close_matches(name, valid, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            raise ValueError(
                f"unknown benchmark {name!r}: {hint}Valid ones are {', '.join(valid)} (the files "
                "of conf/benchmark/)"
            )
    return list(dict.fromkeys(names))


# The checkpoint: found or fetched, checked, and put where a stage's would be.

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ADOPTED = "checkpoint"
"""Kind of a stage that somebody's checkpoint stands for."""


@dataclass(frozen=True, kw_only=True)
class AdoptedSpec(StageSpec):
    """spec.json of such a stage."""

    path: str
    """What it was called when it was adopted."""


TRUST = "give --trust-remote-code"
"""How an evaluation says that code of a model's own may run."""


def locate_checkpoint(checkpoint: str, revision: str | None, *, trust_remote_code: bool) -> Path:
    """The folder of a checkpoint; one of the Hub is fetched into the Hub's own cache, which all
    tools of a machine share, and is read there where the Hub is not reached.

    FileNotFoundError where there is none, OSError where the Hub does not give it, ValueError for a
    revision of a folder.
    """
    folder = Path(checkpoint)
    if folder.is_dir():
        if revision is not None:
            raise ValueError(
                f"revision={revision} is of a model on the Hub, but {checkpoint} is a folder here: "
                "leave it out"
            )
        return folder.absolute()
    models = sorted(str(config.parent) for config in folder.parent.glob("*/config.json"))
    near = suggestion(checkpoint, models)
    if not HUB_ID.fullmatch(checkpoint):
        raise FileNotFoundError(
            f"checkpoint {checkpoint} is no folder and no id of the Hub (organisation/model)"
            f"{near}: give the folder that holds config.json and *.safetensors, e.g. out/my-model, "
            "or an id, e.g. Qwen/Qwen2.5-7B"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        file_patterns = patterns(trusted=trust_remote_code)
        return Path(snapshot_download(checkpoint, revision=revision, allow_patterns=file_patterns))
    except GatedRepoError as error:
        raise PermissionError(
            f"checkpoint {checkpoint} is gated: accept its terms at "
            f"https://huggingface.co/{checkpoint} and set HF_TOKEN to a token of that account"
        ) from error
    except RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f"checkpoint {checkpoint} is no folder here and no model of the Hub{near}: check "
            "the name; a private model needs HF_TOKEN"
        ) from error
    except Exception as error:  # whatever the client and its transport may raise
        raise OSError(
            f"checkpoint {checkpoint} is no folder here{near}, not in the Hub's cache (HF_HOME) "
            f"and cannot be fetched ({str(error).splitlines()[0]}): run this where the Hub is "
            "reached (HF_ENDPOINT names a mirror), or give a folder"
        ) from error


def _check_checkpoint(
    folder: Path,
    *,
    sampler: str,
    chat_template: bool,
    tokens: int | None,
    trust_remote_code: bool,
) -> None:
    """ValueError where a sampler cannot use a checkpoint.

    tokens: of the longest prompt and response together; None under the embedded engine.
    """
    check_model(folder, chat_template=False, trust_remote_code=trust_remote_code, trust=TRUST)
    config = read_json(folder / "config.json")
    named = config.get("architectures") or ["none"]
    if sampler == "embedded" and not is_embedded(folder):
        raise ValueError(
            f"{folder} is a {named[0]} with a tokenizer of its own: sampler=embedded reads only "
            "checkpoints of the embedded engine; set sampler=vllm or sampler=transformers"
        )
    if not named[0].endswith("ForCausalLM"):
        raise ValueError(
            f"{folder} is a {named[0]}: only a causal language model (...ForCausalLM in "
            "config.json) can be sampled; name another checkpoint"
        )
    if sampler != "embedded" and chat_template and not has_chat_template(folder):
        raise ValueError(
            f"the tokenizer in {folder} has no chat template (chat_template.jinja, or the key "
            "chat_template of tokenizer_config.json): add one, or set prompt=plain"
        )
    context = config.get("max_position_embeddings")
    if tokens is not None and context is not None and tokens > context:
        raise ValueError(
            f"prompt_tokens and response_tokens are {tokens} together, but the context of {folder} "
            f"is {context} tokens (max_position_embeddings): lower response_tokens (--max-tokens)"
        )


def is_embedded(folder: Path) -> bool:
    """Whether a model is one of the embedded engine, by its tokenizer."""
    return characters(folder) is not None


def _recorded_task(folder: Path) -> dict[str, Any] | None:
    """The task of the run that a checkpoint belongs to; None where it belongs to none."""
    stage = StagePaths(folder.resolve().parents[1])
    if folder.resolve().parent.name != "checkpoints" or not stage.spec.exists():
        return None
    return trained_with(stage, "task")


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """What is evaluated."""

    called: str
    """By whoever asked."""
    name: str
    """Folder under evals/ where no other is given."""
    sha256: str | None
    """Of the weights, without an adapter; None of a model that a server has."""
    sampling: dict[str, Any]
    """What else of it changes a draw."""
    folder: Path | None
    """None of a model that a server has."""
    adapter: Path | None = None

    @property
    def mark(self) -> str:
        """Digest of all that it is."""
        weights = {} if self.sha256 is None else {"weights_sha256": self.sha256}
        return fingerprint(weights | self.sampling)


def _model_source(request: Request) -> ModelSource:
    """What a request names, found or fetched, and checked; raises as `freeze`."""
    if request.endpoint is not None:
        served = served_model(request.endpoint, request.checkpoint)
        digest = fingerprint(served.identity)
        return ModelSource(
            called=f"{served.model} of {served.url}",
            name=_default_name(served.model, digest),
            sha256=None,
            sampling={"served": served.identity},
            folder=None,
        )
    trusted = request.trust_remote_code
    folder = locate_checkpoint(request.checkpoint, request.revision, trust_remote_code=trusted)
    sampler = request.evaluation.sampler
    adapter = None if request.peft is None else Path(request.peft).absolute()
    if adapter is not None:
        check_adapter(adapter, sampler=sampler)
    embedded = sampler == "embedded"
    _check_checkpoint(
        folder,
        sampler=sampler,
        chat_template=request.prompt.chat_template,
        tokens=None if embedded else request.prompt_tokens + request.response_tokens,
        trust_remote_code=trusted,
    )
    sha256 = weights_sha256(folder)
    if adapter is None:
        name = _default_name(request.checkpoint, sha256)
        return ModelSource(
            called=request.checkpoint, name=name, sha256=sha256, sampling={}, folder=folder
        )
    sampling = {"peft": adapter_sha256(adapter)}
    both = fingerprint({"weights_sha256": sha256} | sampling)
    return ModelSource(
        called=f"{request.checkpoint} with {request.peft}",
        name=_default_name(f"{Path(request.checkpoint).name}-{adapter.name}", both),
        sha256=sha256,
        sampling=sampling,
        folder=folder,
        adapter=adapter,
    )


def _adopt(model: ModelSource, paths: StagePaths) -> None:
    """Let a stage's checkpoint 0 be what is evaluated, and its adapter beside it.

    ValueError where the stage has been that of something else.
    """
    if paths.done.exists():
        marker = read_marker(paths)
        if marker.fingerprint != model.mark:
            was = f"weights with sha256 {marker.weights_sha256}"
            now_is = f"those of {model.called} have {model.sha256}"
            if marker.weights_sha256 == model.sha256:
                was, now_is = _checkpoint_name(paths, 0), f"this is {model.called}"
            raise ValueError(
                f"{paths.folder} belongs to {was}, but {now_is}: they were changed, or it is "
                "another model; give it another name=, or move that folder away"
            )
    is_known, adapter = paths.done.exists(), paths.folder / ADAPTER
    # a folder that is known and not there: the model or the runs were moved since
    if model.folder is not None and not (is_known and paths.checkpoint(0).exists()):
        link(model.folder, paths)
    if model.adapter is not None and not (is_known and adapter.exists()):
        point_to(adapter, model.adapter)
    if is_known:
        return
    spec = AdoptedSpec(kind=ADOPTED, fingerprint=model.mark, target={}, path=model.called)
    write_json(paths.spec, spec.as_json())
    marker = Marker(
        fingerprint=model.mark,
        target={},
        finished=now(),
        outputs={},
        step=0,
        weights_sha256=model.sha256,
    )
    write_marker(paths, marker)


def _checkpoint_name(stage: StagePaths, step: int) -> str:
    """What a checkpoint was called when it was adopted; its folder where a stage here makes it."""
    spec = read_spec(stage)
    if spec.kind != ADOPTED:
        return str(stage.checkpoint(step))
    return spec.as_kind(AdoptedSpec).path


def _default_name(checkpoint: str, sha256: str) -> str:
    """e.g. `qwen2.5-7b-1f0a52c3`: the last part of the path, or two where it is a step."""
    parts = [part for part in Path(checkpoint).parts if part not in ("/", ".", "..", "checkpoints")]
    last = parts[-2:] if parts[-1].startswith("step-") else parts[-1:]
    return f"{slug('-'.join(last), 48) or 'checkpoint'}-{sha256[:8]}"


def slug(text: str, longest: int) -> str:
    """A text as part of a folder's name; empty where nothing of it can be."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:longest]
