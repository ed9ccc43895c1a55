"""`fgrpo-bench evaluate MODEL --data mine.jsonl`: what its words ask for, as one request.

In: a model, problems and some options, all but the first two with a default that is looked up: the
columns in the file, the sampler by what is installed, the prompt by the tokenizer. Out: the request
(evaluators.standalone) and what was chosen, in lines for a person. No YAML is read but the shipped
one. Next: evaluators.standalone, which freezes the request as a stage.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fgrpo_bench.command.runs import default_root
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data import DatasetLock, dataset_problems
from fgrpo_bench.data.columns import columns_of, file_dataset
from fgrpo_bench.data.fetch import check_model, has_chat_template
from fgrpo_bench.data.rows import SUFFIXES
from fgrpo_bench.engines import of_sampler
from fgrpo_bench.files.whole import read_json, read_record
from fgrpo_bench.graders import BOX_SUFFIX, BOX_SYSTEM, BOXED, GRADERS, function
from fgrpo_bench.specs import BenchmarkSpec, config, to_dict
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.tables import PROBLEMS, read_table

from . import fetch
from .standalone import CONFIG, Request, is_embedded, locate_checkpoint, slug

GRADER = "math"
"""What judges where nothing is said."""
N_SAMPLES = 16
"""Draws of a problem where no number is given: enough for a first look at pass@8."""
PROMPT_TOKENS, RESPONSE_TOKENS = 1024, 4096
"""Longest prompt and response where the model's context has room for both."""
PARTS, ENOUGH = 16, 8
"""Of --staged: the share of n that is drawn first, and the correct draws that stop a problem; as
conf/design/staged.yaml."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """The words of the command; None is what is looked up."""

    model: str
    data: Sequence[str]
    prompt: str | None = None
    answer: str | None = None
    grader: str | None = None
    n_samples: int = N_SAMPLES
    max_tokens: int | None = None
    max_prompt_tokens: int | None = None
    temperature: float = 1.0
    system: str | None = None
    suffix: str | None = None
    staged: bool = False
    limit: int | None = None
    cluster: str | None = None
    sampler: str | None = None
    device: str | None = None
    threads: int = 1
    name: str | None = None
    seed: int = 0


def request_of(options: Options) -> tuple[Request, list[str]]:
    """The request and what was chosen for it; ValueError, FileNotFoundError or OSError with value,
    rule and remedy before anything is loaded."""
    root = default_root()
    said: list[str] = []
    for option, number in {
        "-n": options.n_samples,
        "--limit": options.limit,
        "--max-tokens": options.max_tokens,
        "--max-prompt-tokens": options.max_prompt_tokens,
    }.items():
        if number is not None and number < 1:
            raise ValueError(f"{option} {number}: give a number of at least 1")
    folder = locate_checkpoint(options.model, None)
    check_model(folder, chat_template=False)
    benchmarks = {
        benchmark.name: benchmark
        for word in options.data
        for benchmark in (_benchmark(word, options, root, said),)
    }
    device = options.device or ("cuda" if _has_gpu() else "cpu")
    sampler = options.sampler or _sampler(folder, device, said)
    composed = config.compose(
        ["checkpoint=x", *(["placement=single-gpu"] if device == "cuda" else [])], root=CONFIG
    )
    evaluation = composed["evaluation"]
    n = options.n_samples
    evaluation |= {
        "name": "alone",
        "sampler": sampler,
        "benchmarks": {name: to_dict(of) for name, of in benchmarks.items()},
        "n_samples": n,
        "design": staged_design(n) if options.staged else None,
        "ks": [k for k in evaluation["ks"] if k <= n],
        "temperature": options.temperature,
        "dtype": "bfloat16" if device == "cuda" and sampler != "embedded" else "float32",
        "seed": options.seed,
    }
    if options.system is not None or options.suffix is not None:
        for benchmark in evaluation["benchmarks"].values():
            benchmark["prompt"] = None  # then it is that of all
    graders = {benchmark.grader for benchmark in benchmarks.values()}
    composed |= {
        "checkpoint": options.model,
        "run_root": str(root),
        "name": options.name,
        "device": device,
        "threads": options.threads,
    }
    if sampler != "embedded":
        composed["prompt"] = _prompt(folder, options, not graders.isdisjoint(BOXED), said)
        composed |= _lengths(folder, options, said)
    return config.validated(Request, composed), said


def staged_design(n_samples: int) -> dict[str, Any]:
    """Stages that double up to n_samples, from a sixteenth of it on, and ENOUGH."""
    sizes = {math.ceil(n_samples / 2**i) for i in range(int(math.log2(PARTS)) + 1)}
    return {"stages": sorted(sizes), "enough": ENOUGH}


def _has_gpu() -> bool:
    """By the driver's own program, since importing torch takes seconds."""
    return shutil.which("nvidia-smi") is not None


def _sampler(folder: Path, device: str, said: list[str]) -> str:
    if is_embedded(folder):
        said.append("sampler: embedded, as the model is one of the built-in engine")
        return "embedded"
    here = SimpleNamespace(device=device, placement=SimpleNamespace(python=None))
    elsewhere = Path(of_sampler("vllm").environment.interpreter(here))
    has_vllm = find_spec("vllm") is not None or elsewhere.exists()
    if device == "cuda" and has_vllm:
        said.append("sampler: vllm, which is installed, on the GPU")
        return "vllm"
    why = "no GPU is here" if device == "cpu" else "vLLM is not installed"
    said.append(f"sampler: transformers, on the {'GPU' if device == 'cuda' else 'CPU'} ({why})")
    if find_spec("transformers") is None:
        raise ValueError(
            "neither vLLM nor transformers is installed here: run `make setup`, or name a sampler "
            "whose environment is installed with --sampler"
        )
    return "transformers"


