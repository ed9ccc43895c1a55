"""`fgrpo-bench compare A B`: evaluated checkpoints, problem by problem, at each k and over all.

In: evaluations, training runs, cells of a sweep, or samples that another program drew; the first is
what the others are compared with. Out: blocks of a document (a terminal, HTML or Markdown), rows
(CSV), or JSON. Next: fgrpo_bench.analysis.results.load_for_compare says what may be compared and
analysis.frames computes it, as for a sweep.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.analysis.evaluated import (
    LONGEST_LABEL,
    EvaluatedCheckpoint,
    from_evaluation,
    last_of_run,
)
from fgrpo_bench.analysis.frames import Analysis, analyse
from fgrpo_bench.analysis.results import load_for_compare, load_results
from fgrpo_bench.analysis.rows import (
    OPEN_AND_CUT_OFF,
    Comparison,
    Estimate,
    FirstLoss,
    ValueComparison,
    ValueEstimate,
)
from fgrpo_bench.command.application import is_there
from fgrpo_bench.command.runs import find_runs, run_address
from fgrpo_bench.core import registry
from fgrpo_bench.core.registry import suggestion
from fgrpo_bench.data.layouts import DUMP
from fgrpo_bench.documents.markdown import markdown
from fgrpo_bench.documents.table import (
    NONE,
    UNFINISHED,
    Block,
    Heading,
    Paragraph,
    Table,
    difference,
    p_value,
    percent,
    table_as_json,
    unfinished_note,
    unfinished_shares,
    with_interval,
)
from fgrpo_bench.documents.terminal import COLUMNS, plain, terminal, width
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.files.whole import write_text
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.recorded import is_recorded
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.stages.tables import GRADES, read_table
from fgrpo_bench.stats.coverage import coverage

from .folders import files_at, only_step
from .interchange import Import, import_and_grade
from .readings import difference_tables
from .standalone import slug
from .stored import folders, layer
from .verdicts import differing

APART = 0.05
"""Difference in the share of draws cut off that is said first."""
CHANGED = 20
"""Problems that are listed, those whose success rate changed most."""
FIRST_CHANGED = 5
"""Of these, how many a terminal shows without --wide."""
SHOWN_CHARACTERS = 60
"""Of the text of each."""
NARROW_CHARACTERS = 36
"""Likewise in a terminal of less than its usual columns."""
IDENTITY_LABELS = {
    "sampler": "sampler",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop": "texts that end a response",
    "prefix": "prefix of the responses",
    "few_shot": "solved examples",
    "dtype": "dtype",
    "n_samples": "draws per problem",
    "design": "design",
}
"""Fields of an evaluation that may differ between what is compared, in words."""
SAMPLING_LABELS = {
    "chat_template": "use of the chat template",
    "system": "system prompt",
    "suffix": "suffix",
    "prompt_tokens": "most tokens of a prompt",
    "response_tokens": "most tokens of a response",
}
"""Likewise of what the model read and how much it could say."""


# Who is compared.


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
            its_seed = several[0][i] if is_single else place.seed
            seed = None if n_seeds == 1 else its_seed if has_seeds else i
            out.append(replace(place, label=label, title=label, seed=seed))
    return out


def _last_step(arguments: Sequence[str], request: Import | None) -> int | None:
    """The last step that all folders of dumps have, or the requested one; None where no name says a
    step. ValueError where they have none in common."""
    if request is not None and request.step is not None:
        return request.step
    steps = {}
    for word in arguments:
        for name in _places(word):
            if known := files_at(Path(name)).keys() - {None}:
                steps[name] = {step for step in known if step is not None}
    if not steps:
        return None
    if not (common := set.intersection(*steps.values())):
        listed = "; ".join(
            f"{name} has {', '.join(map(str, sorted(known)))}" for name, known in steps.items()
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
    steps = [{place.step for place in of_run} for of_run in runs.values()]
    if all(len(of_run) < 2 for of_run in runs.values()):
        return places
    if any(len(known) < len(of_run) for known, of_run in zip(steps, runs.values(), strict=True)):
        return places  # two of one step: these are no checkpoints of one run
    return [last_of_run(of_run) for of_run in runs.values()]


def _at(
    name: str, root: Path, request: Import | None, last: int | None
) -> list[EvaluatedCheckpoint]:
    """The checkpoints of a place: of a cell one a seed."""
    evals = root / "evals"
    if of_sweep := _sweep_checkpoints(name, root):
        return of_sweep
    if by_step := files_at(Path(name)):
        return [_dumped(Path(name), by_step, root, request, last)]
    for folder in folders(name, evals):
        if (folder / "spec.json").exists() or any(folder.glob("eval/*/*/spec.json")):
            return [from_evaluation(folder, Path(name).name)]
    known = [path.name for path in sorted(evals.glob("*/")) if path.name[0] not in "._"]
    runs = [run_address(run) for run in find_runs(root)]
    raise FileNotFoundError(
        f"{name}{suggestion(name, known)}: no evaluation there, and none of that name under "
        f"{evals}; there are {', '.join(known) or 'none'}, and the runs {', '.join(runs) or 'none'}"
        " (write <run>/<cell>, e.g. groupsize/countdown/v1/grpo-n8-g0), and no file that another "
        "program drew"
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
    of_run = []
    for step, files in by_step.items():
        if step is None or last is None or step <= last:
            folder = _taken_in(files, root, request)
            of_run.append(from_evaluation(folder, place.stem[:LONGEST_LABEL], step=step or 0))
    return last_of_run(of_run)


def _taken_in(files: Sequence[Path], root: Path, request: Import | None) -> Path:
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
    of_cell = [point for point in points if parts[3] in (point.label, point.point_id)]
    if not of_cell:
        labels = dict.fromkeys(point.label for point in points)
        raise FileNotFoundError(
            f"{run_address(paths)} has no cell {parts[3]!r}{suggestion(parts[3], labels)}: it has "
            f"{', '.join(labels)}, and runs such as {points[-1].point_id}"
        )
    return [
        last_of_run(
            [_plain(at) for at in point.run_checkpoints if at.is_evaluated or at.step == point.step]
        )
        for point in of_cell
    ]


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


# What is compared, and what is not.


@dataclass(frozen=True, kw_only=True)
class ComparedCheckpoints:
    """The numbers of checkpoints of at least two labels."""

    checkpoints: Sequence[EvaluatedCheckpoint]
    analysis: Analysis
    also: tuple[str, ...] = ()
    """Other readings of the draws (evaluators.readings)."""

    @cached_property
    def readings(self) -> tuple[Block, ...]:
        """Tables of these, computed once for all files that show them; raises as `between`."""
        results = self.analysis.results
        return tuple(
            difference_tables(results.checkpoints, results.benchmarks, self.analysis.ks, self.also)
        )

    @property
    def labels(self) -> list[str]:
        """In the order of the words; the others are compared with the first."""
        return list(dict.fromkeys(checkpoint.label for checkpoint in self.checkpoints))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """new, old."""
        old, *others = self.labels
        yield from ((new, old) for new in others)

    def differences(self, column: str, new: str, old: str) -> list[Comparison]:
        """A row a k, new minus old."""
        rows = (self.analysis.comparison(column, k, new, old) for k in self.analysis.ks)
        return [row for row in rows if row is not None]

    def differences_by_value(self, column: str, new: str, old: str) -> list[ValueComparison]:
        """A row a value and k, of a benchmark that is told by a column of its problems."""
        rows: Sequence[ValueComparison] = self.analysis.rows("by_value_comparisons")
        return [row for row in rows if (row.column, row.new, row.old) == (column, new, old)]

    @cached_property
    def estimates_by_value(self) -> dict[tuple[str, str, str, int], ValueEstimate]:
        """By benchmark, value, label and k."""
        rows: Sequence[ValueEstimate] = self.analysis.rows("by_value")
        return {(row.column, row.value, row.cell, row.k): row for row in rows}


def compare(
    arguments: Sequence[str],
    root: Path,
    request: Import | None = None,
    *,
    grader: str | None = None,
    strict: bool = False,
    by: str | None = None,
    also: Sequence[str] = (),
) -> ComparedCheckpoints:
    """The numbers of what the arguments name; request and errors as of `find_checkpoints`, and as
    `load_for_compare`. grader, strict: by which stored grades, as of `stored.layer`; ValueError
    with the command that makes them where one lacks them. by: the column of the problems by whose
    values they are told too, as of `analyse`."""
    checkpoints = find_checkpoints(arguments, root, request)
    for checkpoint in (item for last in checkpoints for item in last.run_checkpoints):
        if not checkpoint.is_evaluated:
            raise ValueError(
                f"{checkpoint.name} is {checkpoint.missing_reason} ({checkpoint.evaluate.folder}): "
                "finish its evaluation first, by the command that began it"
            )
    # In the order of the words, though one of them be called `base`: the later minus the earlier.
    if grader is not None or strict:
        checkpoints = _judged_by(checkpoints, grader, strict=strict)
    place = {checkpoint.name: i for i, checkpoint in enumerate(checkpoints)}
    _check_dumps(checkpoints)
    results = load_for_compare(checkpoints)
    for benchmark in results.benchmarks:
        _check_in_common(checkpoints, benchmark)
    ordered = sorted(results.checkpoints, key=lambda checkpoint: place[checkpoint.name])
    results = replace(results, checkpoints=tuple(ordered))
    return ComparedCheckpoints(
        checkpoints=checkpoints, analysis=analyse(results, by=by), also=tuple(also)
    )


def _check_dumps(checkpoints: Sequence[EvaluatedCheckpoint]) -> None:
    """ValueError where draws with the problems of their own file stand beside an evaluation."""
    dumped, others = list[str](), list[str]()
    for checkpoint in checkpoints:
        spec = checkpoint.evaluation_spec()
        is_own = all(spec.layout(name) == DUMP for name in spec.stored_evaluation.benchmarks)
        (dumped if is_own else others).append(checkpoint.name)
    if dumped and others:
        raise ValueError(
            f"{dumped[0]} has the problems of its file, and {others[0]} those that it was "
            "evaluated on: name these with --data or --benchmark, so that the file's are found "
            "among them"
        )


def _check_in_common(checkpoints: Sequence[EvaluatedCheckpoint], benchmark: str) -> None:
    """ValueError, with the first problem of each, where no problem has draws of all."""
    tables = {item.label: item.passk(benchmark)["problem_id"] for item in checkpoints}
    if not all(map(len, tables.values())) or set.intersection(*map(set, tables.values())):
        return
    firsts = []
    for item in checkpoints:
        texts = _texts(item, benchmark, 2 * SHOWN_CHARACTERS)
        firsts.append(f"{item.label} has {next(iter(texts.values()), tables[item.label][0])!r}")
    raise ValueError(
        f"no problem of {benchmark} is common to all that are compared: {'; '.join(firsts)}; of "
        "files whose prompts differ around the same problems, name the problems with --data"
    )


def _judged_by(
    checkpoints: Sequence[EvaluatedCheckpoint], grader: str | None, *, strict: bool
) -> list[EvaluatedCheckpoint]:
    """The same, read by another layer of grades on the benchmarks that all have."""
    every = [item for checkpoint in checkpoints for item in checkpoint.run_checkpoints]
    benchmarks = set.intersection(*(set(item.evaluation_spec().all_benchmarks) for item in every))

    def judged(item: EvaluatedCheckpoint) -> EvaluatedCheckpoint:
        versions = {}
        for name in sorted(benchmarks):
            benchmark = item.evaluation_spec().benchmark(name)
            named = layer(benchmark, grader, strict=strict)
            # What an evaluation was scored by is its main layer, which is read without a version.
            if named == benchmark.grader:
                continue
            versions[name] = grader_version(named)
            if item.evaluate.benchmark(name).passk(versions[name]).exists():
                continue
            if is_recorded(named):
                raise ValueError(
                    f"{item.name} has no verdicts {named} on {name}: its file has none, or they "
                    "are declared by another --threshold; import it again"
                )
            option = "--strict" if strict else f"--grader {named}"
            raise ValueError(
                f"{item.name} has no grades of {versions[name]} on {name}: run `fgrpo-bench "
                f"evaluate grade {item.evaluate.folder} {option}` first, which draws nothing"
            )
        return replace(item, judged_by=versions)

    return [last_of_run([judged(item) for item in point.run_checkpoints]) for point in checkpoints]


def remarks(compared: ComparedCheckpoints) -> Iterator[str]:
    """What is to be known before the numbers: what differs, what is left out, what no number
    covers."""
    # Reversed, so that the first checkpoint of each label is what stays.
    firsts = {checkpoint.label: checkpoint for checkpoint in reversed(compared.checkpoints)}
    specs = {label: firsts[label].evaluation_spec() for label in compared.labels}
    asked = {label: _sampling_config(spec.identity) for label, spec in specs.items()}
    if unknown := [label for label, known in asked.items() if not known]:
        yield f"What {', '.join(unknown)} read, and how many tokens were allowed, is not known."
    for key, words in (IDENTITY_LABELS | SAMPLING_LABELS).items():
        settings = (
            asked if key in SAMPLING_LABELS else {at: spec.evaluation for at, spec in specs.items()}
        )
        values = {label: known.get(key) for label, known in settings.items() if known}
        if len({json.dumps(value, sort_keys=True) for value in values.values()}) > 1:
            listed = ", ".join(f"{label} {_shown(value)}" for label, value in values.items())
            yield f"They differ in {words}: {listed}."
    alike = defaultdict[str, list[str]](list)
    for label, spec in specs.items():
        alike[spec.fingerprint].append(label)
    for labels in alike.values():
        if len(labels) > 1:
            yield f"{' and '.join(labels)} are one model: equal weights, drawn with equal settings."
    imported = [label for label, spec in specs.items() if spec.kind == "import"]
    if steps := {label: firsts[label].step for label in imported if firsts[label].step}:
        yield f"Steps: {', '.join(f'{label} {step:,}' for label, step in steps.items())}."
    for benchmark, version in firsts[compared.labels[0]].judged_by.items():
        yield f"Judged by {version} in place of the grader of {benchmark}."
    yield from _other_graders({label: firsts[label] for label in compared.labels})
    for benchmark in compared.analysis.results.benchmarks:
        shared = compared.analysis.problems.filter(benchmark=benchmark)["problem_id"].n_unique()
        sizes = {
            label: firsts[label].passk(benchmark)["problem_id"].n_unique()
            for label in compared.labels
        }
        if any(size != shared for size in sizes.values()):
            listed = ", ".join(f"{label} {size}" for label, size in sizes.items())
            yield f"{benchmark}: {shared} problems are shared and compared; it has {listed}."
    seeds = {checkpoint.seed for checkpoint in compared.checkpoints}
    if seeds == {None}:
        yield (
            "One checkpoint of each: intervals are over problems and draws, and say nothing about "
            "another training run of the same recipe. Several are named as label=place,place,..."
        )
    else:
        shared_by = [label for label in compared.labels if _is_shared(compared, label)]
        yield f"Intervals and p are over problems and {len(seeds)} seeds, paired in order."
        if shared_by:
            yield f"{', '.join(shared_by)}: one model, which stands beside every seed."


def _other_graders(firsts: Mapping[str, EvaluatedCheckpoint]) -> Iterator[str]:
    """How often the verdicts that came with draws differ from those that are compared."""
    for label, checkpoint in firsts.items():
        for benchmark in checkpoint.evaluation_spec().stored_evaluation.benchmarks:
            of = checkpoint.evaluate.benchmark(benchmark)
            for program, version in checkpoint.extra_grader_versions(benchmark).items():
                judge = checkpoint.judge_on(benchmark)
                if not is_recorded(program) or judge in (None, version):
                    continue
                ours, theirs = (read_table(of.grades(by), GRADES) for by in (judge, version))
                n = differing(ours, theirs).height
                yield (
                    f"{label}: {program}'s verdicts differ on {n:,} of {len(ours):,} draws "
                    f"(--grader {program} compares by them)."
                )


def _is_shared(compared: ComparedCheckpoints, label: str) -> bool:
    folders = [item.evaluate.folder for item in compared.checkpoints if item.label == label]
    return len(set(folders)) < len(folders)


def _sampling_config(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Values of ASKED_BY; none of draws that another program made."""
    sampling = identity.get("sampling", {})
    return sampling and {**(sampling["prompt"] or {}), **sampling}


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"{len(value)} in every prompt"  # their texts are too long to be shown
    return "none" if value is None else str(value)


