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
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fgrpo_bench.core.commandline import outside
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data import DatasetLock, dataset_problems
from fgrpo_bench.data.columns import columns_of, file_dataset
from fgrpo_bench.data.fetch import check_model, has_chat_template
from fgrpo_bench.data.rows import SUFFIXES
from fgrpo_bench.engines import of_sampler
from fgrpo_bench.files.whole import read_json, read_record
from fgrpo_bench.graders import BOX_SUFFIX, BOX_SYSTEM, BOXED, GRADERS, STRICT, function
from fgrpo_bench.specs import BenchmarkSpec, config, to_dict
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.tables import PROBLEMS, read_table

from . import fetch, standalone
from .standalone import Request, is_embedded, locate_checkpoint, slug

GRADER = "math"
"""What judges where nothing is said."""
N_SAMPLES = 16
"""Draws of a problem where no number is given: enough for a first look at pass@8."""
PARTS, ENOUGH = 16, 8
"""Of --staged: the share of n that is drawn first, and the correct draws that stop a problem; as
conf/design/staged.yaml."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was typed; None, or nothing, is what was not."""

    model: str | None
    """A folder or an id of the Hub; None where checkpoint=... names it."""
    data: tuple[str, ...] = ()
    overrides: Sequence[str] = ()
    """Of conf/evaluate.yaml."""
    prompt: str | None = None
    answer: str | None = None
    grader: str | None = None
    n_samples: int | None = None
    max_tokens: int | None = None
    max_prompt_tokens: int | None = None
    temperature: float | None = None
    system: str | None = None
    suffix: str | None = None
    staged: bool = False
    strict: bool = False
    limit: int | None = None
    cluster: str | None = None
    sampler: str | None = None
    device: str | None = None
    threads: int | None = None
    name: str | None = None
    seed: int | None = None
    trust_remote_code: bool | None = None

    def typed(self, but: Sequence[str] = ()) -> list[str]:
        """The options that were given, as they are written, but for some fields."""
        return [
            _option_of(field.name)
            for field in fields(self)
            if field.name not in ("model", "overrides", *but)
            and getattr(self, field.name) != field.default
        ]


def _option_of(field: str) -> str:
    """How a field of the options is written."""
    return "-n" if field == "n_samples" else f"--{field.replace('_', '-')}"


KEYS = {
    "n_samples": "evaluation.n_samples",
    "max_tokens": "response_tokens",
    "max_prompt_tokens": "prompt_tokens",
    "temperature": "evaluation.temperature",
    "system": "prompt.system",
    "suffix": "prompt.suffix",
    "sampler": "evaluation.sampler",
    "device": "device",
    "threads": "threads",
    "name": "name",
    "seed": "evaluation.seed",
    "trust_remote_code": "trust_remote_code",
}
"""Options that are keys of conf/evaluate.yaml, by their field."""
OF_DATA = ("prompt", "answer", "grader", "limit", "cluster")
"""Options that say something about --data."""
OF_PROMPT = ("prompt", "prompt_tokens", "response_tokens")
"""Keys that a model of the built-in engine does not ask for, as its task has them."""


