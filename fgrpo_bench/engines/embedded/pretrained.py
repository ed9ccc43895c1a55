"""A base model of one's own: a folder with a Qwen2 as Hugging Face has it, and its own tokenizer.

In: the folder. Out: its architecture as this engine computes it, or the sentence that refuses it
(`read_folder`, without torch, so that a plan can ask), and its tokenizer. Nothing in the folder is
run: weights are safetensors, and no code comes with the tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fgrpo_bench.data.fetch import COPY, check_model
from fgrpo_bench.engines.embedded.tokenizer import Tokenizer
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import parse_record, read_json, readable_json
from fgrpo_bench.specs import ModelSpec
from fgrpo_bench.stages.digests import combined_sha256, sha256_file

WEIGHTS = "model.safetensors"
NORM_EPSILON = 1e-6
"""Qwen2's rms_norm_eps, as config.json of a checkpoint says it."""
MOST_PARAMETERS = 10_000_000
"""Of such a model: what processors train in hours."""
MOST_POSITIONS = 4096
"""Of a prompt and its response together, whatever the model itself could take."""
COPIED = ("*.json", "*.txt", "*.jinja")
"""What stands beside the weights, and so in every checkpoint of a run."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What this engine computes of a Qwen2."""

    spec: ModelSpec
    vocabulary_size: int
    n_positions: int
    tied: bool
    """Whether the embedding is the last layer too."""
    eos: int
    """The token that ends a response."""


