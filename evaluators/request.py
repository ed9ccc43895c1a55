"""What `python -m evaluators run checkpoint=...` asks for: from overrides to a checked request."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from fgrpo_bench.specs import EvalSpec, Placement, PromptSpec, config
from fgrpo_bench.specs.base import STRICT, FolderName, Plugins, Positive, Seed

ROOT = "evaluate"
OF_EVALUATION = {field.name for field in fields(EvalSpec)} - {"name"}
"""Keys that stand for evaluation.<key>."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class Request:
    """The evaluation of one checkpoint without a sweep."""

    plugins: Plugins
    """Modules that add to the tables (fgrpo_bench.registry)."""
    checkpoint: str
    """A folder, or an id of the Hugging Face Hub."""
    revision: str | None
    """Branch, tag or commit of a model on the Hub; null is the newest."""
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


def load(overrides: Sequence[str]) -> Request:
    """The request that overrides make; ValueError names value, rule and remedy."""
    given = [_full(each) for each in overrides]
    keys = {each.lstrip("+~").partition("=")[0] for each in given}
    if "checkpoint" not in keys:
        raise ValueError(
            "no checkpoint=<folder or id of the Hub> is given: say what is to be evaluated, e.g. "
            "checkpoint=Qwen/Qwen2.5-7B"
        )
    if "device=cuda" in given and "placement" not in keys:
        given.append("placement=single-gpu")
    chosen = [each for each in given if each.startswith("evaluation=")]
    chosen += [each for each in given if each.startswith("plugins=")]
    shipped = list(config.compose(["checkpoint=x", *chosen], root=ROOT)["evaluation"]["benchmarks"])
    wanted = [name for each in given for name in _benchmarks(each)]
    given = [each for each in given if not each.startswith("evaluation.benchmarks=")]
    more = [f"+benchmark@evaluation.benchmarks.{name}={name}" for name in wanted]
    added = [each for each, name in zip(more, wanted, strict=True) if name not in shipped]
    composed = config.compose([*added, *given], root=ROOT)
    evaluation: dict[str, Any] = composed["evaluation"]
    evaluation["name"] = "alone"
    kept = wanted or shipped
    evaluation["benchmarks"] = {name: evaluation["benchmarks"][name] for name in kept}
    if any(key.partition(".")[0] == "prompt" for key in keys):  # then it is that of all
        for benchmark in evaluation["benchmarks"].values():
            benchmark["prompt"] = None
    if "evaluation.ks" not in keys and isinstance(evaluation["n_samples"], int):
        evaluation["ks"] = [k for k in evaluation["ks"] if k <= evaluation["n_samples"]]
    return config.validated(Request, composed)


def _full(override: str) -> str:
    """An override with its whole key, e.g. n_samples=64 -> evaluation.n_samples=64; design=staged
    is the file of that name."""
    if "=" not in override:
        raise ValueError(f"{override!r} is no override: write key=value, e.g. n_samples=64")
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
