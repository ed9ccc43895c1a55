"""How models are asked, and how checkpoints are judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import STRICT, FolderName, GraderName, Name, Positive, Seed, Temperature
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
class EvalSpec:
    """How checkpoints are judged: draws, sampling settings and the k of pass@k."""

    name: FolderName
    """Name in paths."""
    sampler: Literal["embedded", "transformers", "vllm"]
    """What draws: the embedded engine (its own checkpoints only), transformers or vLLM."""
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
    temperature: Temperature
    """Sampling temperature; 0.01 is near-greedy, and 0 would make all draws of a problem one."""
    top_p: Annotated[float, Field(ge=1, le=1)]
    """Nucleus sampling; 1.0 is off (the paper's setting and the only one the engine has)."""
    dtype: Literal["float32", "bfloat16"]
    """Number type of the weights while sampling."""
    seed: Seed
    """Base of every draw's own seed, together with the training seed of the model that draws."""
    batch_invariant: bool = False
    """Whether vLLM computes with kernels whose results do not depend on what is drawn beside a draw
    (VLLM_BATCH_INVARIANT)."""
    prompts: dict[str, BenchmarkPrompt]
    """Prompts of the model family, by the names that benchmarks give them."""

    def prompt_of(self, benchmark: str) -> BenchmarkPrompt | None:
        """The prompt of a benchmark; None is that of training."""
        name = self.benchmarks[benchmark].prompt
        return None if name is None else self.prompts[name]

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
