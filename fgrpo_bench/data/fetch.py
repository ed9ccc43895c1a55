"""Files of a Hugging Face repository, fetched once: resumed where cut short, pinned to a commit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from fgrpo_bench.stages.digests import sha256_file
from fgrpo_bench.stages.files import sync_folder

PUBLISHER = "https://huggingface.co"


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """A file and where it came from."""

    path: Path
    endpoint: str
    revision: str
    """The commit."""
    sha256: str


def fetch(
    repository: str,
    filename: str,
    *,
    kind: Literal["dataset", "model"],
    revision: str | None,
    folder: Path,
    tell: Callable[[int, int], None],
) -> Fetched:
    """Fetch one file into a folder, over https with resume and a progress bar.

    The publisher is HF_ENDPOINT, else huggingface.co; a gated repository takes HF_TOKEN.
    revision: branch, tag or commit; None is main. tell(bytes so far, of): called as bytes arrive;
    it may raise to stop there, and the next call resumes. Raises OSError that names the address
    where it cannot be had, ValueError where it is damaged.
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
        # hf_hub_download begins anew after a kill, so the file is kept here, by its digest
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
                tqdm_class=_bar(tell),
            )
            file.flush()
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


def _bar(tell: Callable[[int, int], None]) -> Any:
    from huggingface_hub.utils import tqdm  # type: ignore[attr-defined, unused-ignore]

    class Bar(tqdm):  # type: ignore[misc, unused-ignore]
        def update(self, n: float | None = 1) -> bool | None:
            drawn: bool | None = super().update(n)
            tell(int(self.n), int(self.total or 0))
            return drawn

    return Bar
