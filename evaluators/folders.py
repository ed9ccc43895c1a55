"""Files of draws that a place means: a file itself, or a folder of several draws or steps.

output-rs0.jsonl, output-rs1.jsonl, ...     names that differ in numbers alone: draws
100.jsonl, 200.jsonl, completions_00100.parquet, global_step_100_evals/math.jsonl: steps
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from .dumps import open_dump

SUFFIXES = (".jsonl", ".json", ".eval", ".parquet", ".csv", ".tsv")
"""Of files that may hold draws."""
SUMMARY_FILES = re.compile(r"aggregated_results\.jsonl|.*\.json")
"""Names of files in such folders that need not hold any."""
STEP = re.compile(r"(?:.*(?<![a-z]))?(?:step[_-]?|completions_)(\d+)(?!\d).*|(\d+)")
"""A file's name without its ending, or a folder's, that says which step it is of."""


def files_at(place: Path) -> dict[int | None, list[Path]]:
    """The files of a place by step, rising; None: the names say none. Empty where the place holds
    no draws, or is an evaluation. ValueError for a folder whose files are of several kinds."""
    if place.is_file():
        return {None: [place]}
    if (
        not place.is_dir()
        or (place / "spec.json").exists()
        or any(place.glob("eval/*/*/spec.json"))
    ):
        return {}
    below = sorted(path for path in place.iterdir() if _may_hold_draws(path))
    if not below:
        below = sorted(path for path in place.rglob("*") if _may_hold_draws(path))
    by_step: defaultdict[int | None, list[Path]] = defaultdict(list)
    for file in below:
        by_step[_step_in_name(file.relative_to(place))].append(file)
    for files in by_step.values():
        kinds = {re.sub(r"\d+", "#", str(file.relative_to(place))): file for file in files}
        if len(kinds) > 1:
            raise ValueError(
                f"{place} holds the draws of several runs or tasks: name one of "
                f"{', '.join(str(file.relative_to(place)) for file in kinds.values())}"
            )
    steps = sorted(by_step, key=lambda step: -1 if step is None else step)
    return {step: sorted(by_step[step], key=_natural) for step in steps}


def only_step(places: Sequence[Path], step: int | None) -> list[Path]:
    """All files of some places, of one step. FileNotFoundError for a place that holds no draws;
    ValueError where it has several steps and none is named, or lacks the named one."""
    out: list[Path] = []
    for place in places:
        by_step = files_at(place)
        if not by_step:
            raise FileNotFoundError(
                f"{place} is no file, and no folder of files that a trainer or harness has drawn"
            )
        steps = [step for step in by_step if step is not None]
        if len(by_step) > 1 and step not in by_step:
            raise ValueError(
                f"{place} has steps {', '.join(map(str, steps))}: name one of them with --step"
            )
        out += by_step[step] if step in by_step else next(iter(by_step.values()))
    if len(set(out)) < len(out):
        twice = next(file for file in out if out.count(file) > 1)
        raise ValueError(f"{twice} is named twice: its draws would count twice; leave one out")
    return out


def _may_hold_draws(path: Path) -> bool:
    if path.suffix not in SUFFIXES or not path.is_file():
        return False
    if SUMMARY_FILES.fullmatch(path.name) is None:
        return True
    try:
        open_dump(path)
    except (OSError, ValueError):  # metrics or settings, as such folders have beside the draws
        return False
    return True


def _step_in_name(path: Path) -> int | None:
    """Of a path within a folder: by the file's name, or else that of a folder above."""
    for name in (path.stem, *reversed(path.parts[:-1])):
        if match := STEP.fullmatch(name):
            return int(match[1] or match[2])
    return None


def _natural(path: Path) -> list[int | str]:
    """A key by which draw 10 comes behind draw 9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]
