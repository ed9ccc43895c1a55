"""What the words of `fgrpo-bench compare` name: which checkpoints, and of which label and seed.

In: names of evaluations, cells or runs of a sweep, and files of draws. Out: evaluated checkpoints;
files of draws are imported on the way. Next: evaluators.compare.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fgrpo_bench.analysis.evaluated import (
    LONGEST_LABEL,
    EvaluatedCheckpoint,
    from_evaluation,
    last_of_run,
)
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.command.application import is_there
from fgrpo_bench.command.runs import find_runs, run_address
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.files.paths import RunPaths

from .folders import files_at, only_step
from .interchange import Import, import_and_grade
from .standalone import slug
from .stored import folders


def find_checkpoints(
    arguments: Sequence[str], root: Path, request: Import | None = None
) -> list[EvaluatedCheckpoint]:
    """The checkpoints that words mean, in their order, each with a label and a seed.

    A word is `[label=]place[,place...]`; several places are seeds of one label, or where the names
    differ in a step alone (`mine-step-100,mine-step-200`) checkpoints of one run, of which the last
    stands for it. A cell of a sweep has all its evaluated checkpoints, and a folder of dumps the
    steps up to the last that all such folders have. request: how files of draws are taken; None:
    then no file can be meant. Raises ValueError or FileNotFoundError that names the word.
    """
    if len(arguments) < 2:
        raise ValueError("name at least two to compare, e.g. `compare base-1b step-300-1b`")
    last = _last_step(arguments, request)
    labels = _labels(arguments)
    sides = [
        (label, _by_run([place for name in names for place in _at(name, root, request, last)]))
        for label, names in zip(labels, map(_places, arguments), strict=True)
    ]
    counts = [len(places) for _, places in sides]
    n_seeds = max(counts)
    several = [[place.seed for place in places] for _, places in sides if len(places) == n_seeds]
    # Seeds of sweeps are paired by what they are, those that nobody told by their order.
    has_seeds = n_seeds > 1 and all(seed is not None for seeds in several for seed in seeds)
    out = []
    for word, (label, places) in zip(arguments, sides, strict=True):
        if len(places) not in (1, n_seeds):
            raise ValueError(
                f"{word} has {len(places)} seeds and another one {n_seeds}: name as many of each, "
                "or one that all seeds are compared with"
            )
        # One model beside several seeds stands for each of them, as a base model that they share.
        is_single = len(places) < n_seeds
        for i, place in enumerate(places * n_seeds if is_single else places):
            if n_seeds == 1:
                seed = None
            elif has_seeds:
                seed = several[0][i] if is_single else place.seed
            else:
                seed = i
            out.append(replace(place, label=label, title=label, seed=seed))
    return out


def _last_step(arguments: Sequence[str], request: Import | None) -> int | None:
    """The last step that all folders of dumps have, or the requested one; None where no name says a
    step. ValueError where they have none in common."""
    if request is not None and request.step is not None:
        return request.step
    steps_by_place = {}
    for word in arguments:
        for name in _places(word):
            steps = {step for step in files_at(Path(name)) if step is not None}
            if steps:
                steps_by_place[name] = steps
    if not steps_by_place:
        return None
    if not (common := set.intersection(*steps_by_place.values())):
        listed = "; ".join(
            f"{name} has {', '.join(map(str, sorted(steps)))}"
            for name, steps in steps_by_place.items()
        )
        raise ValueError(f"no step is common to all that are compared: {listed}; name files")
    return max(common)


def _parts(word: str) -> tuple[str, str]:
    """The label of a word, empty without one, and its places."""
    label, equals, listed = word.partition("=")
    return ("", word) if not equals or is_there(_separate(word)[0]) else (label, listed)


def _places(word: str) -> list[str]:
    return _separate(_parts(word)[1])


def _labels(arguments: Sequence[str]) -> list[str]:
    """What each word is compared as: its label, else the name of its first place, with the folders
    above it where another one has the same name."""
    labels = [_parts(word)[0] for word in arguments]
    names = [Path(_places(word)[0]).name for word in arguments]
    return [
        label or (name if names.count(name) == 1 else _places(word)[0])
        for label, name, word in zip(labels, names, arguments, strict=True)
    ]


def _separate(listed: str) -> list[str]:
    """Places with commas between, where a path that is there may hold a comma itself."""
    parts, names = listed.split(","), list[str]()
    while parts:
        lengths = range(len(parts), 1, -1)
        size = next((n for n in lengths if is_there(",".join(parts[:n]))), 1)
        names.append(",".join(parts[:size]))
        parts = parts[size:]
    return names


STEPPED = re.compile(r"(?P<run>.*?)(?<![a-z])step[-_]?(?P<step>\d+)(?!\d)")
"""The name of an evaluation that says of which step of which run it is."""


def _by_run(places: list[EvaluatedCheckpoint]) -> list[EvaluatedCheckpoint]:
    """Those of one run, by their names, put together; all apart where a name says no step, or each
    run has one."""
    matched = [STEPPED.match(place.label) for place in places]
    runs: dict[str, list[EvaluatedCheckpoint]] = {}
    for place, match in zip(places, matched, strict=True):
        if match is None or len(place.run_checkpoints) > 1:
            return places
        step = int(match["step"])
        runs.setdefault(match["run"], []).append(replace(place, step=step))
    if all(len(checkpoints) < 2 for checkpoints in runs.values()):
        return places
    for checkpoints in runs.values():
        if len({checkpoint.step for checkpoint in checkpoints}) < len(checkpoints):
            return places  # two of one step: these are no checkpoints of one run
    return [last_of_run(checkpoints) for checkpoints in runs.values()]


def _at(
    name: str, root: Path, request: Import | None, last: int | None
) -> list[EvaluatedCheckpoint]:
    """The checkpoints of a place: of a cell one a seed."""
    evals = root / "evals"
    if in_sweep := _sweep_checkpoints(name, root):
        return in_sweep
    if by_step := files_at(Path(name)):
        return [_dumped(Path(name), by_step, root, request, last)]
    for folder in folders(name, evals):
        if (folder / "spec.json").exists() or any(folder.glob("eval/*/*/spec.json")):
            return [from_evaluation(folder, Path(name).name)]
    stored = [path.name for path in sorted(evals.glob("*/")) if path.name[0] not in "._"]
    runs = [run_address(run) for run in find_runs(root)]
    raise FileNotFoundError(
        f"{name}{suggestion(name, stored)}: no evaluation there, and none of that name under "
        f"{evals}; there are {', '.join(stored) or 'none'}, and the runs "
        f"{', '.join(runs) or 'none'} (write <run>/<cell>, e.g. groupsize/countdown/v1/"
        "grpo-n8-g0), and no file that another program drew"
    )


def files_in(arguments: Sequence[str]) -> list[Path]:
    """The files of draws that words name."""
    names = [name for word in arguments for name in _places(word)]
    return [file for name in names for files in files_at(Path(name)).values() for file in files]


def _dumped(
    place: Path,
    by_step: Mapping[int | None, Sequence[Path]],
    root: Path,
    request: Import | None,
    last: int | None,
) -> EvaluatedCheckpoint:
    """What files of draws are of: a checkpoint, with those of earlier steps where names say some.
    by_step: as of `files_at`."""
    if request is not None and request.step is not None and None not in by_step:
        by_step = {request.step: only_step([place], request.step)}
        request = replace(request, step=None)  # the names have told it
    checkpoints = []
    for step, files in by_step.items():
        if step is None or last is None or step <= last:
            folder = _imported(files, root, request)
            checkpoints.append(from_evaluation(folder, place.stem[:LONGEST_LABEL], step=step or 0))
    return last_of_run(checkpoints)


def _imported(files: Sequence[Path], root: Path, request: Import | None) -> Path:
    """The folder of the evaluation that files were, or are now, imported as."""
    if request is None:
        raise ValueError(f"{files[0]} holds draws: import it first, or compare it by its command")
    request = replace(request, files=tuple(files))
    name = f"{slug(files[0].stem, 36) or 'draws'}-{request.mark[:8]}"
    if not any((root / "evals" / name).glob("eval/*/*/DONE.json")):
        # what both have is compared anyway
        print(import_and_grade(request, name=name, root=root)[1], file=sys.stderr)
    return root / "evals" / name


def _sweep_checkpoints(name: str, root: Path) -> list[EvaluatedCheckpoint]:
    """Those of a cell, or of one training run, of a sweep's run; empty for another name."""
    parts = Path(name).parts
    if Path(name).is_dir() and Path(name).resolve().is_relative_to(root.resolve()):
        parts = Path(name).resolve().relative_to(root.resolve()).parts
    if len(parts) != 4 or parts[0] == "evals":
        return []
    paths = RunPaths(root=root, sweep=parts[0], experiment=parts[1], version=parts[2])
    if not paths.plan.exists():
        return []
    points = load_results(paths).points
    chosen = [point for point in points if parts[3] in (point.label, point.point_id)]
    if not chosen:
        labels = dict.fromkeys(point.label for point in points)
        raise FileNotFoundError(
            f"{run_address(paths)} has no cell {parts[3]!r}{suggestion(parts[3], labels)}: it has "
            f"{', '.join(labels)}, and runs such as {points[-1].point_id}"
        )
    runs = []
    for point in chosen:
        evaluated = [
            _plain(checkpoint)
            for checkpoint in point.run_checkpoints
            if checkpoint.is_evaluated or checkpoint.step == point.step
        ]
        runs.append(last_of_run(evaluated))
    return runs


def _plain(point: EvaluatedCheckpoint) -> EvaluatedCheckpoint:
    """A sweep's checkpoint as one that somebody brings."""
    return EvaluatedCheckpoint(
        label=point.label,
        seed=point.seed,
        step=point.step,
        cell=None,
        evaluate=point.evaluate,
        evaluate_fingerprint=point.evaluate_fingerprint,
        marks=point.marks,
    )