def _prompt(folder: Path, options: Options, boxed: bool, said: list[str]) -> dict[str, Any]:
    """boxed: whether a grader looks for a box."""
    templated = has_chat_template(folder)
    if options.system is not None and not templated:
        raise ValueError(
            f"--system is given, but the tokenizer in {folder} has no chat template, which alone "
            "has a place for it: put the words after each problem with --suffix, or add a "
            "chat_template.jinja to the model"
        )
    system, suffix = options.system, options.suffix
    if boxed and system is None and suffix is None:
        system, suffix = (BOX_SYSTEM, None) if templated else (None, BOX_SUFFIX)
    words = [f"system message {system!r}"] if system is not None else []
    words += [f"after each problem {suffix!r}"] if suffix is not None else []
    how = "the tokenizer's chat template" if templated else "the problem as it stands (no template)"
    said.append(", ".join([f"prompt: {how}", *words]))
    return {"chat_template": templated, "system": system, "suffix": suffix}


def _lengths(folder: Path, options: Options, said: list[str]) -> dict[str, int]:
    """The longest prompt and response that the model's context has room for."""
    context = read_json(folder / "config.json").get("max_position_embeddings")
    response = options.max_tokens or RESPONSE_TOKENS
    prompt = options.max_prompt_tokens or PROMPT_TOKENS
    if isinstance(context, int) and prompt + response > context:
        if options.max_tokens is None:
            response = max(min(response, context - (options.max_prompt_tokens or context // 2)), 1)
        if options.max_prompt_tokens is None:
            prompt = context - response
        if prompt < 1 or prompt + response > context:
            raise ValueError(
                f"prompts and responses of {prompt + response if prompt > 0 else response} tokens: "
                f"the context of {folder} is {context} tokens (max_position_embeddings) for both; "
                "lower --max-tokens or --max-prompt-tokens"
            )
    said.append(f"length: prompts of up to {prompt} tokens, responses of up to {response}")
    return {"prompt_tokens": prompt, "response_tokens": response}


# Problems: a shipped benchmark by its name, or a file of one's own.


def _benchmark(word: str, options: Options, root: Path, said: list[str]) -> BenchmarkSpec:
    path = Path(word)
    if path.suffix not in SUFFIXES and not path.exists():
        named = config.options("benchmark")
        if word not in named:
            raise ValueError(
                f"--data {word}{suggestion(word, named)}: it is no file ({', '.join(SUFFIXES)}) "
                f"and no benchmark; there are {', '.join(named)}"
            )
        benchmark = config.load_benchmark(word)
        unfit = {
            "--prompt": options.prompt,
            "--answer": options.answer,
            "--cluster": options.cluster,
        }
        for option, value in unfit.items():
            if value is not None:
                raise ValueError(f"{option} {value}: is for a file; {word} has its own columns")
        if options.grader is not None:
            raise ValueError(
                f"--grader {options.grader}: {word} has {benchmark.grader}; grade its draws "
                "by another one with `fgrpo-bench evaluate grade NAME --grader ...`"
            )
        n_problems = options.limit if options.limit is not None else benchmark.n_problems
        return replace(benchmark, n_problems=n_problems)
    return own_benchmark(path, options, root, said)


def own_benchmark(path: Path, options: Options, root: Path, said: list[str]) -> BenchmarkSpec:
    """A file as a benchmark, prepared below the folder of all runs.

    Its name ends in digits of the file's digest, and in its grader where that is not the usual one:
    equal names are equal problems with equal golds, and an edited file is another benchmark, whose
    draws are not mixed with those of before.
    """
    grader = options.grader or GRADER
    if ":" in grader:
        function.named(grader)
    elif grader not in GRADERS:
        raise ValueError(
            f"--grader {grader}{suggestion(grader, GRADERS)}: there are {', '.join(GRADERS)}, and "
            "module:function of your own"
        )
    columns = columns_of(
        path, prompt=options.prompt, answer=options.answer, cluster=options.cluster, grader=grader
    )
    sha256 = sha256_file(path)
    dataset = file_dataset(
        path,
        columns,
        name=_name(path, sha256, grader),
        grader=grader,
        sha256=sha256,
        limit=options.limit,
        cluster=options.cluster,
    )
    prepared = fetch.prepare_file(root, dataset)
    lock = read_record(prepared.lock, DatasetLock)
    chosen = f"columns {columns.prompt!r} and {columns.answer!r}, grader {grader}"
    facts = [f"problems: {path}, {chosen}, as {dataset.name}", lock.answers, *columns.said]
    said.append("; ".join(filter(None, facts)))
    first, *_ = lock.rules or ()
    if empty := first.rows_before - first.rows_after:
        said.append(
            f"left out: {empty:,} of {first.rows_before:,} rows lack a problem or an answer"
        )
    problems = dataset_problems(prepared.folder, dataset, n_problems=1)
    if ":" in grader:  # before a model is loaded
        function.check(grader, problems[0])
    prompts = read_table(prepared.problems, PROBLEMS)["prompt"]
    if copies := len(prompts) - prompts.n_unique():
        said.append(
            f"copies: {copies:,} of {len(prompts):,} problems have the text of another one, but "
            "intervals take problems as independent; drop the copies, or name what they share with "
            "--cluster"
        )
    return BenchmarkSpec(
        name=dataset.name,
        dataset=dataset,
        n_problems=None,
        grader=grader,
        extra_graders=(),
        prompt=None,
    )


def _name(path: Path, sha256: str, grader: str) -> str:
    name = f"{slug(path.stem, 26) or 'problems'}-{sha256[:8]}"
    return name if grader == GRADER else f"{name}-{slug(grader, 26)}"
