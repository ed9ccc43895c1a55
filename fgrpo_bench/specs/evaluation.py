"""How models are asked, and how checkpoints are judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import (
    STRICT,
    FolderName,
    GraderName,
    Name,
    Positive,
    Seed,
    TemperatureOrGreedy,
    Text,
)
from fgrpo_bench.specs.dataset import DatasetSpec
from fgrpo_bench.stats.staged import StagedDesign, fixed_design

FIXED_DRAWS_ONLY = frozenset({"maze-reached"})
"""Graders that stand beside another one only where every problem makes n_samples draws."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class PromptSpec:
    """How a problem becomes what the model reads."""

    chat_template: bool
    """Whether the tokenizer's chat template is applied; false gives the problem as it is."""
    system: str | None
    """System message; null is none (some templates then put their own)."""
    suffix: str | None = None
    """What stands after every problem, e.g. a request for a box; null is nothing."""

    def text(self, problem: str) -> str:
        """A problem with what stands after it."""
        return problem if self.suffix is None else problem + self.suffix


@dataclass(config=STRICT, frozen=True, kw_only=True)
class BenchmarkPrompt(PromptSpec):
    """How a problem of some benchmarks becomes what the model reads."""

    thinking: bool | None
    """Value of enable_thinking in the chat template; null leaves it to the template."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class BenchmarkSpec:
    """A set of problems with a grader."""

    name: Name
    """Name in paths, tables and metrics."""
    dataset: DatasetSpec | None
    """Where the problems come from; null is the held-out split of the experiment's own task."""
    n_problems: Positive | None
    """How many problems; the first n. Null is all of the dataset."""
    grader: GraderName
    """A key of fgrpo_bench.graders.GRADERS; pass@k is of its grades."""
    extra_graders: tuple[GraderName, ...]
    """Graders whose grades and pass@k stand beside those of `grader`."""
    prompt: Name | None
    """A key of EvalSpec.prompts; null is the prompt of training."""
    domain: Literal["in-domain", "out-of-domain"] = "in-domain"
    """Whether its problems are of the kind that is trained on. The one default among specs
    that is not null: those that were stored before there were domains are read too."""

    def __post_init__(self) -> None:
        if self.dataset is None and self.n_problems is None:
            raise ValueError(
                f"benchmark {self.name} has neither a dataset nor n_problems: a held-out split "
                "needs a number of problems"
            )
        if self.dataset is not None and self.dataset.grader != self.grader:
            raise ValueError(
                f"benchmark {self.name} has grader={self.grader}, but the golds of its dataset are "
                f"normalised for {self.dataset.grader}: set grader and dataset.grader alike"
            )
        graders = (self.grader, *self.extra_graders)
        if len(set(graders)) < len(graders):
            raise ValueError(
                f"benchmark {self.name} has grader={self.grader} and extra_graders="
                f"{list(self.extra_graders)}: name each grader once"
            )


