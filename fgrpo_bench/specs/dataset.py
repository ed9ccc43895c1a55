"""A dataset: where its problems come from, what is left out, and how answers are graded."""

from __future__ import annotations

from typing import Literal

from pydantic.dataclasses import dataclass

from fgrpo_bench.specs.base import STRICT, Name, Positive


@dataclass(config=STRICT, frozen=True, kw_only=True)
class DatasetSpec:
    """Problems with gold answers, from the Hugging Face Hub or from a file."""

    name: Name
    """Name in paths."""
    source: Literal["huggingface", "file"]
    """huggingface: fetched once from its publisher. file: a JSONL or Parquet file at hand."""
    repository: str | None
    """Hub id of the dataset, e.g. agentica-org/DeepScaleR-Preview-Dataset; null for a file."""
    revision: str | None
    """Commit of the dataset; null takes the newest at the first fetch and pins it."""
    path: str
    """File within the repository, or on disk."""
    prompt_key: str
    """Column of the problem."""
    answer_key: str
    """Column of the gold answer."""
    grader: Name
    """A key of fgrpo_bench.graders.GRADERS."""
    max_tokens: Positive | None
    """Problems longer than this are left out; null keeps all."""
    tokenizer: str | None
    """Hub id or folder of the tokenizer that counts max_tokens; null where nothing is counted."""
    tokens_of: str | None
    """Column whose tokens are counted; null where nothing is counted."""
    deduplicate: bool
    """Whether a problem that comes twice is kept once, and dropped where its answers differ."""
    expected: Positive | None
    """Problems that should be left; another number is reported, and no error. null expects none."""
