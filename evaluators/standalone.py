"""An evaluation without a sweep: a checkpoint, some benchmarks, and a folder under evals/.

In: the overrides of `fgrpo-bench evaluate run checkpoint=...`. Out: a stage in the shape of a
sweep's, which `evaluate` runs here or with the interpreter that has vLLM.

<root>/evals/<name>/                                the checkpoint as a stage: spec.json, DONE.json
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import dataclasses as checked

from fgrpo_bench.core.commandline import CHECKOUT, INSTALLED, check_once
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data.fetch import CODE, check_model, has_chat_template, link, patterns
from fgrpo_bench.engines import of_sampler
from fgrpo_bench.engines.embedded.tokenizer import characters
from fgrpo_bench.files.paths import DataPaths, StagePaths, between, check_inside, shared_data
from fgrpo_bench.files.spec import StageSpec, read_spec, read_spec_of
from fgrpo_bench.files.whole import now, read_json, write_json
from fgrpo_bench.kinds import evaluate
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import (
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

from .sample import expected_seeds, stored_draws


def freeze(request: Request) -> StagePaths:
    """Find and check everything that the request names and write the stage's spec.json.

    Raises ValueError, FileNotFoundError or OSError with value, rule and remedy.
    """
    evals = request.root / "evals"
    trusted = request.trust_remote_code
    folder = locate_checkpoint(request.checkpoint, request.revision, trust_remote_code=trusted)
    embedded = request.evaluation.sampler == "embedded"
    _check_checkpoint(
        folder,
        sampler=request.evaluation.sampler,
        chat_template=request.prompt.chat_template,
        tokens=None if embedded else request.prompt_tokens + request.response_tokens,
        trust_remote_code=trusted,
    )
    task = _task(request, folder)
    data = {
        name: data_folder(request.root, name, benchmark.dataset)
        for name, benchmark in request.evaluation.benchmarks.items()
        if benchmark.dataset is not None
    }
    sha256 = weights_sha256(folder)
    name = request.name or _default_name(request.checkpoint, sha256)
    source = StagePaths(evals / name)
    check_inside(source.folder, evals)
    _adopt_checkpoint(folder, source, named=request.checkpoint)
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
    if trusted:
        code = {file.name: sha256_file(file) for file in folder.glob(CODE)}
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
        trust_remote_code=trusted,
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
    heldout = [b.name for b in request.evaluation.benchmarks.values() if b.dataset is None]
    task = _task_of(folder)
    if request.evaluation.sampler == "embedded" and not heldout:
        named = "" if task is None else f" (--data {task['name']})"
        raise ValueError(
            f"{folder} is a model of the built-in engine, which reads the characters of its own "
            f"task alone, and not {', '.join(request.evaluation.benchmarks)}: evaluate it on the "
            f"held-out problems of that task{named}, or name a model with a tokenizer for text"
        )
    if heldout and task is None:
        raise ValueError(
            f"benchmark {heldout[0]} is the held-out split of a sweep's task, but {folder} is no "
            "checkpoint of a sweep (<stage>/checkpoints/step-<n>): name such a checkpoint, or "
            "another benchmark"
        )
    return task if heldout else None


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
            f"benchmark {name} is not here (there is no {folder}): run `fgrpo-bench data "
            f"{name}` on a machine that reaches its publisher; others only read it"
        )
    return folder


def planned(paths: StagePaths) -> str:
    """What a run would draw, of a sweep's stage too; ValueError where a stage of that folder is no
    evaluation."""
    spec = read_spec_of(evaluate.EvaluationSpec, paths)
    evaluation = spec.eval_spec
    lines = [f"checkpoint {_checkpoint_name(*spec.looks_at)}, sampler {evaluation.sampler}"]
    for name, benchmark in evaluation.benchmarks.items():
        problems = load_problems(benchmark, spec.task, spec.data_folder(name))
        n_samples = evaluation.n_samples
        seeds = expected_seeds(problems, n_samples=n_samples, seed=spec.draw_seed)
        have = len(stored_draws(paths.benchmark(name), seeds)[0])
        asked = f"{name}: {len(problems)} problems x {n_samples} draws"
        if evaluation.stopping.is_fixed:
            left = max(len(problems) * n_samples - have, 0)
            lines.append(f"{asked}; {have:,} are there, {left:,} to make")
        else:
            lines.append(f"{asked} at most; {have:,} are there")
    if evaluation.stopping is not None:
        lines.append(f"design: {evaluation.stopping.words}")
    return "\n".join([*lines, f"files: {paths.folder}"])


def elsewhere(request: Request) -> Path | None:
    """The interpreter that has vLLM; None where this one will do. FileNotFoundError or
    ValueError without any."""
    if request.evaluation.sampler != "vllm" or find_spec("vllm") is not None:
        return None
    environment = of_sampler("vllm").environment
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
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the stage as well
    try:
        variables = {"PYTHONPATH": search, "FGRPO_RUN_ROOT": str(request.root.absolute())}
        environment = {"HF_HUB_OFFLINE": "1"} | os.environ | variables  # `freeze` has fetched
        return subprocess.run(command, env=environment).returncode
    finally:
        signal.signal(signal.SIGINT, before)


# The request: from overrides to a checked declaration.

CONFIG = "evaluate"
OF_EVALUATION = {field.name for field in fields(EvalSpec)} - {"name"}
"""Keys that stand for evaluation.<key>."""


@checked.dataclass(config=STRICT, frozen=True, kw_only=True)
class Request:
    """The evaluation of one checkpoint without a sweep."""

    plugins: Plugins
    """Modules that add to the tables (fgrpo_bench.core.registry)."""
    checkpoint: str
    """A folder, or an id of the Hugging Face Hub."""
    revision: str | None
    """Branch, tag or commit of a model on the Hub; null is the newest."""
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
    placement: Placement
    """How vLLM uses the machine."""

    def __post_init__(self) -> None:
        self.evaluation.check_device(self.device)

    @property
    def root(self) -> Path:
        """Folder of all runs."""
        return Path(self.run_root)


def load_request(overrides: Sequence[str]) -> Request:
    """The request that overrides make; ValueError names value, rule and remedy."""
    return config.validated(Request, configuration(overrides, {})[0])


def configuration(
    overrides: Sequence[str], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], frozenset[str]]:
    """conf/evaluate.yaml under overrides and settings by their whole key, and every key given.

    ValueError where the overrides cannot be applied or name no checkpoint.
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
    if on_gpu and not any(key.partition(".")[0] == "placement" for key in keys):
        given.append("placement=single-gpu")
    chosen = [word for word in given if word.startswith("evaluation=")]
    chosen += [word for word in given if word.startswith("plugins=")]
    shipped = list(
        config.compose(["checkpoint=x", *chosen], root=CONFIG)["evaluation"]["benchmarks"]
    )
    named = [name for word in given for name in _benchmarks(word)]
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
    evaluation["benchmarks"] = {name: evaluation["benchmarks"][name] for name in named or shipped}
    if any(key.partition(".")[0] == "prompt" for key in keys):  # then it is that of all
        for benchmark in evaluation["benchmarks"].values():
            benchmark["prompt"] = None
    if "evaluation.ks" not in keys and isinstance(evaluation["n_samples"], int):
        evaluation["ks"] = [k for k in evaluation["ks"] if k <= evaluation["n_samples"]]
    return composed, keys


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
    if head == "design" and assignment.partition("=")[2] in config.options("design"):
        return f"+design@evaluation.{assignment}"
    return f"{sign}evaluation.{assignment}" if head in OF_EVALUATION else override