def _unlike_ends(compared: ComparedCheckpoints) -> Iterator[str]:
    """That two sides differ in the share of draws that were cut off by more than APART."""
    k = compared.analysis.ks[0]
    for benchmark in compared.analysis.results.benchmarks:
        for new, old in compared.pairs():
            ends = [compared.analysis.estimate(benchmark, label, k).cut_off for label in (old, new)]
            if ends[0] is not None and ends[1] is not None and abs(ends[1] - ends[0]) > APART:
                yield (
                    f"Of {old} {ends[0]:.1%} of the draws on {benchmark} were cut off, of {new} "
                    f"{ends[1]:.1%}: the difference is of the longest response too."
                )


# Problems: which were won and lost, and which changed most.


@dataclass(frozen=True, kw_only=True)
class Changed:
    """A problem under two models."""

    problem_id: str
    old: float
    """Success rate, mean over seeds, like new."""
    new: float
    text: str
    """The beginning of the problem; empty where it may not be shown, or is not here."""


def changed_most(
    compared: ComparedCheckpoints, benchmark: str, new: str, old: str
) -> list[Changed]:
    """The CHANGED problems that differ most over all k: by how far 1 - (1 - success rate)^k moved,
    mean over the k that are compared, so that a rare answer that was lost counts at large k. Of
    equal ones by name."""
    rates = (
        compared.analysis.problems.filter(benchmark=benchmark)
        .group_by("problem_id", "cell")
        .agg(pl.col("success_rate").mean())
    )
    sides = [
        rates.filter(cell=label).select("problem_id", pl.col("success_rate").alias(name))
        for name, label in (("old", old), ("new", new))
    ]
    both = sides[0].join(sides[1], on="problem_id").drop_nulls()
    apart = pl.mean_horizontal(
        *(
            ((1 - pl.col("new")).pow(k) - (1 - pl.col("old")).pow(k)).abs()
            for k in compared.analysis.ks
        )
    )
    most = both.filter(apart > 0).sort(-apart, "problem_id").head(CHANGED)
    texts = _texts(compared.checkpoints[0], benchmark)
    return [
        Changed(text=texts.get(row["problem_id"], ""), **row) for row in most.iter_rows(named=True)
    ]