def request_of(options: Options) -> tuple[Request, list[str]]:
    """The request and what was chosen for it; ValueError, FileNotFoundError or OSError with value,
    rule and remedy before anything is loaded.

    With --data what is not given is looked up, without it taken from conf/evaluate.yaml.
    """
    said: list[str] = []
    settings = _settings(options)
    overrides = list(options.overrides)
    if options.model is not None:
        if named := [word for word in overrides if standalone.key_of(word) == "checkpoint"]:
            raise ValueError(f"{options.model} beside {named[0]}: name one model at a time")
        overrides.insert(0, f"checkpoint={options.model}")
    if options.data:
        composed, keys = _looked_up(options, overrides, settings, said)
    else:
        for field in OF_DATA:
            if (value := getattr(options, field)) is not None:
                raise ValueError(
                    f"--{field} {value} says something about --data, and no --data is given: give "
                    "it, or write evaluation.benchmarks.<name>.<key>=<value> (conf/benchmark/)"
                )
        composed, keys = standalone.configuration(overrides, settings)
    evaluation = composed["evaluation"]
    if options.staged:
        twice = [
            word
            for word in overrides
            if standalone.key_of(word).startswith(("evaluation.design", "design@"))
        ]
        if twice:
            raise ValueError(f"--staged beside {twice[0]}: both say when a problem stops; give one")
        if isinstance(evaluation["n_samples"], int):
            evaluation["design"] = _staged_design(evaluation["n_samples"])
    unread = sorted(key for key in keys if key.partition(".")[0] in OF_PROMPT)
    if evaluation["sampler"] == "embedded" and unread:
        raise ValueError(
            f"{_typed(options).get(unread[0], unread[0])}: a model of the built-in engine is asked "
            "as its task asks, with prompts and responses of its lengths; leave it out"
        )
    try:
        request = config.validated(Request, composed)
        if options.strict:
            strict = {
                name: with_strict(spec) for name, spec in request.evaluation.benchmarks.items()
            }
            request = replace(request, evaluation=replace(request.evaluation, benchmarks=strict))
        return request, said
    except ValueError as error:
        text = str(error)
        for key, option in _typed(options).items():
            text = text.replace(f"  {key} = ", f"  {option} ")
            text = text.replace(f"set {key}=<value>", f"give {option} another value")
        raise ValueError(text) from error


def _typed(options: Options) -> dict[str, str]:
    """The options that were given, by the keys that they are."""
    return {
        key: _option_of(field) for field, key in KEYS.items() if getattr(options, field) is not None
    }


def _settings(options: Options) -> dict[str, Any]:
    """The options that were given as values of keys; ValueError for a key that is given as an
    override too, and for a number below 1."""
    for field in ("n_samples", "limit", "max_tokens", "max_prompt_tokens", "threads"):
        number = getattr(options, field)
        if number is not None and number < 1:
            raise ValueError(f"{_option_of(field)} {number}: give a number of at least 1")
    overridden = {standalone.key_of(word): word for word in options.overrides}
    settings = {}
    for field, key in KEYS.items():
        if (value := getattr(options, field)) is None:
            continue
        if key in overridden:
            raise ValueError(
                f"{_option_of(field)} {value} beside {overridden[key]}: give one of the two"
            )
        settings[key] = value
    return settings