@dataclass(frozen=True, kw_only=True)
class FolderConfig(Record):
    """config.json of a Qwen2, as far as it is read; names and defaults are those of
    transformers."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int | None = None
    max_position_embeddings: int
    head_dim: int | None = None
    hidden_act: str = "silu"
    rms_norm_eps: float = NORM_EPSILON
    rope_theta: float | None = None
    rope_parameters: dict[str, Any] | None = None
    rope_scaling: dict[str, Any] | None = None
    tie_word_embeddings: bool = False
    use_sliding_window: bool = False
    eos_token_id: Any = None
    auto_map: dict[str, Any] | None = None


def refused(folder: Path, why: str) -> ValueError:
    """The one sentence for what this engine does not do."""
    return ValueError(
        f"{folder} {why}: the built-in engine trains Qwen2 models of up to {MOST_PARAMETERS:,} "
        "parameters; for this one take an experiment of OpenRLHF, as conf/experiment/"
        "qwen2.5-7b.yaml is one and `fgrpo-bench new experiment` writes another"
    )


def read_folder(folder: Path) -> Architecture:
    """The architecture of a model's folder; ValueError where this engine does not compute it."""
    if not folder.is_dir():
        raise refused(folder, "is no folder here")
    check_model(folder, chat_template=False, trust_remote_code=True)  # refused below, in any case
    for name in ("tokenizer.json", WEIGHTS):
        if not (folder / name).is_file():
            raise refused(folder, f"has no {name}")
    content = read_json(folder / "config.json", COPY)
    if (named := content.get("model_type")) != "qwen2":
        raise refused(folder, f"is a {named}, no qwen2")
    config = parse_record(folder / "config.json", content, FolderConfig, COPY)
    drawing, tokenizer = (
        readable_json(folder / name) or {}
        for name in ("generation_config.json", "tokenizer_config.json")
    )
    rope = config.rope_parameters or config.rope_scaling or {}
    theta: Any = config.rope_theta or rope.get("rope_theta")
    heads, width = config.num_attention_heads, config.hidden_size
    kv_heads = config.num_key_value_heads or heads
    ends = drawing.get("eos_token_id", config.eos_token_id)
    ends = ends if isinstance(ends, list) else [ends]
    shape = f"hidden_size={width}, num_attention_heads={heads}, num_key_value_heads={kv_heads}"
    other_shape = width % (2 * heads) or heads % kv_heads or config.head_dim not in (
        None, width // heads)  # fmt: skip
    for is_other, why in (
        (config.auto_map or tokenizer.get("auto_map"), "brings code of its own (auto_map)"),
        (config.hidden_act != "silu", f"has hidden_act={config.hidden_act}"),
        (config.rms_norm_eps != NORM_EPSILON, f"has rms_norm_eps={config.rms_norm_eps}"),
        (rope.get("rope_type", rope.get("type", "default")) != "default", "scales its positions"),
        (not theta, "has no rope_theta"),
        (config.use_sliding_window, "has use_sliding_window"),
        (other_shape, f"has {shape}"),
        (len(ends) != 1 or not isinstance(ends[0], int), f"has the end tokens {ends}, not one"),
    ):
        if is_other:
            raise refused(folder, why)
    architecture = Architecture(
        spec=ModelSpec(
            name="loaded",
            hidden_size=width,
            n_layers=config.num_hidden_layers,
            n_heads=heads,
            n_kv_heads=kv_heads,
            intermediate_size=config.intermediate_size,
            rope_theta=float(theta),
        ),
        vocabulary_size=config.vocab_size,
        n_positions=min(config.max_position_embeddings, MOST_POSITIONS),
        tied=config.tie_word_embeddings,
        eos=ends[0],
    )
    held = n_parameters(folder)
    if held > MOST_PARAMETERS:
        raise refused(folder, f"has {held:,} parameters")
    return architecture


def _shapes(weights: Path) -> Mapping[str, Sequence[int]]:
    """Of the tensors of a file, by name, without reading them."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, "np") as file:
            return {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{weights} is damaged ({error}): {COPY}") from error


def n_parameters(folder: Path) -> int:
    """Weights of a model's folder."""
    return sum(prod(shape) for shape in _shapes(folder / WEIGHTS).values())


def digests(folder: Path) -> dict[str, str]:
    """What defines a folder's model, wherever it lies: digests of its weights, and of the files
    beside them."""
    by_name = {path.name: sha256_file(path) for path in _tokenizer_files(folder)}
    return {
        "weights_sha256": sha256_file(folder / WEIGHTS),
        "files_sha256": combined_sha256(by_name),
    }


def _tokenizer_files(folder: Path) -> list[Path]:
    return sorted(path for pattern in COPIED for path in folder.glob(pattern))


class FolderTokenizer(Tokenizer):
    """The tokenizer of such a folder; padding is its end token, which ends a response as well."""

    def __init__(self, folder: Path, read: Architecture) -> None:
        from transformers import AutoTokenizer

        self._files = {path.name: path.read_bytes() for path in _tokenizer_files(folder)}
        try:
            self._inner: Any = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
        except (ValueError, OSError, KeyError) as error:
            message = str(error).splitlines()[0]
            raise refused(folder, f"has a tokenizer that cannot be loaded ({message})") from error
        self.eos = self.pad = read.eos
        tokens, embedded = self._inner.vocab_size, read.vocabulary_size
        if tokens > embedded:
            raise refused(
                folder, f"has a tokenizer of {tokens} tokens, more than vocab_size={embedded}"
            )
        if self._inner("1")["input_ids"] != self._token_ids("1"):
            raise refused(folder, "has a tokenizer that adds tokens of its own to a text")

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self._inner)

    def _token_ids(self, text: str) -> list[int]:
        return list(self._inner(text, add_special_tokens=False)["input_ids"])

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The tokens of each text."""
        return [np.array(self._token_ids(text), np.int64) for text in texts]

    def decode(self, tokens: NDArray[np.int64]) -> list[str]:
        """Sampled rows [rows, length] -> texts, up to the end token, without special ones."""
        rows = tokens.tolist()
        ended = [row[: row.index(self.eos)] if self.eos in row else row for row in rows]
        return [str(self._inner.decode(row, skip_special_tokens=True)) for row in ended]

    def folder_files(self) -> dict[str, bytes]:
        """What stands beside a checkpoint's weights: the files of the folder, which a checkpoint
        takes over but for the type of its weights."""
        config = json.loads(self._files["config.json"])
        typed = config | {key: "float32" for key in ("dtype", "torch_dtype") if key in config}
        return self._files | {"config.json": (json.dumps(typed, indent=2) + "\n").encode()}


@lru_cache(maxsize=4)
def folder_tokenizer(folder: Path) -> FolderTokenizer:
    """That of a folder, loaded once; ValueError as `read_folder`."""
    return FolderTokenizer(folder, read_folder(folder))