def _texts(
    checkpoint: EvaluatedCheckpoint, name: str, longest: int = SHOWN_CHARACTERS
) -> dict[str, str]:
    """The beginning of each problem by its id, of those that a task makes in its words; none of a
    gated benchmark."""
    spec = checkpoint.evaluation_spec()
    benchmark = spec.benchmark(name)
    if benchmark.dataset is not None and benchmark.dataset.gated:
        return {}
    try:
        problems = load_problems(benchmark, spec.task, spec.data_folder(name))
    except (OSError, ValueError):  # results may be looked at where the problems are not
        return {}
    in_words = None
    if spec.data_folder(name) is None and spec.task is not None:
        in_words = registry.entry("tasks", spec.task["name"]).in_words
    return {
        problem.problem_id: " ".join(
            plain(problem.prompt if in_words is None else in_words(problem)).split()
        )[:longest]
        for problem in problems
    }


def _won_and_lost(
    compared: ComparedCheckpoints, benchmark: str, new: str, old: str, k: int
) -> dict[str, float]:
    """Expected numbers of problems within reach at k of both, of the new one alone (gained), of the
    old one alone (lost) and of neither, means over seeds (fgrpo_bench.stats.coverage)."""
    problems = compared.analysis.problems.filter(benchmark=benchmark)
    keys = ["problem_id", "seed"]
    both = problems.filter(cell=old).join(
        problems.filter(cell=new), on=keys, suffix="_new", nulls_equal=True
    )
    chances = coverage(
        n_old=both["n_scored"],
        old=both["n_correct"],
        n_new=both["n_scored_new"],
        new=both["n_correct_new"],
        k=k,
        of_solved=True,
    )
    n_seeds = max(both["seed"].n_unique(), 1)
    names = ("gained", "lost", "retained", "neither")
    return {name: float(np.sum(getattr(chances, name)) / n_seeds) for name in names}


