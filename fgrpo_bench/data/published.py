"""What a model says of itself: parameters, shape, context and chat template.

In: a folder, or an id on the Hub. Out: a PretrainedSpec with its facts and where they come from.
No weights are downloaded or loaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from fgrpo_bench.data.fetch import check_model, has_chat_template
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import read_json, readable_record
from fgrpo_bench.specs import ModelShape, PretrainedSpec

MOST_HEADER = 100_000_000
"""Bytes of a header of safetensors, by its format."""
IN_A_NAME = re.compile(r"(\d+(?:\.\d+)?)\s*([bm])(?![a-z0-9])", re.IGNORECASE)
"""Parameters as a model's name has them, e.g. 1.5B."""


@dataclass(frozen=True, kw_only=True)
class PublishedConfig(Record):
    """What of a model's config.json tells its shape."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    num_key_value_heads: int | None = None
    """None: as many as attention heads."""
    head_dim: int | None = None
    """None: the hidden size divided among the heads."""


def model_shape(pretrained: PretrainedSpec) -> ModelShape | None:
    """As it is declared, else as config.json of the model's folder has it; None where neither says
    it."""
    if pretrained.shape is not None:
        return pretrained.shape
    config = readable_record(Path(pretrained.path) / "config.json", PublishedConfig)
    if config is None:
        return None
    heads = config.num_attention_heads
    try:
        return ModelShape(
            hidden_size=config.hidden_size,
            n_layers=config.num_hidden_layers,
            n_kv_heads=config.num_key_value_heads or heads,
            head_dim=config.head_dim or config.hidden_size // max(heads, 1),
            vocabulary_size=config.vocab_size,
        )
    except ValueError:  # another architecture's idea of these fields
        return None


@dataclass(frozen=True, kw_only=True)
class Published:
    """What an experiment says of its model."""

    spec: PretrainedSpec
    chat_template: bool
    context: int | None
    """Tokens of a prompt and its response; None where nobody says."""
    source: str
    """Where its number of parameters comes from."""
    unknown: str | None
    """What could not be read, and how to get it."""
    folder: Path | None = None
    """Where its config lies; None where that was not read."""


def read_published(path: str, candidates: Iterable[PretrainedSpec] = ()) -> Published:
    """A folder's facts; else those of a known model of that id, else what the publisher says, else
    its name. ValueError where none says how many parameters there are, or a folder is no model."""
    folder = Path(path)
    name = re.sub(r"[^a-z0-9._-]+", "-", folder.name.lower()).strip("-._")[:64] or "model"
    if folder.is_dir():
        check_model(folder, chat_template=False, trust_remote_code=True)  # is for whoever plans it
        location = str(folder.absolute())
        spec = PretrainedSpec(
            name=name, path=location, revision=None, parameters=parameters_in(folder)
        )
        return Published(
            spec=spec,
            chat_template=has_chat_template(folder),
            context=_context(folder),
            source="read in its folder",
            folder=folder,
            unknown=None
            if model_shape(spec)
            else _no_shape(f"{folder}/config.json names it otherwise"),
        )
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", path):
        raise ValueError(
            f"--model {path} is no folder here and no id of the Hub (organisation/model): give one "
            "of these"
        )
    for model in candidates:
        if model.path == path:
            return Published(spec=model, chat_template=True, context=None,
                         source="as conf/experiment has it", unknown=None)  # fmt: skip
    return _published(path, name)


def _context(folder: Path) -> int | None:
    context = read_json(folder / "config.json").get("max_position_embeddings")
    return context if isinstance(context, int) else None


def parameters_in(folder: Path) -> int:
    """Of all weights of a folder, by the headers of its files; ValueError that names a damaged
    one."""
    total = 0
    for file in folder.glob("*.safetensors"):
        try:
            with file.open("rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                header = json.loads(stream.read(min(size, MOST_HEADER)))
            total += sum(prod(of["shape"]) for key, of in header.items() if key != "__metadata__")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} is no whole safetensors file: copy it again") from error
    return total


def _published(path: str, name: str) -> Published:
    """What the publisher says of a model, of which no weights are downloaded."""
    from huggingface_hub import HfApi, hf_hub_download

    try:
        info = HfApi().model_info(path, timeout=10, expand=["safetensors", "siblings"])
        if info.safetensors is None:
            raise OSError("it has no safetensors")
        for file in ("config.json", "tokenizer_config.json", "chat_template.jinja"):
            if file in {of.rfilename for of in info.siblings or ()}:
                folder = Path(hf_hub_download(path, file)).parent
        located = PretrainedSpec(
            name=name, path=str(folder), revision=None, parameters=info.safetensors.total
        )
        shape = model_shape(located)
        return Published(
            spec=replace(located, path=path, shape=shape),
            chat_template=has_chat_template(folder),
            context=_context(folder),
            source="as its publisher has it",
            folder=folder,
            unknown=None if shape else _no_shape("its config.json names it otherwise"),
        )
    except Exception as error:  # whatever the client and its transport may raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    size = IN_A_NAME.search(path)
    if size is None:
        raise ValueError(
            f"--model {path} cannot be read here ({reason}), and its name says no number of "
            "parameters: run this where the Hub is reached (HF_ENDPOINT names a mirror), or give "
            "a folder"
        )
    parameters = round(float(size[1]) * {"b": 1e9, "m": 1e6}[size[2].lower()])
    return Published(
        spec=PretrainedSpec(name=name, path=path, revision=None, parameters=parameters),
        chat_template=True,
        context=None,
        source="by its name alone",
        unknown=f"{path} was not reached ({reason}): its parameters are those of its name, and "
        "that it has a chat template is a guess. " + _no_shape("only its config.json says it"),
    )


def _no_shape(why: str) -> str:
    return (
        "memory is told without logits, activations and cache, since the model's shape is not "
        f"known ({why}): set train.pretrained.shape as conf/experiment/qwen2.5-7b.yaml does, or "
        "give a folder"
    )
