"""Published models: their files fetched once, checked, and put where a base model stands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fgrpo_bench.checkpoints import weights_sha256
from fgrpo_bench.paths import StagePaths
from fgrpo_bench.specs import PretrainedSpec, from_dict
from fgrpo_bench.stage import StageRun

PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
"""What is fetched of a model: no pickled weights, which could run code."""


def fetch_model(spec: dict[str, Any], run: StageRun) -> dict[str, Any]:
    """Run a fetch stage of a model; returns facts for its completion marker.

    Raises ValueError where a folder is no checkpoint with a tokenizer, OSError where the publisher
    cannot be reached.
    """
    model = from_dict(PretrainedSpec, spec["model"])
    facts: dict[str, Any] = {"step": 0, "path": model.path}
    if Path(model.path).is_dir():
        folder = Path(model.path).absolute()
    else:
        folder, facts["revision"] = _download(model, run.paths.folder / "source")
    check_model(folder)
    link(folder, run.paths)
    return facts | {"weights_sha256": weights_sha256(folder)}


def _download(model: PretrainedSpec, folder: Path) -> tuple[Path, str]:
    from huggingface_hub import HfApi, snapshot_download

    try:
        revision = HfApi().model_info(model.path, revision=model.revision).sha
        snapshot_download(
            model.path, revision=revision, local_dir=folder, allow_patterns=list(PATTERNS)
        )
    except Exception as error:  # whatever the client and its transport may raise
        raise OSError(
            f"cannot fetch model {model.path}: {str(error).splitlines()[0]}; run this stage where "
            "the publisher is reached (HF_ENDPOINT names a mirror, HF_TOKEN opens a gated model), "
            "or name a folder with experiment.train.pretrained.path"
        ) from error
    return folder, str(revision)


def check_model(folder: Path) -> None:
    """ValueError that names what a model's folder lacks."""
    for what, names in {
        "config": ("config.json",),
        "tokenizer": ("tokenizer.json", "tokenizer.model", "vocab.json"),
    }.items():
        if not any((folder / name).exists() for name in names):
            raise ValueError(
                f"{folder} has no {what} ({' or '.join(names)}): a model needs one beside its "
                "weights; add it, or name another folder"
            )


def link(folder: Path, paths: StagePaths) -> None:
    """Let the stage's checkpoint 0 be this folder."""
    target = paths.checkpoint(0)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.tmp")
    aside.unlink(missing_ok=True)
    aside.symlink_to(os.path.relpath(folder, target.parent))
    aside.replace(target)