def _benchmarks(override: str) -> list[str]:
    """The names in benchmarks=[a,b]; ValueError for one that is none, with those near it."""
    key, _, value = override.partition("=")
    if key != "evaluation.benchmarks":
        return []
    valid = config.options("benchmark")
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
        wanted = patterns(trusted=trust_remote_code)
        return Path(snapshot_download(checkpoint, revision=revision, allow_patterns=wanted))
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


def _task_of(folder: Path) -> dict[str, Any] | None:
    """The task of the run that a checkpoint belongs to; None where it belongs to none."""
    stage = StagePaths(folder.resolve().parents[1])
    if folder.resolve().parent.name != "checkpoints" or not stage.spec.exists():
        return None
    return trained_with(stage, "task")


def _adopt_checkpoint(folder: Path, paths: StagePaths, *, named: str) -> str:
    """Let a stage's checkpoint 0 be this folder; returns the digest of the weights.

    ValueError where the stage has been that of other weights.
    """
    sha256 = weights_sha256(folder)
    if paths.done.exists():
        known = read_marker(paths).weights_sha256
        if known != sha256:
            raise ValueError(
                f"{paths.folder} belongs to weights with sha256 {known}, but those of {named} have "
                f"{sha256}: they were changed, or it is another model; give it another name=, or "
                "move that folder away"
            )
        if not paths.checkpoint(0).exists():  # the model or the runs were moved since
            link(folder, paths)
        return sha256
    link(folder, paths)
    mark = fingerprint({"weights_sha256": sha256})
    spec = AdoptedSpec(kind=ADOPTED, fingerprint=mark, target={}, path=named)
    write_json(paths.spec, spec.as_json())
    marker = Marker(
        fingerprint=mark, target={}, finished=now(), outputs={}, step=0, weights_sha256=sha256
    )
    write_marker(paths, marker)
    return sha256


def _checkpoint_name(stage: StagePaths, step: int) -> str:
    """What a checkpoint was called when it was adopted; its folder where a stage here makes it."""
    spec = read_spec(stage)
    if spec.kind != ADOPTED:
        return str(stage.checkpoint(step))
    return spec.of(AdoptedSpec).path


def _default_name(checkpoint: str, sha256: str) -> str:
    """e.g. `qwen2.5-7b-1f0a52c3`: the last part of the path, or two where it is a step."""
    parts = [part for part in Path(checkpoint).parts if part not in ("/", ".", "..", "checkpoints")]
    last = parts[-2:] if parts[-1].startswith("step-") else parts[-1:]
    return f"{slug('-'.join(last), 48) or 'checkpoint'}-{sha256[:8]}"


def slug(text: str, longest: int) -> str:
    """A text as part of a folder's name; empty where nothing of it can be."""
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:longest]