# What a person reads.


def _heading(compared: ComparedCheckpoints) -> str:
    """Who is compared with whom, on what."""
    old, *others = compared.labels
    return f"{', '.join(others)} against {old} on {', '.join(compared.analysis.results.benchmarks)}"


def _content(
    compared: ComparedCheckpoints, *, wide: bool = True, shown: int = CHANGED
) -> list[Block]:
    """What is to be known first, then a table a column and pair, and what became of problems; what
    the columns are; and the verdict. wide: with every column. shown: problems that changed."""
    first = [*_unlike_ends(compared), *remarks(compared)]
    out: list[Block] = [Paragraph(text=" ".join(first))]
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            out += _column_tables(compared, column, new, old, wide=wide, shown=shown)
    out += compared.readings
    return [*out, *_at_equal_pass_at_1(compared), *_explanation(compared), *_verdict(compared)]


def _verdict(compared: ComparedCheckpoints) -> Iterator[Block]:
    """What the numbers say, over all k at once."""
    losses = list(_first_losses(compared))
    if losses:
        yield Heading(text="Over all k at once, by a 95% band")
    for loss in losses:
        yield Paragraph(text=f"{loss.column}: {loss.new} is {loss.words}.", strong=True)


def _first_losses(compared: ComparedCheckpoints) -> Iterator[FirstLoss]:
    """Of every pair and column with a band."""
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            loss = compared.analysis.first_loss_of(column, new, old)
            if loss is not None:
                yield loss


