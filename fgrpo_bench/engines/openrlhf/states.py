"""Training states on the disk: which of them are whole, and the newest whole one to resume from.

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
from dataclasses import dataclass
from pathlib import Path

from fgrpo_bench.files.records import Record
from fgrpo_bench.files.whole import readable_record, write_json, write_text

WHOLE = "whole.json"
SAVED = "the last state that was saved stands"
"""What errors say of a run that ends in the middle of a step."""


@dataclass(frozen=True, kw_only=True)
class Origin(Record):
    """Which run can resume from a state."""

    ranks: int
    """Processes of the policy."""
    base_sha256: str
    """Of the weights of the base model."""


@dataclass(frozen=True, kw_only=True)
class WholeState(Origin):
    """whole.json."""

    files: dict[str, int]
    """Bytes by name."""


def states_folder(stage: Path) -> Path:
    """Of a training run; stage: its folder."""
    return stage / "openrlhf" / "states"


def mark_whole(states: Path, step: int, origin: Origin) -> int:
    """List the files of a state that every rank has written; returns their bytes."""
    folder = _folder(states) / f"global_step{step}"
    files = _sizes(folder)
    whole = WholeState(ranks=origin.ranks, base_sha256=origin.base_sha256, files=files)
    write_json(folder / WHOLE, whole.as_json())
    return sum(files.values())


def check_origin(states: Path, *, ranks: int, base_sha256: str | None) -> None:
    """ValueError where the newest whole state is that of a run that cannot go on with so many
    ranks, or from such a base model (None is one that is not made yet). Changes nothing."""
    for _, state in sorted(_saved(_folder(states)).items(), reverse=True):
        listed = _whole_list(state)
        if listed is not None:
            base = base_sha256 or listed.base_sha256
            _check_origin(state, listed, Origin(ranks=ranks, base_sha256=base))
            break


def remove_partial(states: Path, origin: Origin, *, say: Callable[[str], None]) -> int:
    """Clear away all but complete states, with `latest` naming the newest; returns its step, 0
    where there is none.

    origin: of the run that begins. Raises ValueError where that of the state is another.
    """
    folder = _folder(states)
    if not folder.exists():
        return 0
    named = _latest(folder)
    saved = _saved(folder)
    lists = {step: _whole_list(path) for step, path in saved.items()}
    complete = {step: listed for step, listed in lists.items() if listed is not None}
    for step in sorted(saved.keys() - complete.keys()):
        say(f"the state of step {step} was cut short while it was saved: it is cleared away")
        shutil.rmtree(saved[step])
    if not complete:
        say("no whole state was saved: the run starts at step 1")
        shutil.rmtree(folder)
        return 0
    newest = max(complete)
    _check_origin(saved[newest], complete[newest], origin)
    if named != newest:
        say(f"resuming from step {newest}, the newest state that is whole")
        write_text(folder / "latest", f"global_step{newest}")
    return newest


def _folder(states: Path) -> Path:
    return states / "_actor"


def _saved(folder: Path) -> dict[int, Path]:
    """The states that are there, whole or not, by step."""
    return {step: path for path in folder.glob("*") if (step := _step(path)) is not None}


def _step(path: Path) -> int | None:
    name = re.fullmatch(r"global_step(\d+)", path.name)
    return int(name[1]) if name and path.is_dir() else None


def _latest(folder: Path) -> int | None:
    path = folder / "latest"
    return _step(folder / path.read_text(errors="replace").strip()) if path.exists() else None


def _sizes(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.name != WHOLE}


def _whole_list(folder: Path) -> WholeState | None:
    """The list of a state's files; None where the state is not whole."""
    listed = readable_record(folder / WHOLE, WholeState)
    if listed is None or not listed.files.items() <= _sizes(folder).items():
        return None
    return listed


def _check_origin(folder: Path, listed: WholeState, origin: Origin) -> None:
    base = listed.base_sha256
    if base != origin.base_sha256:
        raise ValueError(
            f"{folder} was trained from a base model with sha256 {base}, and this run's has "
            f"{origin.base_sha256}: a run goes on from its own model only; bring that back (its "
            "revision, or its folder as it was), or move the states away to start at step 1"
        )
    if listed.ranks != origin.ranks:
        raise ValueError(
            f"{folder} was saved by {listed.ranks} ranks, and this run has {origin.ranks}: a "
            f"state is split over its ranks and fits no other number; give the run "
            f"{listed.ranks} again (profile.nodes x profile.placement.actor_gpus_per_node), or "
            "move the state away to start at step 1"
        )
