"""`fgrpo-bench evaluate MODEL --data mine.jsonl`: what its words ask for, as one request.

In: a model, problems and some options, all but the first two with a default that is looked up: the
columns in the file, the sampler by what is installed, the prompt by the tokenizer. Out: the request
(evaluators.standalone) and what was chosen, in lines for a person. No YAML is read but the shipped
one. Next: evaluators.standalone, which freezes the request as a stage.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

from fgrpo_bench.core.commandline import outside
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data import DatasetLock, dataset_problems
from fgrpo_bench.data.columns import file_dataset, question_columns
from fgrpo_bench.data.fetch import check_model, has_chat_template
from fgrpo_bench.data.prepare import remarks
from fgrpo_bench.data.rows import SUFFIXES, first_rows, read_rows
from fgrpo_bench.documents.terminal import plain
from fgrpo_bench.engines import engine_for_sampler
from fgrpo_bench.files.whole import read_json, read_record
from fgrpo_bench.graders import BOX_SUFFIX, BOX_SYSTEM, BOXED, CHOICE, GRADERS, STRICT, function
from fgrpo_bench.specs import BenchmarkSpec, config, to_dict
from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.tables import PROBLEMS, read_table

from . import fetch, standalone
from .endpoint import ServedModel, served_model
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

    checkpoint: str | None
    """A folder or an id of the Hub; None where checkpoint=... or --model names it."""
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
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] | None = None
    system: str | None = None
    suffix: str | None = None
    no_chat_template: bool | None = None
    prefix: str | None = None
    few_shot: str | None = None
    staged: bool = False
    strict: bool = False
    limit: int | None = None
    cluster: str | None = None
    by: str | None = None
    also: str | None = None
    sampler: str | None = None
    dtype: str | None = None
    peft: str | None = None
    endpoint: str | None = None
    model: str | None = None
    """The name of a server's model."""
    device: str | None = None
    threads: int | None = None
    batch_size: int | None = None
    name: str | None = None
    seed: int | None = None
    trust_remote_code: bool | None = None

    def typed(self, but: Sequence[str] = ()) -> list[str]:
        """The options that were given, as they are written, but for some fields."""
        return [
            _option_name(field.name)
            for field in fields(self)
            if field.name not in ("checkpoint", "overrides", *but)
            and getattr(self, field.name) != field.default
        ]


def _option_name(field: str) -> str:
    """How a field of the options is written."""
    return "-n" if field == "n_samples" else f"--{field.replace('_', '-')}"


KEYS = {
    "n_samples": "evaluation.n_samples",
    "max_tokens": "response_tokens",
    "max_prompt_tokens": "prompt_tokens",
    "temperature": "evaluation.temperature",
    "top_p": "evaluation.top_p",
    "top_k": "evaluation.top_k",
    "stop": "evaluation.stop",
    "system": "prompt.system",
    "suffix": "prompt.suffix",
    "no_chat_template": "prompt.chat_template",
    "prefix": "evaluation.prefix",
    "sampler": "evaluation.sampler",
    "dtype": "evaluation.dtype",
    "peft": "peft",
    "endpoint": "endpoint",
    "device": "device",
    "threads": "threads",
    "batch_size": "batch_size",
    "name": "name",
    "seed": "evaluation.seed",
    "trust_remote_code": "trust_remote_code",
}
"""Options that are keys of conf/evaluate.yaml, by their field."""
DATA_OPTIONS = ("prompt", "answer", "grader", "limit", "cluster")
"""Options that say something about --data."""
PROMPT_KEYS = ("prompt", "prompt_tokens", "response_tokens")
"""Keys that a model of the built-in engine does not ask for, as its task has them."""
MACHINE_KEYS = {
    **dict.fromkeys(("device", "threads", "placement", "peft"), "the server computes as it does"),
    "revision": "the server has chosen it",
    "prompt_tokens": "the server counts prompts, and refuses those that are too long",
}
"""Keys that say nothing of a server's model, and why."""
MOST_EXAMPLES = 100
"""Of --few-shot."""