def _at_equal_pass_at_1(compared: ComparedCheckpoints) -> Iterator[Block]:
    """What labels with several checkpoints keep at the pass@1 that others reach."""
    from fgrpo_bench.report.tables.comparisons import equal_pass_at_1_tables
    from fgrpo_bench.report.words import kept

    sentences = list(kept(compared.analysis))
    if sentences:
        yield Paragraph(text=" ".join(sentences))
    yield from equal_pass_at_1_tables(compared.analysis)


def _column_tables(
    compared: ComparedCheckpoints, column: str, new: str, old: str, *, wide: bool, shown: int
) -> Iterator[Block]:
    rows = compared.differences(column, new, old)
    further = ("p of draws", "problems")
    left_out = f"Left out: {', '.join(further)} (--wide shows them)."
    lacking = "No problem has a value for both."
    sides = [
        compared.analysis.estimate(column, label, compared.analysis.ks[0]) for label in (old, new)
    ]
    shares = zip(UNFINISHED, *(unfinished_shares(side.unfinished) for side in sides), strict=True)
    yield Table(
        title=f"{column}: {new} minus {old}, pass@k in percent, differences in percentage points",
        header=("k", old, new, f"difference{' [95% interval]' * wide}", "p", *further * wide),
        rows=tuple(_row(compared, row)[: 5 + 2 * wide] for row in rows),
        notes=tuple([lacking] * (not rows) + [left_out] * (not wide)),
    )
    yield Table(
        title=f"{column}: how draws ended, in percent",
        header=("", old, new),
        rows=tuple(shares),
        notes=(unfinished_note(UNFINISHED),),
    )
    yield from _by_value(compared, column, new, old)
    if rows and column in compared.analysis.results.benchmarks:
        k = rows[-1].k
        numbers = _won_and_lost(compared, column, new, old, k)
        yield Paragraph(
            text=f"Problems within reach at k = {k}, expected: {numbers['gained']:.1f} won, "
            f"{numbers['lost']:.1f} lost, {numbers['retained']:.1f} kept, "
            f"{numbers['neither']:.1f} of neither."
        )
        changed = changed_most(compared, column, new, old)
        more = len(changed) - shown
        if changed:
            yield Table(
                title=f"{column}: problems that changed most, success rates in percent",
                header=("problem", "", old, new),
                rows=tuple(
                    (
                        c.problem_id,
                        c.text if wide else c.text[:NARROW_CHARACTERS],
                        percent(c.old),
                        percent(c.new),
                    )
                    for c in changed[:shown]
                ),
                n_words=2,
                notes=() if more < 1 else (f"{more} more: --wide shows them.",),
            )