def _looked_up(
    options: Options, overrides: Sequence[str], settings: dict[str, Any], said: list[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """The configuration for --data, and the keys that were given."""
    keys = {standalone.key_of(word): word for word in overrides}
    for key, word in keys.items():
        if key == "evaluation" or key.startswith(("evaluation.benchmarks", "benchmark@")):
            raise ValueError(
                f"{word} beside --data, which names what is evaluated: leave one out; --data takes "
                "several files and benchmarks, e.g. --data mine.jsonl math500"
            )
    defaults: dict[str, Any] = {"evaluation.n_samples": N_SAMPLES}
    if "device" not in keys:
        defaults["device"] = "cuda" if _has_gpu() else "cpu"
    defaults = {key: value for key, value in defaults.items() if key not in keys} | settings
    composed, _ = standalone.configuration(overrides, defaults)
    given = frozenset([*keys, *settings])
    trusted = composed["trust_remote_code"] is True
    folder = locate_checkpoint(
        composed["checkpoint"], composed["revision"], trust_remote_code=trusted
    )
    check_model(folder, chat_template=False, trust_remote_code=trusted, trust=standalone.TRUST)
    root = Path(composed["run_root"])
    evaluation, device = composed["evaluation"], composed["device"]
    benchmarks = {
        benchmark.name: benchmark
        for word in options.data
        for benchmark in (_benchmark(word, options, root, said),)
    }
    evaluation["benchmarks"] = {name: to_dict(spec) for name, spec in benchmarks.items()}
    if any(key.partition(".")[0] == "prompt" for key in given):
        for benchmark in evaluation["benchmarks"].values():
            benchmark["prompt"] = None  # then it is that of all
    if "evaluation.sampler" not in given:
        evaluation["sampler"] = _sampler(folder, device, said)
    is_embedded = evaluation["sampler"] == "embedded"
    if "evaluation.dtype" not in given:
        evaluation["dtype"] = "bfloat16" if device == "cuda" and not is_embedded else "float32"
    if not is_embedded:
        boxed = any(spec.grader in BOXED for spec in benchmarks.values())
        composed["prompt"] = _prompt(folder, composed["prompt"], given, boxed, said)
        composed |= _lengths(folder, composed, given, said)
    return composed, given


def with_strict(spec: BenchmarkSpec) -> BenchmarkSpec:
    """A benchmark with its grader's strict form beside it; ValueError where that has none."""
    if spec.grader not in STRICT:
        raise ValueError(
            f"--strict: grader {spec.grader} of {spec.name} has no strict form: leave it out; "
            f"graders with one: {', '.join(STRICT) or 'none'}"
        )
    extra = dict.fromkeys((*spec.extra_graders, STRICT[spec.grader]))
    return replace(spec, extra_graders=tuple(extra))


def _staged_design(n_samples: int) -> dict[str, Any]:
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
            f"no sampler is installed here: {outside(['transformers'])}, or name a sampler whose "
            "environment is installed with --sampler"
        )
    return "transformers"


def _prompt(
    folder: Path, prompt: dict[str, Any], given: frozenset[str], boxed: bool, said: list[str]
) -> dict[str, Any]:
    """What is not given is looked up. prompt: as composed, which with a file of conf/prompt is all
    given. boxed: whether a grader looks for a box."""
    prompt = {"suffix": None} | prompt
    if "prompt" not in given:
        if "prompt.chat_template" not in given:
            prompt["chat_template"] = has_chat_template(folder)
        if not {"prompt.system", "prompt.suffix"} & given:
            in_system = BOX_SYSTEM if boxed and prompt["chat_template"] else None
            prompt["system"] = in_system
            prompt["suffix"] = BOX_SUFFIX if boxed and not in_system else None
        elif "prompt.system" not in given:
            prompt["system"] = None
    templated, system, suffix = prompt["chat_template"], prompt["system"], prompt["suffix"]
    if system is not None and not templated:
        why, remedy = "the chat template is off", "leave the word out that turns it off"
        if not has_chat_template(folder):
            why = f"the tokenizer in {folder} has no chat template"
            remedy = "add a chat_template.jinja to the model"
        raise ValueError(
            f"a system message (--system) is given, but {why}, which alone has a place for it: put "
            f"the words after each problem with --suffix, or {remedy}"
        )
    words = [f"system message {system!r}"] if system is not None else []
    words += [f"after each problem {suffix!r}"] if suffix is not None else []
    how = "the tokenizer's chat template"
    if not templated:
        why = "the chat template is off" if has_chat_template(folder) else "no template"
        how = f"the problem as it stands ({why})"
    said.append(", ".join([f"prompt: {how}", *words]))
    return prompt


def _lengths(
    folder: Path, composed: dict[str, Any], given: frozenset[str], said: list[str]
) -> dict[str, int]:
    """The longest prompt and response that the model's context has room for."""
    context = read_json(folder / "config.json").get("max_position_embeddings")
    prompt, response = composed["prompt_tokens"], composed["response_tokens"]
    if not isinstance(prompt, int) or not isinstance(response, int):
        return {}  # the validation says so
    if isinstance(context, int) and prompt + response > context:
        if "response_tokens" not in given:
            room = context - (prompt if "prompt_tokens" in given else context // 2)
            response = max(min(response, room), 1)
        if "prompt_tokens" not in given:
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
        # --cluster is of `evaluate` alone, which names --data among its options
        shared = ", or name what they share with --cluster" if options.data else ""
        said.append(
            f"copies: {copies:,} of {len(prompts):,} problems have the text of another one, but "
            f"intervals take problems as independent; drop the copies{shared}"
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