def evaluation_request(options: Options) -> tuple[Request, list[str]]:
    """The request and what was chosen for it; ValueError, FileNotFoundError or OSError with value,
    rule and remedy before anything is loaded.

    With --data what is not given is looked up, without it taken from conf/evaluate.yaml.
    """
    notices: list[str] = []
    settings = _settings(options)
    overrides = list(options.overrides)
    named = [word for word in overrides if standalone.key_of(word) == "checkpoint"]
    if options.checkpoint is not None and options.model is not None:
        named.append(f"--model {options.model}")
    model = options.model if options.checkpoint is None else options.checkpoint
    if model is not None:
        if named:
            raise ValueError(f"{model} beside {named[0]}: name one model at a time")
        overrides.insert(0, f"checkpoint={model}")
    _check_server(options, {standalone.key_of(word): word for word in overrides} | settings)
    if options.data:
        composed, keys = _looked_up(options, overrides, settings, notices)
    else:
        for field in DATA_OPTIONS:
            if (value := getattr(options, field)) is not None:
                raise ValueError(
                    f"--{field} {value} says something about --data, and no --data is given: give "
                    "it, or write evaluation.benchmarks.<name>.<key>=<value> (conf/benchmark/)"
                )
        composed, keys = standalone.configuration(overrides, settings)
    evaluation = composed["evaluation"]
    if options.few_shot is not None:
        for word in overrides:
            if standalone.key_of(word).startswith("evaluation.few_shot"):
                raise ValueError(f"--few-shot {options.few_shot} beside {word}: give one of both")
        evaluation["few_shot"] = _examples(Path(options.few_shot), options, evaluation, notices)
    _say_sampling(evaluation, notices)
    if options.staged and evaluation["temperature"] == 0:
        raise ValueError(
            "--staged beside temperature 0: greedy draws of a problem are all one, of which no "
            "more are drawn; leave one of the two out"
        )
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
    unread = sorted(key for key in keys if key.partition(".")[0] in PROMPT_KEYS)
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
        return request, notices
    except ValueError as error:
        text = str(error)
        for key, option in _typed(options).items():
            text = text.replace(f"  {key} = ", f"  {option} ")
            text = text.replace(f"set {key}=<value>", f"give {option} another value")
        raise ValueError(text) from error


def _typed(options: Options) -> dict[str, str]:
    """The options that were given, by the keys that they are."""
    return {
        key: _option_name(field)
        for field, key in KEYS.items()
        if getattr(options, field) is not None
    }


def _settings(options: Options) -> dict[str, Any]:
    """The options that were given as values of keys; ValueError for a key that is given as an
    override too, and for a number below 1."""
    counts = ("n_samples", "limit", "max_tokens", "max_prompt_tokens", "threads", "top_k")
    for field in (*counts, "batch_size"):
        number = getattr(options, field)
        if number is not None and number < 1:
            raise ValueError(f"{_option_name(field)} {number}: give a number of at least 1")
    overridden = {standalone.key_of(word): word for word in options.overrides}
    settings = {}
    for field, key in KEYS.items():
        if (value := getattr(options, field)) is None:
            continue
        if key in overridden:
            raise ValueError(
                f"{_option_name(field)} {value} beside {overridden[key]}: give one of the two"
            )
        settings[key] = value
    if options.no_chat_template:
        settings["prompt.chat_template"] = False
    if options.stop is not None:
        settings["evaluation.stop"] = list(options.stop)
    return settings


def _check_server(options: Options, given: Mapping[str, object]) -> None:
    """ValueError where a server is named without a model or the other way round, and for what says
    nothing of its model. given: by whole key."""
    if "endpoint" not in given:
        if options.model is not None:
            raise ValueError(
                f"--model {options.model} is the name of a server's model: name the server with "
                "--endpoint, or write the model's folder or id without --model"
            )
        return
    if "checkpoint" not in given:
        url = options.endpoint or str(given["endpoint"]).partition("=")[2]
        served_model(url, None)  # which says what it has
    if options.checkpoint is not None:
        raise ValueError(
            f"{options.checkpoint} beside --endpoint: name the server's model with --model alone, "
            "or leave --endpoint out"
        )
    for key, why in MACHINE_KEYS.items():
        for name in given:
            if re.split(r"[.@]", name)[0] == key:
                typed = _typed(options).get(name, name)
                raise ValueError(f"{typed} beside --endpoint: {why}; leave it out")