def _by_value(compared: ComparedCheckpoints, column: str, new: str, old: str) -> Iterator[Block]:
    """The same by the values of a column of the problems, where these have it."""
    differences = {
        (row.value, row.k): row for row in compared.differences_by_value(column, new, old)
    }
    news = [
        row
        for row in compared.estimates_by_value.values()
        if (row.column, row.cell) == (column, new)
    ]
    if not news:
        return
    rows: list[tuple[str, ...]] = []
    for row in news:
        both = (compared.estimates_by_value[column, row.value, old, row.k], row)
        of_pair = differences.get((row.value, row.k))
        rows.append(
            (
                row.value,
                f"{row.n_of_value:,}",
                str(row.k),
                *(with_interval(side.mean, side.low, side.high, open_part=side.open_part)
                  for side in both),
                *((NONE,) * 3 if of_pair is None else (
                    difference(of_pair.difference, of_pair.low, of_pair.high),
                    p_value(of_pair.p),
                    p_value(of_pair.p_holm),
                )),
            )
        )  # fmt: skip
    by = news[0].by
    yield Table(
        title=f"{column} by {by}: {new} minus {old}, pass@k in percent, differences in percentage "
        "points",
        header=(by, "problems", "k", old, new, "difference [95% interval]", "p", "p Holm"),
        rows=tuple(rows),
        notes=compared.analysis.notes_on_values(column),
    )


