"""What is fetched: datasets with the rows of them that are kept, and published models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from fgrpo_bench.core import registry
from fgrpo_bench.specs.base import STRICT, GraderName, Name, Positive, registered

GATED = ("gpqa",)
"""Layouts of datasets whose publishers ask that none of their text is shown to others."""
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(config=STRICT, frozen=True, kw_only=True)
class DatasetSpec:
    """A table of problems with checkable answers, from a publisher or from a file."""

    name: Name
    """Name in tables and in problem ids."""
    source: Literal["huggingface", "file"]
    """huggingface: a dataset repository of HF_ENDPOINT. file: a path on this machine."""
    repository: str | None
    """Repository id under huggingface, e.g. agentica-org/DeepScaleR-Preview-Dataset; else null."""
    revision: str | None
    """Branch, tag or commit; null is main at the first fetch, whose commit the lock file keeps."""
    path: str
    """The file: its name in the repository, or its path; .json, .jsonl, .csv, .tsv or .parquet."""
    sha256: Digest | None
    """Digest that the file must have; null is the one of the first fetch, from the lock file."""
    layout: Annotated[Name, registered("layouts")]
    """How the publisher's columns become a prompt and a gold; see fgrpo_bench.data.layouts."""
    prompt_key: str
    """Column of the problems; several, joined by blank lines, with commas between."""
    answer_key: str
    """Column of the gold answers; a dot leads into a column that holds objects."""
    max_tokens: Positive | None
    """Rows with more tokens in token_field are dropped; null drops none."""
    tokenizer: str | None
    """What counts tokens: a model repository or a folder with tokenizer.json; null without
    max_tokens."""
    token_field: str | None
    """Column whose tokens count; null without max_tokens."""
    deduplicate: bool
    """Drops problems whose copies disagree on the answer; of equal copies keeps the first."""
    limit: Positive | None
    """Most rows of the result, the first ones; null is all."""
    expected_rows: Positive | None
    """Rows that a publication reports; null: unknown."""
    exact_rows: bool
    """Whether another number of rows is an error, as for a benchmark; else it is only said."""
    grader: GraderName
    """A key of fgrpo_bench.graders.GRADERS; says how golds are normalised."""
    cluster: str | None = None
    """Column whose equal values make a cluster of problems, e.g. of the passage that they are
    about; null makes none, and a row that has nothing there is a cluster of its own."""
    options: str | None = None
    """Column of the options of multiple choice, or several of one each with commas between, that
    are put behind each problem that does not list them; null puts none."""

    @property
    def gated(self) -> bool:
        """Whether none of its text may be shown to others."""
        return self.layout in GATED

    def __post_init__(self) -> None:
        if (self.repository is not None) != (self.source == "huggingface"):
            raise ValueError(
                f"source={self.source} with repository={self.repository!r}: huggingface takes a "
                "repository, file takes none"
            )
        if self.revision is not None and self.source == "file":
            raise ValueError(
                f"revision={self.revision!r} with source=file: a file has no revision; pin it "
                "with sha256"
            )
        counted = (self.max_tokens, self.tokenizer, self.token_field)
        if any(value is None for value in counted) != all(value is None for value in counted):
            raise ValueError(
                f"max_tokens={self.max_tokens}, tokenizer={self.tokenizer!r}, "
                f"token_field={self.token_field!r}: a length limit needs all three, and without "
                "one all three are null"
            )


@dataclass(config=STRICT, frozen=True, kw_only=True)
class ModelShape:
    """What of a published model's architecture says how much memory its tokens take."""

    hidden_size: Positive
    """Width of the residual stream."""
    n_layers: Positive
    """Decoder layers."""
    n_kv_heads: Positive
    """Key/value heads."""
    head_dim: Positive
    """Width of one of them."""
    vocabulary_size: Positive
    """Rows of the embedding."""


@dataclass(config=STRICT, frozen=True, kw_only=True)
class PretrainedSpec:
    """A published model, or one in a folder of yours."""

    name: Name
    """Name in tables."""
    path: str
    """Hugging Face id, e.g. Qwen/Qwen2.5-7B, or a folder that every node sees."""
    revision: str | None
    """Commit on the Hub; null takes the newest at the first fetch. Null for a folder."""
    parameters: Annotated[int, Field(ge=1, le=10**14)]
    """Number of parameters, for the check that a run fits the GPUs."""
    shape: ModelShape | None = None
    """For the same check; null is what config.json says where path is a folder. Defines nothing."""
    trust_remote_code: bool = False
    """Whether code that the model or its tokenizer brings (auto_map) may run, with the rights of
    whoever trains and evaluates it. False refuses such a model."""


def withheld(benchmark: object) -> bool:
    """Whether no text of a stored benchmark may be shown to others: it is gated, or what is stored
    does not say. benchmark: a BenchmarkSpec as it was read from a file."""
    if not isinstance(benchmark, dict) or "dataset" not in benchmark:
        return True
    dataset = benchmark["dataset"]
    if dataset is None:  # the held-out problems of a generated task
        return False
    layouts = registry.table("layouts").keys()
    return not isinstance(dataset, dict) or dataset.get("layout") not in layouts - set(GATED)