@dataclass(config=STRICT, frozen=True, kw_only=True)
class RareSpec:
    """Rare correct answers of the base model to training prompts, a fixed set that is scored under
    every evaluated checkpoint (paper, app. M.2: 256 prompts, 800 draws each, the top 1%)."""

    n_prompts: Positive
    """Training prompts, the same for all cells."""
    n_samples: Positive
    """Draws of the base model a prompt."""
    share: Annotated[float, Field(gt=0, le=1)]
    """Share of the correct draws that is kept: those least likely under the base model."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class DesignSpec:
    """Draws in stages, of which a problem makes no more once enough are correct."""

    stages: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """Draws of a problem after each stage, rising; the last is n_samples."""
    enough: Positive
    """Correct draws that stop a problem after a stage."""

    @property
    def estimator(self) -> StagedDesign:
        """What estimates pass@k from the draws that it makes."""
        return StagedDesign(stages=self.stages, enough=self.enough)

    def __post_init__(self) -> None:
        _ = self.estimator  # which refuses what is no design


@dataclass(config=STRICT, frozen=True, kw_only=True)
class SolvedExample:
    """A problem with its answer, as both stand in a prompt."""

    problem: Text
    """Without what stands after every problem."""
    answer: Text
    """As it is shown, with or without the way to it."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class EvalSpec:
    """How checkpoints are judged: draws, sampling settings and the k of pass@k."""

    name: FolderName
    """Name in paths."""
    sampler: Literal["embedded", "transformers", "vllm", "endpoint"]
    """What draws: the embedded engine (its own checkpoints only), transformers, vLLM, or a server
    that speaks OpenAI's protocol (without a sweep only)."""
    benchmarks: dict[str, BenchmarkSpec]
    """Benchmarks by name."""
    n_samples: Positive
    """n: draws per problem, of a design the most. A target: raising it later adds draws to those
    that exist."""
    design: DesignSpec | None = None
    """When a problem stops: a file of conf/design/ (+design@experiment.evaluation.design=staged) or
    values of stages and enough; by its own correct draws alone, else pass@k would be biased. Null
    is never, so that all make n_samples draws. A target too: under another design the draws that
    exist are used as far as it asks for them."""
    ks: tuple[Positive, ...]
    """The k of pass@k; none above n_samples. n = k is a coin flip per problem: prefer n > k."""
    temperature: TemperatureOrGreedy
    """Sampling temperature; 0 is greedy, of which all draws of a problem would be one: n_samples is
    1 then."""
    top_p: Annotated[float, Field(gt=0, le=1)]
    """Nucleus sampling: the most likely tokens that together have this probability, after top_k;
    1.0 is off (the paper's setting)."""
    top_k: Positive | None = None
    """Only so many of the most likely tokens are drawn from; null is all."""
    stop: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    """Texts that end a response, which is without them; null is none."""
    prefix: Text | None = None
    """What every response begins with, behind the prompt: it is given, not drawn, and graded as
    part of the response; null is nothing."""
    few_shot: Annotated[tuple[SolvedExample, ...], Field(min_length=1)] | None = None
    """Solved examples before every problem, in a chat as turns of their own; null is none."""
    dtype: Literal["float32", "bfloat16", "float16"] | None
    """Number type of the weights while sampling; null is the server's own (sampler=endpoint)."""
    seed: Seed
    """Base of every draw's own seed, together with the training seed of the model that draws."""
    batch_invariant: bool = False
    """Whether vLLM computes with kernels whose results do not depend on what is drawn beside a draw
    (VLLM_BATCH_INVARIANT)."""
    prompts: dict[str, BenchmarkPrompt]
    """Prompts of the model family, by the names that benchmarks give them."""

    def benchmark_prompt(self, benchmark: str) -> BenchmarkPrompt | None:
        """The prompt of a benchmark; None is that of training."""
        name = self.benchmarks[benchmark].prompt
        return None if name is None else self.prompts[name]

    def _check_embedded(self) -> None:
        further = {"top_k": None, "stop": None, "prefix": None, "few_shot": None, "top_p": 1.0}
        for name, off in further.items():
            if getattr(self, name) != off:
                raise ValueError(
                    f"sampler=embedded with {name}: the embedded engine asks as its task asks and "
                    f"draws from the whole distribution; leave {name} out, or take another sampler"
                )

    def check_device(self, device: str) -> None:
        """ValueError where the evaluation cannot be made there."""
        if self.batch_invariant and device == "cpu":
            raise ValueError(
                "batch_invariant=true with device=cpu: vLLM has batch-invariant kernels for GPUs "
                "alone; set evaluation.batch_invariant=false, or a device with a GPU"
            )

    @property
    def stopping(self) -> StagedDesign:
        """When a problem stops; without a design after n_samples draws."""
        return fixed_design(self.n_samples) if self.design is None else self.design.estimator

    def __post_init__(self) -> None:
        if not self.benchmarks or not self.ks:
            raise ValueError("benchmarks and ks must not be empty: name at least one of each")
        if self.sampler == "embedded" and self.dtype != "float32":
            raise ValueError(
                f"sampler=embedded with dtype={self.dtype}: the embedded engine computes in "
                "float32; set one or the other"
            )
        if (self.dtype is None) != (self.sampler == "endpoint"):
            raise ValueError(
                f"dtype={self.dtype or 'null'} with sampler={self.sampler}: a server has chosen "
                "its own (null, under sampler=endpoint alone), every other sampler is told one; "
                "set one or the other"
            )
        if self.sampler == "embedded":
            self._check_embedded()
        if self.temperature == 0 and (self.n_samples > 1 or self.design is not None):
            raise ValueError(
                f"temperature=0 with n_samples={self.n_samples}"
                f"{'' if self.design is None else ' and a design'}: all greedy draws of a problem "
                "are one, which gives pass@1 alone; set n_samples=1 and design=null, or a "
                "temperature from 0.01 on"
            )
        if self.batch_invariant and self.sampler != "vllm":
            raise ValueError(
                f"batch_invariant=true with sampler={self.sampler}: it is a mode of vLLM's; set "
                "batch_invariant=false, or sampler=vllm"
            )
        if list(self.ks) != sorted(set(self.ks)):
            raise ValueError(f"ks={list(self.ks)}: must rise without repeats")
        if self.ks[-1] > self.n_samples:
            raise ValueError(
                f"k={self.ks[-1]} is larger than n_samples={self.n_samples}: pass@k needs at "
                "least k draws per problem; raise n_samples or drop that k"
            )
        stages = self.stopping.stages
        if stages[-1] != self.n_samples:
            raise ValueError(
                f"n_samples={self.n_samples}, but the last of design.stages={list(stages)} is "
                "another: n_samples is the most draws per problem, so set both alike"
            )
        for key, benchmark in self.benchmarks.items():
            unfit = sorted(FIXED_DRAWS_ONLY.intersection(benchmark.extra_graders))
            if unfit and not self.stopping.is_fixed:
                raise ValueError(
                    f"benchmarks.{key} has extra_graders={list(benchmark.extra_graders)} under a "
                    f"design: problems stop by the verdicts of {benchmark.grader}, and {unfit[0]} "
                    f"is for a fixed number of draws; set benchmarks.{key}.extra_graders=[] or "
                    "design=null"
                )
            if key != benchmark.name:
                raise ValueError(f"benchmarks.{key} is named {benchmark.name!r}: use one name")
            if benchmark.prompt not in (None, *self.prompts):
                raise ValueError(
                    f"benchmarks.{key}.prompt={benchmark.prompt!r}, but prompts has "
                    f"{', '.join(sorted(self.prompts)) or 'none'}: set evaluation.prompts."
                    f"{benchmark.prompt} for this model (the files of conf/experiment/ do), or "
                    "prompt=null for the prompt of training"
                )