def _row(compared: ComparedCheckpoints, row: Comparison) -> tuple[str, ...]:
    means = (compared.analysis.estimate(row.column, label, row.k) for label in (row.old, row.new))
    return (
        str(row.k),
        *(
            with_interval(item.mean, item.low, item.high, open_part=item.open_part)
            for item in means
        ),
        difference(row.difference, row.low, row.high) if row.low is not None else NONE,
        p_value(row.p),
        p_value(row.p_draws),
        f"{row.n_problems:,}",
    )


def _explanation(compared: ComparedCheckpoints) -> list[Block]:
    """What the columns are, below the tables."""
    by_value = (
        " p Holm: corrected over the values of the column, for each pair and k alone."
        if compared.analysis.rows("by_value_comparisons")
        else ""
    )
    return [
        Heading(text="Notes"),
        Paragraph(
            text="Differences are paired problem by problem. p: of no difference, over problems "
            "(and seeds where there are several), and goes with the interval; p of draws: were "
            "these problems and models all there is, so of the luck of the draws alone. Nothing is "
            "corrected over k, benchmarks or pairs. Problems that changed most: by how far "
            "1 - (1 - success rate)^k moved, mean over the k of the table."
            f"{by_value}"
        ),
    ]


# What a program reads.


def table(compared: ComparedCheckpoints) -> pl.DataFrame:
    """A row a column, pair and k: fractions, and differences of fractions; of a comparison by a
    column of the problems (`by`) then a row a value and k too, which has nothing in `value` where
    it is over all problems."""
    rows = []
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            for row in compared.differences(column, new, old):
                sides = [compared.analysis.estimate(column, label, row.k) for label in (old, new)]
                rows.append(_numbers(row, *sides))
    if compared.analysis.by is not None:
        of_all = {"by": compared.analysis.by, "value": None, "p_holm": None}
        rows = [row | of_all for row in rows] + _rows_by_value(compared)
    return pl.DataFrame(rows, infer_schema_length=None)


