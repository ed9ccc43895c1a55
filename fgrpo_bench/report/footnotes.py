"""What stands below every table of pass@k: checkpoints, draws, graders, and what is open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from fgrpo_bench.analysis import Analysis
from fgrpo_bench.analysis.checkpoints import describe_rule
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.rows import UNSCORED, CellRow, Estimate, open_part
from fgrpo_bench.documents.table import percent, unscored_note
from fgrpo_bench.engines.embedded.kernels import OTHER_KERNELS
from fgrpo_bench.graders import CHOICE
from fgrpo_bench.graders.choice import guessing_floor
from fgrpo_bench.kinds.benchmarks import n_choices
from fgrpo_bench.stages.plan import DeclaredFamily

RULE = "Checkpoints: "
"""How the note begins that names the rule."""
KERNELS_PATTERN = re.compile(rf"kernels {OTHER_KERNELS} (\([^()]*\))")
"""In the fingerprint of an engine, in words."""
LISTED = 8
"""Most cells that a footnote names."""


def rule_note(analysis: Analysis) -> str:
    """Which checkpoints a table is about."""
    return f"{RULE}{describe_rule(analysis.results, analysis.rule)}."


def footnotes(analysis: Analysis, cells: Sequence[CellRow], *columns: str) -> tuple[str, ...]:
    """Facts below a table of these cells and columns."""
    parts = map(analysis.benchmarks_of, columns)
    benchmarks = list(dict.fromkeys(name for names in parts for name in names))
    rows = [analysis.estimate(b, cell, analysis.ks[0]) for b in benchmarks for cell in cells]
    graders = dict.fromkeys(version for b in benchmarks for version in analysis.graders([b]))
    return (
        f"{rule_note(analysis)} {draws_note(rows)}{_cut_off(rows)} "
        f"Grader: {', '.join(graders) or 'none yet'}.",
        *_guessed(analysis, benchmarks),
        *_unfinished(analysis, cells, benchmarks),
        *_redesigned(analysis, cells, benchmarks),
        *engines(analysis),
    )


def most_unscored(rows: Iterable[Estimate]) -> str:
    """What stands behind a value that is of several rows, e.g. of several checkpoints or k: the
    largest share unscored among them."""
    return unscored_note(*open_part(max((row.unscored for row in rows), default=0.0), None, None))


def draws_note(rows: Sequence[Estimate]) -> str:
    """How many draws are behind these values, in a sentence."""
    designs = dict.fromkeys(words for row in rows for words in row.designs)
    if not designs:
        sizes = sorted({row.n_samples for row in rows if row.n_samples is not None})
        return f"{' or '.join(map(str, sizes)) or 'no'} draws per problem."
    means = sorted({round(row.n_draws) for row in rows if row.n_draws is not None})
    ends = " to ".join(f"{n:,}" for n in dict.fromkeys((means[0], means[-1]))) if means else "no"
    sentence = " or: ".join(designs)
    return f"{sentence[0].upper()}{sentence[1:]}; mean {ends} draws."


def family_note(analysis: Analysis) -> str:
    """What p-values are corrected over, and that it was declared late where it was."""
    if not analysis.has_family:
        return " ".join((NOTHING_CORRECTED, *redeclared(analysis)))
    corrected = (
        "p Holm, and p BH where it is shown, are corrected over the comparisons of the question "
        f"({analysis.family}), those that are not there yet counted with p = 1. Other comparisons "
        "have neither and are never significant."
    )
    return " ".join((corrected, *redeclared(analysis)))


def redeclared(analysis: Analysis) -> tuple[str, ...]:
    """A sentence where today's question is not the one that stood when a first training run had
    finished, for every place that shows verdicts; nothing where it is, and where neither is
    recorded."""
    sweep = analysis.results.sweep
    families = () if sweep is None else sweep.record.families
    if not families or not families[-1].trained:
        return ()
    last, standing = families[-1], [family for family in families if not family.trained]
    is_other = not standing or standing[-1].sha256 != last.sha256

    def as_last(family: DeclaredFamily) -> bool:
        return family.sha256 == last.sha256 if is_other else family.question == last.question

    since = next(  # the first of those that declare the same and end the list
        family for i, family in enumerate(families) if all(map(as_last, families[i:]))
    )
    after = f"on {since.declared[:10]}, after a first training had finished"
    if not standing:
        return (f"The family was declared {after}; what was declared before is not recorded.",)
    before = standing[-1]
    if is_other:
        compared = f"{before.family}; comparisons: {before.comparisons}"
        now = f"now: {last.comparisons}"
        return (f"The family was changed {after} (declared before: {compared}, {now}).",)
    if before.question != last.question:
        return (f"The question was reworded {after} (declared before: {before.question}).",)
    return ()


def engines(analysis: Analysis) -> list[str]:
    """What is known where draws were made by engines that differ, or with kernels that other
    machines do not have; nothing where all are alike and draw alike everywhere."""
    kernels = sorted(
        {name for words in analysis.engines for name in KERNELS_PATTERN.findall(words)}
    )
    elsewhere = [
        f"The built-in engine drew with kernels of the machine's own {name}: on others, whose "
        "kernels round otherwise, digits may differ, within the intervals."
        for name in kernels
    ]
    if len(analysis.engines) < 2:
        return elsewhere
    named = "; ".join(
        f"{words} ({listed(points, LISTED)})" for words, points in sorted(analysis.engines.items())
    )
    return [
        "The draws were made by engines that differ, which may change one in its last bits, so a "
        f"difference between their points is not of the training alone: {named}.",
        *elsewhere,
    ]


def remote_code(analysis: Analysis) -> tuple[str, ...]:
    """A sentence where a model's own code was allowed to run: what that computes, nobody here has
    looked at; none where it was not."""
    names = analysis.results.remote_code
    if not names:
        return ()
    return (f"Code of the model's own ran (trust_remote_code): {listed(names, LISTED)}.",)


def listed(names: Sequence[object], most: int, separator: str = ", ") -> str:
    """The first names, and how many more there are."""
    shown = separator.join(map(str, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _cut_off(rows: Sequence[Estimate]) -> str:
    """A sentence on few draws that were cut off; of more the columns of a table tell."""
    shares = [row.cut_off for row in rows if row.seeds]
    most = max((share for share in shares if share is not None), default=0.0)
    if None in shares or not shares or most > UNSCORED:
        return ""
    if most == 0:
        return " No draw was cut off."
    correct = max(row.correct_cut_off or 0.0 for row in rows)
    return f" At most {most:.1%} of a cell's draws were cut off, of the correct ones {correct:.1%}."


def _guessed(analysis: Analysis, benchmarks: Sequence[str]) -> list[str]:
    """What guessing alone gives on benchmarks whose problems list their options."""
    notes, declared = [], analysis.results.evaluation["benchmarks"]
    for benchmark in (name for name in benchmarks if declared[name]["grader"] in CHOICE):
        listed_as = [item for item in analysis.results.checkpoints if item.evaluate.spec.exists()]
        spec = listed_as[0].evaluation_spec() if listed_as else None
        options = spec and n_choices(spec.benchmark(benchmark), spec.data_folder(benchmark))
        floors = {k: guessing_floor(k, options or ()) for k in analysis.ks}
        shown = [f"pass@{k} {percent(floor)}" for k, floor in floors.items() if floor is not None]
        if shown:
            notes.append(f"{benchmark} by guessing alone: {', '.join(shown)}.")
    return notes


def _unfinished(
    analysis: Analysis, cells: Sequence[CellRow], benchmarks: Sequence[str]
) -> list[str]:
    """Which values have a dagger or are dashes, and why; empty where none is."""
    by_fault = dict[str, list[str]]()
    for benchmark in benchmarks:
        for cell in cells:
            lacking: dict[str, list[int]] = {}
            for row in analysis.over_k(benchmark, cell):
                for fault in row.lacks:
                    lacking.setdefault(fault, []).append(row.k)
            where = f"{cell.label} on {benchmark}" if len(benchmarks) > 1 else cell.label
            for fault, ks in lacking.items():
                at = "" if len(ks) == len(analysis.ks) else f" at k = {listed(ks, len(ks))}"
                by_fault.setdefault(fault, []).append(f"{where}{at}")
    return [f"Incomplete, {fault}: {listed(who, LISTED)}." for fault, who in by_fault.items()]


def _redesigned(
    analysis: Analysis, cells: Sequence[CellRow], benchmarks: Sequence[str]
) -> list[str]:
    """Whose design was changed; empty where none was."""
    changed = []
    for benchmark in benchmarks:
        where = f" on {benchmark}" if len(benchmarks) > 1 else ""
        for cell in cells:
            if analysis.estimate(benchmark, cell, analysis.ks[0]).is_redesigned:
                changed.append(f"{cell.label}{where}")
    if not changed:
        return []
    return [
        "When problems stop was changed after draws of these were there; pass@k is exact for a "
        f"design that was chosen before: {listed(changed, LISTED)}."
    ]
