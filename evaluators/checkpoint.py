"""A checkpoint that somebody names: found or fetched, checked, and put where a stage's would be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fgrpo_bench.data.fetch import PATTERNS, check_model, has_chat_template, link
from fgrpo_bench.specs.fingerprint import fingerprint
from fgrpo_bench.specs.frozen import Frozen, trained_with
from fgrpo_bench.stages.digests import weights_sha256
from fgrpo_bench.stages.files import now, read_json, write_json
from fgrpo_bench.stages.markers import Marker, read_marker, write_marker
from fgrpo_bench.stages.paths import StagePaths

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def locate(checkpoint: str, revision: str | None, cache: Path) -> Path:
    """The folder of a checkpoint; one on the Hub is fetched into `cache`.

    FileNotFoundError where there is none, OSError where the Hub does not give it.
    """
    folder = Path(checkpoint)
    if folder.is_dir():
        return folder.absolute()
    if not HUB_ID.fullmatch(checkpoint):
        raise FileNotFoundError(
            f"checkpoint={checkpoint} is no folder and no id of the Hub (organisation/model): give "
            "the folder that holds config.json and *.safetensors, e.g. "
            "runs/groupsize/countdown/v1/grpo-n8-g0-s11/checkpoints/step-00300"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        return Path(
            snapshot_download(
                checkpoint,
                revision=revision,
                local_dir=cache / checkpoint.replace("/", "--"),
                allow_patterns=list(PATTERNS),
            )
        )
    except GatedRepoError as error:
        raise PermissionError(
            f"checkpoint={checkpoint} is gated: accept its terms at "
            f"https://huggingface.co/{checkpoint} and set HF_TOKEN to a token of that account"
        ) from error
    except RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f"checkpoint={checkpoint} is no folder here and no model of the Hub: check the name; a "
            "private model needs HF_TOKEN"
        ) from error
    except Exception as error:  # whatever the client and its transport may raise
        raise OSError(
            f"checkpoint={checkpoint} is no folder here and cannot be fetched "
            f"({str(error).splitlines()[0]}): run this where the Hub is reached (HF_ENDPOINT names "
            "a mirror), or give a folder"
        ) from error


def check(folder: Path, *, sampler: str, chat_template: bool, tokens: int | None) -> None:
    """ValueError where a sampler cannot use a checkpoint.

    tokens: of the longest prompt and response together; None under the embedded engine.
    """
    check_model(folder, chat_template=False)
    config = read_json(folder / "config.json")
    named = config.get("architectures") or ["none"]
    if sampler == "embedded" and not _is_embedded(folder):
        raise ValueError(
            f"{folder} is a {named[0]} with a tokenizer of its own: sampler=embedded reads only "
            "checkpoints of the embedded engine; set sampler=vllm or sampler=transformers"
        )
    if not named[0].endswith("ForCausalLM"):
        raise ValueError(
            f"{folder} is a {named[0]}: only a causal language model (...ForCausalLM in "
            "config.json) can be sampled; name another checkpoint"
        )
    if sampler != "embedded" and chat_template and not has_chat_template(folder):
        raise ValueError(
            f"the tokenizer in {folder} has no chat template (chat_template.jinja, or the key "
            "chat_template of tokenizer_config.json): add one, or set prompt=plain"
        )
    context = config.get("max_position_embeddings")
    if tokens is not None and context is not None and tokens > context:
        raise ValueError(
            f"prompt_tokens and response_tokens are {tokens} together, but the context of {folder} "
            f"is {context} tokens (max_position_embeddings): lower response_tokens"
        )


def _is_embedded(folder: Path) -> bool:
    tokenizer = folder / "tokenizer.json"
    return tokenizer.exists() and read_json(tokenizer).get("model", {}).get("type") == "WordLevel"


def task_of(folder: Path) -> dict[str, Any] | None:
    """The task of the run that a checkpoint belongs to; None where it belongs to none."""
    stage = StagePaths(folder.resolve().parents[1])
    if folder.resolve().parent.name != "checkpoints" or not stage.spec.exists():
        return None
    return trained_with(stage, "task")


def adopt(folder: Path, paths: StagePaths, *, named: str) -> str:
    """Let a stage's checkpoint 0 be this folder; returns the digest of the weights.

    ValueError where the stage has been that of other weights.
    """
    sha256 = weights_sha256(folder)
    if paths.done.exists():
        known = read_marker(paths).weights_sha256
        if known != sha256:
            raise ValueError(
                f"{paths.folder} belongs to weights with sha256 {known}, but those of {named} have "
                f"{sha256}: they were changed, or it is another model; give it another name=, or "
                "move that folder away"
            )
        if not paths.checkpoint(0).exists():  # the model or the runs were moved since
            link(folder, paths)
        return sha256
    link(folder, paths)
    mark = fingerprint({"weights_sha256": sha256})
    write_json(paths.spec, {"kind": "checkpoint", "fingerprint": mark, "target": {}, "path": named})
    marker = Marker(
        fingerprint=mark, target={}, finished=now(), outputs={}, step=0, weights_sha256=sha256
    )
    write_marker(paths, marker)
    return sha256


def named(stage: StagePaths, step: int) -> str:
    """What a checkpoint was called when it was adopted; its folder where a stage here makes it."""
    spec = read_json(stage.spec)
    if "path" not in spec:
        return str(stage.checkpoint(step))
    return str(Frozen(stage, spec).value("path"))


def default_name(checkpoint: str, sha256: str) -> str:
    """e.g. `qwen2.5-7b-1f0a52c3`: the last part of the path, or two where it is a step."""
    parts = [part for part in Path(checkpoint).parts if part not in ("/", ".", "..", "checkpoints")]
    last = parts[-2:] if parts[-1].startswith("step-") else parts[-1:]
    slug = re.sub(r"[^a-z0-9._-]+", "-", "-".join(last).lower()).strip("-._")[:48]
    return f"{slug or 'checkpoint'}-{sha256[:8]}"