def _rows_by_value(compared: ComparedCheckpoints) -> list[dict[str, Any]]:
    """Rows of the values of a column, behind those of all problems."""
    out = []
    for new, old in compared.pairs():
        for column in compared.analysis.columns:
            for row in compared.differences_by_value(column, new, old):
                sides = (
                    compared.estimates_by_value[column, row.value, at, row.k] for at in (old, new)
                )
                of_value = {"by": row.by, "value": row.value, "p_holm": row.p_holm}
                out.append(_numbers(row, *sides) | of_value)
    return out


def _numbers(row: Comparison, old: Estimate, new: Estimate) -> dict[str, Any]:
    """A row of the table: a difference between its two sides."""

    def of_side(side: str, row: Estimate) -> dict[str, float | None]:
        return {f"{name}_{side}": getattr(row, name) for name in OPEN_AND_CUT_OFF}

    return (
        {
            "column": row.column,
            "new": row.new,
            "old": row.old,
            "k": row.k,
            "pass_at_k_old": old.mean,
            "pass_at_k_new": new.mean,
            "difference": row.difference,
            "ci_low": row.low,
            "ci_high": row.high,
            "p": row.p,
            "p_draws": row.p_draws,
            "n_problems": row.n_problems,
            "n_seeds": len(row.seeds),
        }
        | of_side("old", old)
        | of_side("new", new)
    )


def as_json(compared: ComparedCheckpoints) -> dict[str, Any]:
    """Everything that is shown, unrounded."""
    results = compared.analysis.results
    return {
        "labels": compared.labels,
        "remarks": [*_unlike_ends(compared), *remarks(compared)],
        "rows": table(compared).to_dicts(),
        "first_loss": [
            {"column": row.column, "new": row.new, "old": row.old}
            | {"from": row.low, "to": row.high, "words": row.words}
            for row in _first_losses(compared)
        ],
        "equal_pass_at_1": compared.analysis.equal_pass_at_1.to_dicts(),
        "path_ranges": compared.analysis.path_ranges.to_dicts(),
        "also": [table_as_json(block) for block in compared.readings if isinstance(block, Table)],
        "problems": [
            {"benchmark": name, "new": new, "old": old, "k": results.evaluation["ks"][-1]}
            | _won_and_lost(compared, name, new, old, results.evaluation["ks"][-1])
            | {"changed": [vars(item) for item in changed_most(compared, name, new, old)]}
            for new, old in compared.pairs()
            for name in results.benchmarks
        ],
    }


def worse_at(compared: ComparedCheckpoints, k: int) -> list[Comparison]:
    """Differences at k whose 95% interval lies below 0; ValueError for a k that is not there."""
    rows = [
        row
        for new, old in compared.pairs()
        for column in compared.analysis.headline
        for row in compared.differences(column, new, old)
    ]
    known = sorted({row.k for row in rows})
    if k not in known:
        raise ValueError(
            f"--fail-if-worse {k}: k is one of {', '.join(map(str, known)) or 'none'}, those at "
            "which both are scored"
        )
    return [row for row in rows if row.k == k and row.high is not None and row.high < 0]


def text(compared: ComparedCheckpoints, *, wide: bool = False) -> str:
    """For a terminal; wide: with every column and row, however wide it is."""
    shown = CHANGED if wide else FIRST_CHANGED
    return terminal(
        _heading(compared), _content(compared, wide=wide or width() >= COLUMNS, shown=shown)
    )


def write(
    compared: ComparedCheckpoints,
    *,
    html: Path | None,
    md: Path | None,
    csv: Path | None,
) -> str:
    """Write what has a place; returns the lines that say so, empty without any."""
    files: dict[Path, str] = {}
    if html is not None:
        files[html] = page(compared)
    if md is not None:
        files[md] = markdown(_heading(compared), _content(compared))
    if csv is not None:
        files[csv] = table(compared).write_csv()
    for path, content in files.items():
        write_text(path, content)
    return "\n".join(map(str, files))


def page(compared: ComparedCheckpoints) -> str:
    """One file of HTML: the comparison, then all that a report says, with its figures."""
    from fgrpo_bench.report import build

    return build.page(compared.analysis, _heading(compared), _content(compared))
