"""Training states on the disk: which of them are whole, and the newest whole one to go on from.

DeepSpeed writes a state as a file or more a rank, and names it in `latest` when the first rank is
through, which says nothing of the others; OpenRLHF counts half-written states as states and begins
with whatever `latest` names. So every state that is complete on all ranks gets a list of its files,
written last, and before a run begins what has none is cleared away.

<states>/_actor/latest                           DeepSpeed's: global_step20
<states>/_actor/global_step20/whole.json
    {"ranks": 8, "base_sha256": "<of the base model's weights>", "files": {"<name>": <bytes>, ...}}
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.files import read_json, write_json, write_text

WHOLE = "whole.json"


def mark_whole(states: Path, step: int, *, ranks: int, base_sha256: str) -> int:
    """List the files of a state that every rank has written; returns their bytes."""
    folder = _folder(states) / f"global_step{step}"
    files = _sizes(folder)
    write_json(folder / WHOLE, {"ranks": ranks, "base_sha256": base_sha256, "files": files})
    return sum(files.values())


def settle(states: Path, *, ranks: int, base_sha256: str, say: Callable[[str], None]) -> int:
    """Leave whole states alone here, with `latest` naming the newest; returns its step, 0 where
    there is none.

    base_sha256: of the base model's weights. Raises ValueError for a state of another base model or
    of another number of ranks, which cannot be gone on from.
    """
    folder = _folder(states)
    if not folder.exists():
        return 0
    named = _latest(folder)
    saved = {step: path for path in folder.iterdir() if (step := _step(path)) is not None}
    listed = {step for step, path in saved.items() if (path / WHOLE).exists()}
    # States of before there were lists: DeepSpeed's word is all there is.
    trusted = {step for step in saved.keys() - listed if step == named}
    whole = {step for step in listed if _is_whole(saved[step])} or trusted
    for step in sorted(saved.keys() - whole):
        say(f"the state of step {step} was cut short while it was saved: it is cleared away")
        shutil.rmtree(saved[step])
    if not whole:
        say("no whole state was saved: the run starts at step 1")
        shutil.rmtree(folder)
        return 0
    newest = max(whole)
    _check_fits(saved[newest], ranks=ranks, base_sha256=base_sha256)
    if named != newest:
        say(f"going on from step {newest}, the newest state that is whole")
        write_text(folder / "latest", f"global_step{newest}")
    return newest


def _folder(states: Path) -> Path:
    return states / "_actor"


def _step(path: Path) -> int | None:
    name = re.fullmatch(r"global_step(\d+)", path.name)
    return int(name[1]) if name and path.is_dir() else None


def _latest(folder: Path) -> int | None:
    path = folder / "latest"
    return _step(folder / path.read_text(errors="replace").strip()) if path.exists() else None


def _sizes(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.name != WHOLE}


def _is_whole(folder: Path) -> bool:
    try:
        listed = dict(read_json(folder / WHOLE)["files"])
    except (ValueError, TypeError, KeyError):
        return False
    return listed.items() <= _sizes(folder).items()


def _check_fits(folder: Path, *, ranks: int, base_sha256: str) -> None:
    if not (folder / WHOLE).exists():
        return
    saved = read_json(folder / WHOLE)
    base = saved.get("base_sha256", base_sha256)  # lists of before had none
    if base != base_sha256:
        raise ValueError(
            f"{folder} was trained from a base model with sha256 {base}, and this run has one with "
            f"{base_sha256}: a run goes on from its own model only; bring that back (its pinned "
            "revision, or its folder as it was), or move the states away to start at step 1"
        )
    if saved["ranks"] != ranks:
        raise ValueError(
            f"{folder} was saved by {saved['ranks']} ranks, and this run has {ranks}: a state is "
            f"split over its ranks and fits no other number; give the run {saved['ranks']} again "
            "(profile.nodes x profile.openrlhf.actor_gpus_per_node), or move the state away to "
            "start at step 1"
        )
