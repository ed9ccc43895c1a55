"""`fgrpo-bench compare A B`: evaluated checkpoints, problem by problem, at each k and over all.

In: evaluations, training runs, cells of a sweep, or samples that another program drew; the first is
what the others are compared with. Out: their numbers, and what is to be known before them. Next:
evaluators.compare_places, how they are named; evaluators.compare_output, how the numbers are shown;
fgrpo_bench.analysis.results.load_for_compare says what may be compared and analysis.frames computes
it, as for a sweep.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fgrpo_bench.analysis.evaluated import EvaluatedCheckpoint, last_of_run
from fgrpo_bench.analysis.frames import Analysis, analyse
from fgrpo_bench.analysis.results import load_for_compare
from fgrpo_bench.analysis.rows import Comparison, ValueComparison, ValueEstimate
from fgrpo_bench.core import registry
from fgrpo_bench.data.layouts import DUMP
from fgrpo_bench.documents.table import Block
from fgrpo_bench.documents.terminal import plain
from fgrpo_bench.graders import grader_version
from fgrpo_bench.graders.recorded import is_recorded
from fgrpo_bench.kinds.benchmarks import load_problems
from fgrpo_bench.stages.tables import GRADES, read_table
from fgrpo_bench.stats.coverage import coverage

from .compare_places import find_checkpoints
from .interchange import Import
from .readings import difference_tables
from .stored import layer
from .verdicts import differing

CUT_OFF_GAP = 0.05
"""Difference in the share of draws cut off that is said first."""
CHANGED = 20
"""Problems that are listed, those whose success rate changed most."""
SHOWN_CHARACTERS = 60
"""Of the text of each."""
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
    if grader is not None or strict:
        checkpoints = _judged_by(checkpoints, grader, strict=strict)
    # In the order of the words, though one of them be called `base`: the later minus the earlier.
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
        benchmarks = spec.stored_evaluation.benchmarks
        is_dump = all(spec.layout(name) == DUMP for name in benchmarks)
        (dumped if is_dump else others).append(checkpoint.name)
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
    benchmarks = set.intersection(*(
        set(item.evaluation_spec().all_benchmarks)
        for checkpoint in checkpoints
        for item in checkpoint.run_checkpoints
    ))  # fmt: skip

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
    yield from _unlike_ends(compared)
    # Reversed, so that the first checkpoint of each label is what stays.
    firsts = {checkpoint.label: checkpoint for checkpoint in reversed(compared.checkpoints)}
    specs = {label: firsts[label].evaluation_spec() for label in compared.labels}
    sampling = {label: _sampling_config(spec.identity) for label, spec in specs.items()}
    if unknown := [label for label, config in sampling.items() if not config]:
        yield f"What {', '.join(unknown)} read, and how many tokens were allowed, is not known."
    evaluations = {label: spec.evaluation for label, spec in specs.items()}
    for key, title in (IDENTITY_LABELS | SAMPLING_LABELS).items():
        configs = sampling if key in SAMPLING_LABELS else evaluations
        values = {label: config.get(key) for label, config in configs.items() if config}
        if len({json.dumps(value, sort_keys=True) for value in values.values()}) > 1:
            listed = ", ".join(f"{label} {_value_text(value)}" for label, value in values.items())
            yield f"They differ in {title}: {listed}."
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
            files = checkpoint.evaluate.benchmark(benchmark)
            for program, version in checkpoint.extra_grader_versions(benchmark).items():
                judge = checkpoint.judge_on(benchmark)
                if not is_recorded(program) or judge in (None, version):
                    continue
                ours, theirs = (read_table(files.grades(by), GRADES) for by in (judge, version))
                n = differing(ours, theirs).height
                yield (
                    f"{label}: {program}'s verdicts differ on {n:,} of {len(ours):,} draws "
                    f"(--grader {program} compares by them)."
                )


def _is_shared(compared: ComparedCheckpoints, label: str) -> bool:
    folders = [item.evaluate.folder for item in compared.checkpoints if item.label == label]
    return len(set(folders)) < len(folders)


def _sampling_config(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Values of SAMPLING_LABELS; none of draws that another program made."""
    sampling = identity.get("sampling", {})
    return sampling and {**(sampling["prompt"] or {}), **sampling}


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"{len(value)} in every prompt"  # their texts are too long to be shown
    return "none" if value is None else str(value)


def _unlike_ends(compared: ComparedCheckpoints) -> Iterator[str]:
    """That two sides differ in the share of draws that were cut off by more than CUT_OFF_GAP."""
    k = compared.analysis.ks[0]
    for benchmark in compared.analysis.results.benchmarks:
        for new, old in compared.pairs():
            ends = [compared.analysis.estimate(benchmark, label, k).cut_off for label in (old, new)]
            if ends[0] is not None and ends[1] is not None and abs(ends[1] - ends[0]) > CUT_OFF_GAP:
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
    moved_by = [
        ((1 - pl.col("new")).pow(k) - (1 - pl.col("old")).pow(k)).abs()
        for k in compared.analysis.ks
    ]
    moved = pl.mean_horizontal(*moved_by)
    most = both.filter(moved > 0).sort(-moved, "problem_id").head(CHANGED)
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
    texts = {}
    for problem in problems:
        text = plain(problem.prompt if in_words is None else in_words(problem))
        texts[problem.problem_id] = " ".join(text.split())[:longest]
    return texts


def won_and_lost(
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
        solved_only=True,
    )
    n_seeds = max(both["seed"].n_unique(), 1)
    names = ("gained", "lost", "retained", "neither")
    return {name: float(np.sum(getattr(chances, name)) / n_seeds) for name in names}


def worse_at(compared: ComparedCheckpoints, k: int) -> list[Comparison]:
    """Differences at k whose 95% interval lies below 0; ValueError for a k that is not there."""
    rows = [
        row
        for new, old in compared.pairs()
        for column in compared.analysis.headline
        for row in compared.differences(column, new, old)
    ]
    ks = sorted({row.k for row in rows})
    if k not in ks:
        raise ValueError(
            f"--fail-if-worse {k}: k is one of {', '.join(map(str, ks)) or 'none'}, those at "
            "which both are scored"
        )
    return [row for row in rows if row.k == k and row.high is not None and row.high < 0]
