"""Checkpoints in Hugging Face format, and the whole training state for resuming.

A checkpoint is for everybody: config, safetensors and tokenizer, read by transformers and vLLM. The
state is for this engine alone: weights, optimizer moments and counters, with a digest, so that a
killed run resumes exactly where it stood. Neither is ever pickled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from fgrpo_bench.engines.embedded.model import Policy
from fgrpo_bench.engines.embedded.pretrained import (
    NORM_EPSILON,
    WEIGHTS,
    Architecture,
    FolderTokenizer,
    folder_tokenizer,
    read_folder,
    refused,
)
from fgrpo_bench.engines.embedded.tokenizer import EOS, PAD, Tokenizer, characters, load_tokenizer
from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_record, write_bytes, write_folder
from fgrpo_bench.specs import ModelSpec
from fgrpo_bench.stages.digests import sha256_file


def save_checkpoint(folder: Path, policy: Policy, tokenizer: Tokenizer) -> str:
    """Write a checkpoint folder whole or not at all; returns the sha256 of its weights."""
    weights = {name: value.cpu().clone() for name, value in policy.state_dict().items()}
    content = save(weights, metadata={"format": "pt"})
    write_folder(folder, {WEIGHTS: content} | _other_files(policy, tokenizer))
    return hashlib.sha256(content).hexdigest()


def _other_files(policy: Policy, tokenizer: Tokenizer) -> dict[str, bytes]:
    if isinstance(tokenizer, FolderTokenizer):
        return tokenizer.folder_files()
    drawing = {"eos_token_id": EOS, "pad_token_id": PAD, "do_sample": True, "temperature": 1.0}
    texts = {"config.json": _config(policy).as_json(), "generation_config.json": drawing}
    return {
        name: (json.dumps(content, indent=2) + "\n").encode()
        for name, content in (texts | tokenizer.files(policy.n_positions)).items()
    }


def load_checkpoint(folder: Path, device: str, sha256: str | None) -> tuple[Policy, Tokenizer]:
    """A policy and its tokenizer; ValueError where the weights are not those expected.

    sha256: what the completion marker says of the weights; None accepts any.
    """
    if not (folder / WEIGHTS).exists():
        raise FileNotFoundError(
            f"{folder} holds no {WEIGHTS}: delete the DONE.json of its stage and run the same "
            "command again to make it anew"
        )
    actual = sha256_file(folder / WEIGHTS)
    if sha256 not in (None, actual):
        raise ValueError(
            f"{folder / WEIGHTS} has sha256 {actual}, but its stage recorded {sha256}: the file "
            "was changed or damaged; delete the stage's DONE.json and run the same command again "
            "to make it anew"
        )
    if characters(folder) is None:
        read = read_folder(folder)
        tokenizer: Tokenizer = folder_tokenizer(folder)
    else:
        read, tokenizer = (
            _architecture(read_record(folder / "config.json", Config)),
            load_tokenizer(folder),
        )
    ends = (tokenizer.eos, tokenizer.pad)
    policy = Policy(read.spec, read.vocabulary_size, read.n_positions, tied=read.tied, ends=ends)
    weights = load_file(folder / WEIGHTS)
    if read.tied:  # some write it twice
        weights.pop("lm_head.weight", None)
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        message = " ".join(str(error).split())[:300]
        raise refused(folder, f"has other weights than its config.json says ({message})") from error
    return policy.to(device), tokenizer


def _architecture(config: Config) -> Architecture:
    spec = ModelSpec(
        name="loaded",
        hidden_size=config.hidden_size,
        n_layers=config.num_hidden_layers,
        n_heads=config.num_attention_heads,
        n_kv_heads=config.num_key_value_heads,
        intermediate_size=config.intermediate_size,
        rope_theta=config.rope_theta,
    )
    return Architecture(
        spec=spec,
        vocabulary_size=config.vocab_size,
        n_positions=config.max_position_embeddings,
        tied=True,
        eos=EOS,
    )


@dataclass(frozen=True, kw_only=True)
class Config(Record):
    """config.json of a checkpoint, as transformers reads it."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    max_position_embeddings: int
    rope_theta: float


ALWAYS = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "rms_norm_eps": NORM_EPSILON,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "attention_dropout": 0.0,
    "initializer_range": 0.02,
    "bos_token_id": None,
    "eos_token_id": EOS,
    "pad_token_id": PAD,
    "torch_dtype": "float32",
}
"""The rest of config.json, the same for all models of this engine."""


def _config(policy: Policy) -> Config:
    spec = policy.spec
    return Config(
        vocab_size=policy.vocabulary_size,
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_hidden_layers=spec.n_layers,
        num_attention_heads=spec.n_heads,
        num_key_value_heads=spec.n_kv_heads,
        max_position_embeddings=policy.n_positions,
        rope_theta=spec.rope_theta,
        further=ALWAYS,
    )


@dataclass(frozen=True, kw_only=True)
class Counters:
    """How far a training run is."""

    step: int
    """Rollout batches (or warm-up steps) done."""
    optimizer_steps: int
    """Optimizer steps done."""
    rollouts: int
    """Rollouts sampled."""
    tokens: int
    """Tokens of those rollouts, end tokens included."""
    cursor: int
    """Prompts taken from the stream of epochs."""


def save_state(path: Path, state: Mapping[str, Tensor], counters: Counters, mark: str) -> None:
    """Write the whole state whole or not at all; mark: the stage's fingerprint."""
    tensors = {name: value.cpu() for name, value in state.items()}
    header = asdict(counters) | {"fingerprint": mark, "sha256": _digest(tensors)}
    write_bytes(path, save(tensors, metadata={"state": json.dumps(header)}))


def restore_state(
    paths: StagePaths,
    state: Mapping[str, Tensor],
    *,
    mark: str,
    last_step: int | None,
) -> Counters | None:
    """Load the newest whole state of this fingerprint; None where there is none.

    last_step: states past it are not used (their metrics are missing); None sets no bound.
    A damaged state is named and passed over: the run resumes from the older slot or from its start
    and ends with the same weights, only later.
    """
    states: list[tuple[Counters, dict[str, Tensor]]] = []
    for path in (paths.state(0), paths.state(1)):
        if not path.exists():
            continue
        try:
            with safe_open(path, "pt") as file:
                header = json.loads(file.metadata()["state"])
            tensors = load_file(path)
            if header.pop("sha256") != _digest(tensors):
                raise ValueError("its digest does not match")
            if tensors.keys() != state.keys():
                raise ValueError(f"it holds {', '.join(sorted(tensors))}")
            written_by = header.pop("fingerprint")
            counters = Counters(**header)
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            print(f"{path} is damaged ({error}); it is passed over", flush=True)
            continue
        if written_by != mark:
            continue
        if last_step is not None and counters.step > last_step:
            print(f"{path} is past the metrics; it is passed over", flush=True)
            continue
        states.append((counters, tensors))
    if not states:
        return None
    counters, tensors = max(states, key=lambda state: state[0].step)
    for name, tensor in state.items():
        tensor.copy_(tensors[name])
    return counters


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
