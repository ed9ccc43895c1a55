"""A small dataset on disk as fetched, and overrides that evaluate a checkpoint on it."""

from __future__ import annotations

import json
from pathlib import Path

from fgrpo_bench.data.__main__ import main as fetch
from fgrpo_bench.files.paths import shared_data
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import DatasetSpec, EvalSpec

ROWS = [("98=72:", "12"), ("55=10:", "3"), ("83=05:", "\\frac{1}{2}")]
"""Problems that the small checkpoint's tokenizer can read, and their golds."""


def overrides(source: Path) -> list[str]:
    """What turns the shipped benchmark `math500` into the file's problems."""
    dataset = "evaluation.benchmarks.math500.dataset"
    return [
        "benchmarks=[math500]",
        f"{dataset}.source=file",
        f"{dataset}.repository=null",
        f"{dataset}.path='{source}'",
        f"{dataset}.expected_rows=3",
        "evaluation.benchmarks.math500.n_problems=3",
        "sampler=transformers",
        "dtype=float32",
        "prompt=plain",
        "prompt_tokens=16",
        "response_tokens=8",
    ]


def write_source(path: Path) -> Path:
    """A file in the layout of MATH-500."""
    rows = [{"problem": problem, "answer": gold} for problem, gold in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fetched(root: Path, evaluation: EvalSpec) -> list[Path]:
    """Prepare the datasets of an evaluation under a run root; their folders."""
    folders = []
    for benchmark in evaluation.benchmarks.values():
        assert benchmark.dataset is not None
        folder = _fetched(root, benchmark.dataset)
        folders.append(folder)
    return folders


def _fetched(root: Path, dataset: DatasetSpec) -> Path:
    spec = dataset_stage(dataset).spec.as_json()
    folder = shared_data(root, dataset.name, spec["fingerprint"])
    write_json(folder / "spec.json", spec)
    assert fetch([str(folder)]) == 0
    return folder
