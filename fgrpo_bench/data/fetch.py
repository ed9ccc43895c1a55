"""What is fetched from a publisher, once: a file of a dataset or tokenizer, or a published model.

In: a repository's name and a revision. Out: files on this machine, pinned to a commit, a download
that was cut short resumed; of a model also its facts, and the stage's checkpoint 0 as a link to it.
`prepare` makes a dataset's table of its file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from fgrpo_bench.files.paths import StagePaths
from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import point_to, read_json, readable_json, sync_folder
from fgrpo_bench.specs import PretrainedSpec
from fgrpo_bench.specs.stored import FetchSpec
from fgrpo_bench.stages.digests import check_weights, sha256_file, weights_sha256
from fgrpo_bench.stages.stage import StageRun

PUBLISHER = "https://huggingface.co"
COPY = "copy it again from where the model is from"
"""For a damaged file of somebody's model."""


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A file and where it came from."""

    path: Path
    endpoint: str
    revision: str
    """The commit."""
    sha256: str


def fetch_file(
    repository: str,
    filename: str,
    *,
    kind: Literal["dataset", "model"],
    revision: str | None,
    folder: Path,
    on_progress: Callable[[int, int], None],
) -> Fetched:
    """Fetch one file into a folder, over https with resume and a progress bar.

    The publisher is HF_ENDPOINT, else huggingface.co; a gated repository takes HF_TOKEN.
    revision: branch, tag or commit; None is main. on_progress(bytes so far, of): called as bytes
    arrive; it may raise to stop there, and the next call resumes. Raises OSError that names the
    address where it cannot be had, ValueError where it is damaged.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined, unused-ignore]

    endpoint = os.environ.get("HF_ENDPOINT", PUBLISHER).rstrip("/")
    url = hf_hub_url(
        repository, filename, repo_type=kind, revision=revision or "main", endpoint=endpoint
    )
    path = folder / filename
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        published = get_hf_file_metadata(url, endpoint=endpoint)
        if published.commit_hash is None or published.etag is None:
            raise OSError("the answer names no commit and digest")
        # hf_hub_download begins anew after a kill, so the file is kept here, by its digest: a part
        # of another version is never continued
        part = path.with_name(f".{path.name}.{published.etag[:16]}.part")
        at_home = urlsplit(published.location).netloc == urlsplit(url).netloc
        headers = build_hf_headers() if at_home else {}  # the token stays at home
        with part.open("ab") as file:
            if published.size is not None and file.tell() > published.size:
                file.truncate(0)
            http_get(
                published.location,
                file,
                resume_size=file.tell(),
                headers=headers | {"Accept-Encoding": "identity"},
                expected_size=published.size,
                displayed_filename=filename,
                tqdm_class=_bar(on_progress),
            )
            file.flush()
            # on the disk before the rename makes it the dataset: after a crash a whole file or none
            os.fsync(file.fileno())
    except Exception as error:
        if not _is_transport(error):
            raise
        if _is_gated(error):
            page = f"{endpoint}/{'datasets/' * (kind == 'dataset')}{repository}"
            raise PermissionError(
                f"{repository} is gated, or does not exist: accept its terms at {page} with your "
                "account there, make a token that may read it, and run the same command again with "
                "HF_TOKEN=<token>"
            ) from None
        raise OSError(
            f"cannot fetch {url}: {str(error).splitlines()[0]}; run this stage on a machine that "
            "reaches it (HF_ENDPOINT names a mirror, HF_TOKEN opens a gated repository), or fetch "
            "the file by other means and use source=file; what has arrived is kept"
        ) from error
    sha256 = sha256_file(part)
    if re.fullmatch(r"[0-9a-f]{64}", published.etag) and published.etag != sha256:
        part.unlink()
        raise ValueError(
            f"{url} arrived with sha256 {sha256}, but its publisher says {published.etag}: it was "
            "damaged on the way and is deleted; run the same command again"
        )
    part.replace(path)
    sync_folder(path.parent)
    return Fetched(path=path, endpoint=endpoint, revision=published.commit_hash, sha256=sha256)


def _is_transport(error: Exception) -> bool:
    """Whether the network or the publisher is at fault, whatever library says so."""
    modules = {base.__module__.partition(".")[0] for base in type(error).__mro__}
    return isinstance(error, OSError) or bool(modules & {"huggingface_hub", "httpx", "httpx2"})


