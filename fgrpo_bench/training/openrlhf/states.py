"""Training states on the disk: which of them are whole, and the newest whole one to go on from.

DeepSpeed writes a state as a file or more a rank, and names it in `latest` when the first rank is
through, which says nothing of the others; OpenRLHF counts half-written states as states and begins
with whatever `latest` names. So every state that is complete on all ranks gets a list of its files,
written last, and before a run begins what has none is cleared away.

<states>/_actor/latest                           DeepSpeed's: global_step20
<states>/_actor/global_step20/whole.json         {"ranks": 8, "files": {"<name>": <bytes>, ...}}
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

from fgrpo_bench.files import read_json, write_json, write_text

WHOLE = "whole.json"


def mark_whole(states: Path, step: int, *, ranks: int) -> None:
    """List the files of a state that every rank has written."""
    folder = _folder(states) / f"global_step{step}"
    write_json(folder / WHOLE, {"ranks": ranks, "files": _sizes(folder)})


def settle(states: Path, *, ranks: int, say: Callable[[str], None]) -> int:
    """Leave whole states alone here, with `latest` naming the newest; returns its step, 0 where
    there is none.

    Raises ValueError for a state of another number of ranks, which cannot be gone on from.
    """
    folder = _folder(states)
    if not folder.exists():
        return 0
    named = _latest(folder)
    saved = {step: path for path in folder.iterdir() if (step := _step(path)) is not None}
    ranks_of = {step: _saved_by(path) for step, path in saved.items()}
    whole = {step for step, n in ranks_of.items() if n is not None}
    for step in sorted(saved.keys() - whole):
        say(f"the state of step {step} was cut short while it was saved: it is cleared away")
        shutil.rmtree(saved[step])
    if not whole:
        say("no whole state was saved: the run starts at step 1")
        shutil.rmtree(folder)
        return 0
    newest = max(whole)
    if ranks_of[newest] != ranks:
        raise ValueError(
            f"{saved[newest]} was saved by {ranks_of[newest]} ranks, and this run has {ranks}: a "
            f"state is split over its ranks and fits no other number; give the run "
            f"{ranks_of[newest]} again (profile.nodes x profile.openrlhf.actor_gpus_per_node), or "
            "move the state away to start at step 1"
        )
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


def _saved_by(folder: Path) -> int | None:
    """The number of ranks that saved a state; None where it is not whole."""
    try:
        content = read_json(folder / WHOLE)
        listed, ranks = dict(content["files"]), int(content["ranks"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return ranks if listed.items() <= _sizes(folder).items() else None
