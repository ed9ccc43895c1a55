"""Published models: their files fetched once, checked, and put where a base model stands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fgrpo_bench.specs import PretrainedSpec
from fgrpo_bench.specs.stored import FetchSpec
from fgrpo_bench.stages.digests import weights_sha256
from fgrpo_bench.stages.files import read_json
from fgrpo_bench.stages.paths import StagePaths, between
from fgrpo_bench.stages.records import Record
from fgrpo_bench.stages.stage import StageRun

PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
"""What is fetched of a model: no pickled weights, which could run code."""


@dataclass(frozen=True, kw_only=True)
class ModelFacts(Record):
    """What a fetched model says in its marker beside what all stages say."""

    step: int
    path: str
    """Folder, or id at the publisher."""
    revision: str | None = None
    """None of a folder."""
    weights_sha256: str


def fetch_model(spec: FetchSpec, run: StageRun) -> ModelFacts:
    """Run a fetch stage of a model; returns facts for its completion marker.

    Raises ValueError where a folder lacks something (`check_model`), OSError where the publisher
    cannot be reached.
    """
    model = spec.model_spec
    folder, revision = Path(model.path).absolute(), None
    if not folder.is_dir():
        folder, revision = _download(model, run.paths.folder / "source")
    check_model(folder, chat_template=bool(spec.chat_template))
    link(folder, run.paths)
    own = run.paths.checkpoint(0)
    run.leave(*(file for pattern in PATTERNS for file in sorted(own.glob(pattern))))
    return ModelFacts(
        step=0,
        path=model.path,
        revision=revision,
        weights_sha256=weights_sha256(own, run.digest),
    )


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


def check_model(folder: Path, *, chat_template: bool) -> None:
    """ValueError that names what a model's folder lacks.

    chat_template: whether it must have one.
    """
    for part, names in {
        "config": ("config.json",),
        "tokenizer": ("tokenizer.json", "tokenizer.model", "vocab.json"),
        "weights": ("*.safetensors",),
    }.items():
        if not any(file for name in names for file in folder.glob(name)):
            raise ValueError(
                f"{folder} has no {part} ({' or '.join(names)}): a model is a folder with config, "
                "tokenizer and weights; add what is missing, or name another folder"
            )
    if chat_template and not has_chat_template(folder):
        raise ValueError(
            f"the tokenizer in {folder} has no chat template (chat_template.jinja, or the key "
            "chat_template of tokenizer_config.json): add one, or set "
            "experiment.train.prompt.chat_template=false"
        )


def has_chat_template(folder: Path) -> bool:
    """Whether a tokenizer's files hold a chat template, wherever transformers would look."""
    config = folder / "tokenizer_config.json"
    return (folder / "chat_template.jinja").exists() or (
        config.exists() and bool(read_json(config).get("chat_template"))
    )


def link(folder: Path, paths: StagePaths) -> None:
    """Let the stage's checkpoint 0 be this folder, by a link that holds where the run root, or a
    folder above the model, is a link itself."""
    target = paths.checkpoint(0)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.tmp")
    aside.unlink(missing_ok=True)
    aside.symlink_to(between(target.parent, folder))
    aside.replace(target)
