"""A small dataset on disk as fetched, and what asks for draws of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evaluators.records import SampleRequest, SamplingTarget
from fgrpo_bench.core.problems import Problem
from fgrpo_bench.core.seeds import draw_seeds
from fgrpo_bench.data.__main__ import main as fetch
from fgrpo_bench.files.paths import shared_data
from fgrpo_bench.files.whole import write_json
from fgrpo_bench.kinds.evaluate import sampling_identity
from fgrpo_bench.kinds.fetch import dataset_stage
from fgrpo_bench.specs import DatasetSpec, EvalSpec, PromptSpec, from_dict
from fgrpo_bench.stages.digests import weights_sha256

PLAIN = PromptSpec(chat_template=False, system=None)
N, LENGTH = 24, 8
"""Draws of a problem, and tokens of a response."""
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


def changed(words: list[str], *others: str) -> list[str]:
    """The words with others, of which each takes the place of that with the same key."""
    keys = {word.partition("=")[0] for word in others}
    return [*(word for word in words if word.partition("=")[0] not in keys), *others]


def write_source(path: Path) -> Path:
    """A file in the layout of MATH-500."""
    rows = [{"problem": problem, "answer": gold} for problem, gold in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def fetched(root: Path, evaluation: EvalSpec) -> list[Path]:
    """Prepare the datasets of an evaluation under a run root; their folders."""
    specs = (benchmark.dataset for benchmark in evaluation.benchmarks.values())
    return [_fetched(root, spec) for spec in specs if spec is not None]


def _fetched(root: Path, dataset: DatasetSpec) -> Path:
    spec = dataset_stage(dataset).spec.as_json()
    folder = shared_data(root, dataset.name, spec["fingerprint"])
    write_json(folder / "spec.json", spec)
    assert fetch([str(folder)]) == 0
    return folder


def evaluation(**changes: Any) -> EvalSpec:
    made = {
        "name": "x",
        "sampler": "transformers",
        "benchmarks": {
            "countdown": {"name": "countdown", "n_problems": 3, "grader": "countdown"}
            | {"dataset": None, "extra_graders": [], "prompt": None}
        },
        "n_samples": N,
        "ks": [1],
        "temperature": 1.0,
        "top_p": 1.0,
        "dtype": "float32",
        "seed": 0,
        "prompts": {},
    }
    return from_dict(EvalSpec, made | changes)


def settings(prompt_tokens: int = 16, prompt: PromptSpec = PLAIN) -> dict[str, Any]:
    return sampling_identity(
        evaluation(),
        task=None,
        prompt=prompt,
        prompt_tokens=prompt_tokens,
        response_tokens=LENGTH,
        stream=0,
    )


def asked(checkpoint: Path, **changes: Any) -> SamplingTarget:
    """Draws of a checkpoint on processors, by an evaluation with changes."""
    return SamplingTarget(
        folder=checkpoint,
        sha256=weights_sha256(checkpoint),
        evaluation=evaluation(**changes),
        settings=settings(),
        device="cpu",
        placement=None,
    )


def wanted(problems: list[Problem], draws: int = N, further: int = 0) -> list[SampleRequest]:
    seeds = draw_seeds(0, [p.problem_id for p in problems], np.arange(draws)) + further
    return [
        SampleRequest(problem=problem, draw=i, seed=seed)
        for problem, own in zip(problems, seeds.tolist(), strict=True)
        for i, seed in enumerate(own)
    ]


def strangers_model(folder: Path, *, context: int = 256) -> Path:
    """A Qwen2 of random weights with a byte-level tokenizer and no chat template."""
    model = untrained_model(
        folder,
        ["What is 1 + 2? \\boxed{3}"],
        special_tokens=["<eos>", "<pad>"],
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
    )
    model.save_pretrained(folder)
    return folder


def untrained_model(
    folder: Path, texts: Sequence[str], *, special_tokens: list[str], **config: Any
) -> Any:
    """A Qwen2 of random weights, whose tokens are bytes and what is frequent in these texts.

    Config and tokenizer are saved, weights are not: without config.json AutoTokenizer splits
    otherwise. special_tokens: the one that ends a response, and one for padding where it has one.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=special_tokens,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special_tokens[0])
    ends = {"eos_token_id": 0}
    if special_tokens[1:]:
        fast.pad_token, ends["pad_token_id"] = special_tokens[1], 1
    fast.save_pretrained(folder)
    qwen2 = Qwen2Config(**{"vocab_size": len(fast)} | ends | config)
    qwen2.save_pretrained(folder)
    torch.manual_seed(0)
    return Qwen2ForCausalLM(qwen2)