def _looked_up(
    options: Options, overrides: Sequence[str], settings: dict[str, Any], notices: list[str]
) -> tuple[dict[str, Any], frozenset[str]]:
    """The configuration for --data, and the keys that were given."""
    keys = {standalone.key_of(word): word for word in overrides}
    for key, word in keys.items():
        if key == "evaluation" or key.startswith(("evaluation.benchmarks", "benchmark@")):
            raise ValueError(
                f"{word} beside --data, which names what is evaluated: leave one out; --data takes "
                "several files and benchmarks, e.g. --data mine.jsonl math500"
            )
    defaults: dict[str, Any] = {}
    if not {"device", "endpoint"} & {*keys, *settings}:
        defaults["device"] = "cuda" if _has_gpu() else "cpu"
    composed, _ = standalone.configuration(overrides, defaults | settings, n_samples=N_SAMPLES)
    given = frozenset([*keys, *settings])
    if has_server := composed["endpoint"] is not None:
        served = served_model(composed["endpoint"], composed["checkpoint"])
    else:
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
        for benchmark in (_benchmark(word, options, root, notices),)
    }
    evaluation["benchmarks"] = {name: to_dict(spec) for name, spec in benchmarks.items()}
    if any(key.partition(".")[0] == "prompt" for key in given):
        for benchmark in evaluation["benchmarks"].values():
            benchmark["prompt"] = None  # then it is that of all
    boxed = any(spec.grader in BOXED for spec in benchmarks.values())
    if has_server:
        _apply_server_defaults(served, composed, given, boxed, notices)
        return composed, given
    if "evaluation.sampler" not in given:
        evaluation["sampler"] = _sampler(folder, device, notices)
    is_embedded = evaluation["sampler"] == "embedded"
    if "evaluation.dtype" not in given:
        evaluation["dtype"] = "bfloat16" if device == "cuda" and not is_embedded else "float32"
    if not is_embedded:
        composed["prompt"] = _prompt(folder, composed["prompt"], given, boxed, notices)
        composed |= _lengths(folder, composed, given, notices)
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


def _sampler(folder: Path, device: str, notices: list[str]) -> str:
    if is_embedded(folder):
        notices.append("sampler: embedded, as the model is one of the built-in engine")
        return "embedded"
    here = SimpleNamespace(device=device, placement=SimpleNamespace(python=None))
    elsewhere = Path(engine_for_sampler("vllm").environment.interpreter(here))
    has_vllm = find_spec("vllm") is not None or elsewhere.exists()
    if device == "cuda" and has_vllm:
        notices.append("sampler: vllm, which is installed, on the GPU")
        return "vllm"
    why = "no GPU is here" if device == "cpu" else "vLLM is not installed"
    notices.append(f"sampler: transformers, on the {'GPU' if device == 'cuda' else 'CPU'} ({why})")
    if find_spec("transformers") is None:
        raise ValueError(
            f"no sampler is installed here: {outside(['transformers'])}, or name a sampler whose "
            "environment is installed with --sampler"
        )
    return "transformers"


def _say_sampling(evaluation: Mapping[str, Any], notices: list[str]) -> None:
    """What is drawn otherwise than usual."""
    if evaluation["temperature"] == 0:
        notices.append("greedy (temperature 0): one draw per problem, which gives pass@1 alone")
    if evaluation["prefix"] is not None:
        notices.append(
            f"prefix: every response begins with {evaluation['prefix']!r}, graded with it"
        )
    if evaluation["stop"] is not None:
        texts = " or ".join(map(repr, evaluation["stop"]))
        notices.append(f"stop: a response ends before {texts}")