def _is_gated(error: Exception) -> bool:
    """Whether the publisher wants to know who asks; it says so of what does not exist too."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status in (401, 403)


def _bar(on_progress: Callable[[int, int], None]) -> Any:
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined, unused-ignore]

    class DownloadBar(tqdm):  # type: ignore[misc, unused-ignore]
        def update(self, n: float | None = 1) -> bool | None:
            refreshed: bool | None = super().update(n)
            on_progress(int(self.n), int(self.total or 0))
            return refreshed

    return DownloadBar


# Published models: fetched once, checked, and put where a base model stands.

PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.jinja", "*.model")
"""What is fetched of a model: no pickled weights, which could run code."""
CODE = "*.py"
"""What is fetched besides of a model whose own code may run."""
TRUST = "set experiment.train.pretrained.trust_remote_code=true"
"""How a sweep says that it may."""
NAMING_CODE = (
    "config.json",
    "tokenizer_config.json",
    "processor_config.json",
    "preprocessor_config.json",
)
"""Files of a model that may name code of its own by auto_map, for transformers and vLLM."""


def patterns(*, trusted: bool) -> list[str]:
    """PATTERNS, with CODE where a model's own code may run."""
    return [*PATTERNS, CODE] if trusted else list(PATTERNS)


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

    Raises ValueError where a folder lacks something (`check_model`) or has other weights than those
    that were planned with, OSError where the publisher
    cannot be reached.
    """
    model = spec.model_spec
    folder, revision = Path(model.path).absolute(), None
    if not folder.is_dir():
        folder, revision = _download(model, run.paths.folder / "source")
    check_model(
        folder, chat_template=bool(spec.chat_template), trust_remote_code=model.trust_remote_code
    )
    if planned := (spec.identity or {}).get("weights_sha256"):
        check_weights(folder, planned)
    link(folder, run.paths)
    checkpoint = run.paths.checkpoint(0)
    kept_patterns = patterns(trusted=model.trust_remote_code)
    run.register_outputs(
        *(file for pattern in kept_patterns for file in sorted(checkpoint.glob(pattern)))
    )
    return ModelFacts(
        step=0,
        path=model.path,
        revision=revision,
        weights_sha256=weights_sha256(checkpoint, run.digest),
    )


def _download(model: PretrainedSpec, folder: Path) -> tuple[Path, str]:
    from huggingface_hub import HfApi, snapshot_download

    trusted, revision = model.trust_remote_code, None
    # what is refused for its code is refused before gigabytes of weights
    for allowed in (list(NAMING_CODE), patterns(trusted=trusted)):
        try:
            # looked up once, so that both are of one revision
            revision = revision or HfApi().model_info(model.path, revision=model.revision).sha
            snapshot_download(
                model.path, revision=revision, local_dir=folder, allow_patterns=allowed
            )
        except Exception as error:  # whatever the client and its transport may raise
            raise OSError(
                f"cannot fetch model {model.path}: {str(error).splitlines()[0]}; run this stage "
                "where the publisher is reached (HF_ENDPOINT names a mirror, HF_TOKEN opens a "
                "gated model), or name a folder with experiment.train.pretrained.path"
            ) from error
        check_remote_code(folder, trusted=trusted, remedy=TRUST)
    return folder, str(revision)


WEIGHT_PATTERNS = ("*.safetensors", "*.index.json")
"""Those of PATTERNS that are weights, or say where they are."""


def is_no_weight(file: Path) -> bool:
    """Whether a file of a model is of its config, its tokenizer or its code."""
    return any(map(file.match, patterns(trusted=True))) and not any(
        map(file.match, WEIGHT_PATTERNS)
    )


def without_weights(model: PretrainedSpec) -> Path:
    """The folder of a model, which of one on the Hub has config and tokenizer alone, from the Hub's
    own cache where it is not reached; OSError where neither has it."""
    folder = Path(model.path).absolute()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                model.path,
                revision=model.revision,
                allow_patterns=patterns(trusted=model.trust_remote_code),
                ignore_patterns=list(WEIGHT_PATTERNS),
            )
        )
    except Exception as error:  # whatever the client and its transport may raise
        raise OSError(
            f"config and tokenizer of {model.path}, a few MB, cannot be fetched "
            f"({str(error).splitlines()[0]}): run this once where the Hub is reached (HF_ENDPOINT "
            "names a mirror, HF_TOKEN opens a gated model), or name a folder with "
            "experiment.train.pretrained.path"
        ) from error


def check_model(
    folder: Path, *, chat_template: bool, trust_remote_code: bool = False, trust: str = TRUST
) -> None:
    """ValueError that names what a model's folder lacks, or what of it is not read: code of its
    own, and weights that lie elsewhere.

    chat_template: whether it must have one. trust_remote_code, trust: as `trusted` and `remedy` of
    `check_remote_code`.
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
    read_json(folder / "config.json", COPY)
    check_remote_code(folder, trusted=trust_remote_code, remedy=trust)
    for index in sorted(folder.glob("*.index.json")):
        _check_weight_map(index)
    if chat_template and not has_chat_template(folder):
        raise ValueError(
            f"the tokenizer in {folder} has no chat template (chat_template.jinja, or the key "
            "chat_template of tokenizer_config.json): add one, or set "
            "experiment.train.prompt.chat_template=false"
        )


def check_remote_code(folder: Path, *, trusted: bool, remedy: str) -> None:
    """ValueError where a model's folder names code of its own, which transformers, vLLM and
    training engines would run as they load it.

    trusted: whether that was allowed. remedy: how it is.
    """
    if trusted:
        return
    for name in NAMING_CODE:
        if (readable_json(folder / name) or {}).get("auto_map"):
            raise ValueError(
                f"{folder / name} brings code of its own (auto_map), which would run here with "
                f"your rights: read it, and {remedy} where you trust it, or name another model"
            )


def _check_weight_map(index: Path) -> None:
    """ValueError for a file of weights that does not lie beside its index, whose digest would not
    be among those of the model; one of the Hub's cache is a link to its blobs."""
    inside = [index.parent.resolve()]
    if index.parent.parent.name == "snapshots":
        inside.append(index.parent.parent.with_name("blobs").resolve())
    names = (readable_json(index) or {}).get("weight_map")
    for name in sorted({str(file) for file in names.values()} if isinstance(names, dict) else ()):
        is_plain_name = Path(name).name == name
        if not is_plain_name or (index.parent / name).resolve().parent not in inside:
            raise ValueError(
                f"{index} names the weights {name!r}, which are no file of {index.parent}: weights "
                "lie beside their index; copy the file there and name it alone"
            )


def has_chat_template(folder: Path) -> bool:
    """Whether a tokenizer's files hold a chat template, wherever transformers would look."""
    config = folder / "tokenizer_config.json"
    return (folder / "chat_template.jinja").exists() or (
        config.exists() and bool(read_json(config).get("chat_template"))
    )


def link(folder: Path, paths: StagePaths) -> None:
    """Let the stage's checkpoint 0 be this folder, by a link."""
    point_to(paths.checkpoint(0), folder)