def _apply_server_defaults(
    served: ServedModel,
    composed: dict[str, Any],
    given: frozenset[str],
    boxed: bool,
    notices: list[str],
) -> None:
    """What is not given of a server's model is looked up, and set."""
    seed = "a seed is sent with every draw, which no server promises to keep"
    root = "" if served.root in (None, served.model) else f" ({plain(str(served.root))})"
    notices.append(f"sampler: {served.model}{root} of {served.url}; {seed}")
    composed["prompt"] = _prompt(None, composed["prompt"], given, boxed, notices)
    response, context = composed["response_tokens"], served.context
    if context is not None and isinstance(response, int):
        if "response_tokens" not in given:
            response = min(response, max(context - composed["prompt_tokens"], context // 2))
        if response >= context:
            raise ValueError(
                f"--max-tokens {response}: the context of {served.model} is {context} tokens "
                "(max_model_len) for prompt and response; lower it"
            )
    composed["response_tokens"] = response
    notices.append(
        f"length: responses of up to {response} tokens, prompts as the server takes them"
    )


def _examples(
    path: Path, options: Options, evaluation: dict[str, Any], notices: list[str]
) -> list[dict[str, str]]:
    """The solved examples of a file, in its order; a solution is shown in place of its answer.

    Columns and options are those of --data where the file has them, else looked up as there.
    FileNotFoundError or ValueError where it is none or holds too many.
    """
    columns = {key for row in first_rows(path) for key in row}
    named = options.prompt, options.answer
    prompt, answer = (name if name in columns else None for name in named)
    if answer is None and "solution" in columns:
        answer = "solution"
    graders = {benchmark["grader"] for benchmark in evaluation["benchmarks"].values()}
    grader = "choice" if graders & set(CHOICE) else "function"  # whose answers may be any text
    used = question_columns(path, prompt=prompt, answer=answer, grader=grader)
    rows = read_rows(path, [used.prompt, used.answer], options=used.options)
    texts = [used.prompt, used.answer]
    filled = rows.select(texts).filter(pl.all_horizontal(pl.col(texts).str.strip_chars() != ""))
    if not len(filled) or len(filled) > MOST_EXAMPLES:
        raise ValueError(
            f"--few-shot {path} holds {len(filled)} problems with answers: give a file of 1 to "
            f"{MOST_EXAMPLES}, which all stand in every prompt"
        )
    left_out = f", {len(rows) - len(filled)} rows without one left out" * (len(filled) < len(rows))
    notices.append(
        f"few-shot: {len(filled)} solved examples of {path}, columns {used.prompt!r} and "
        f"{used.answer!r}{left_out}"
    )
    return [{"problem": problem, "answer": solved} for problem, solved in filled.iter_rows()]


def _prompt(
    folder: Path | None,
    prompt: dict[str, Any],
    given: frozenset[str],
    boxed: bool,
    notices: list[str],
) -> dict[str, Any]:
    """What is not given is looked up. folder: None of a server's model, which has a template.
    prompt: as composed, which with a file of conf/prompt is all given. boxed: whether a grader
    looks for a box."""
    has_template = folder is None or has_chat_template(folder)
    prompt = {"suffix": None} | prompt
    if "prompt" not in given:
        if "prompt.chat_template" not in given:
            prompt["chat_template"] = has_template
        if not {"prompt.system", "prompt.suffix"} & given:
            in_system = BOX_SYSTEM if boxed and prompt["chat_template"] else None
            prompt["system"] = in_system
            prompt["suffix"] = BOX_SUFFIX if boxed and not in_system else None
        elif "prompt.system" not in given:
            prompt["system"] = None
    templated, system, suffix = prompt["chat_template"], prompt["system"], prompt["suffix"]
    if system is not None and not templated:
        why, remedy = "the chat template is off", "leave the word out that turns it off"
        if not has_template:
            why = f"the tokenizer in {folder} has no chat template"
            remedy = "add a chat_template.jinja to the model"
        raise ValueError(
            f"a system message (--system) is given, but {why}, which alone has a place for it: put "
            f"the words after each problem with --suffix, or {remedy}"
        )
    words = [f"system message {system!r}"] if system is not None else []
    words += [f"after each problem {suffix!r}"] if suffix is not None else []
    how = f"the {'tokenizer' if folder else 'server'}'s chat template"
    if not templated:
        why = "the chat template is off" if has_template else "no template"
        how = f"the problem as it stands ({why})"
    notices.append(", ".join([f"prompt: {how}", *words]))
    return prompt


def _lengths(
    folder: Path, composed: dict[str, Any], given: frozenset[str], notices: list[str]
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
    notices.append(f"length: prompts of up to {prompt} tokens, responses of up to {response}")
    return {"prompt_tokens": prompt, "response_tokens": response}


# Problems: a shipped benchmark by its name, or a file of one's own.


def _benchmark(word: str, options: Options, root: Path, notices: list[str]) -> BenchmarkSpec:
    path = Path(word)
    if path.suffix not in SUFFIXES and not path.exists():
        named = config.option_names("benchmark")
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
    return file_benchmark(path, options, root, notices)


def check_grader(grader: str) -> None:
    """ValueError for one that judges nothing."""
    if ":" in grader:
        function.named(grader)
    elif grader not in GRADERS:
        raise ValueError(
            f"--grader {grader}{suggestion(grader, GRADERS)}: there are {', '.join(GRADERS)}, and "
            "module:function of your own"
        )


def file_benchmark(
    path: Path, options: Options, root: Path, notices: list[str], *, recorded: str | None = None
) -> BenchmarkSpec:
    """A file as a benchmark, prepared below the folder of all runs. recorded: the verdicts
    (fgrpo_bench.graders.recorded) that count in place of a grader's.

    Its name ends in digits of the file's digest, and in its grader where that is not the usual one:
    equal names are equal problems with equal golds, and an edited file is another benchmark, whose
    draws are not mixed with those of before.
    """
    grader = recorded or options.grader or GRADER
    if recorded is None:
        check_grader(grader)
    columns = question_columns(
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
    notices.append("; ".join(filter(None, facts)))
    table = read_table(prepared.problems, PROBLEMS)
    # --cluster is of `evaluate` alone, which names --data among its options
    notices += remarks(table, lock.rules or (), has_clusters=bool(options.data))
    problems = dataset_problems(prepared.folder, dataset, n_problems=1)
    if ":" in grader:  # before a model is loaded
        function.check(grader, problems[0])
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
