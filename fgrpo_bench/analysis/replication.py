"""What a sweep shows again that another showed first, on other seeds (`sweep.replicates`).

In: the analysis of a sweep that names another one. Out: each comparison of its question beside the
same one there. A result is replicated where both are significant in their own families, which were
declared before each, in the same direction. Next: report.words, which says it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from fgrpo_bench.analysis.comparisons import SIGNIFICANT
from fgrpo_bench.analysis.frames import Analysis, cells_of
from fgrpo_bench.analysis.question import Family, pairs_and_family
from fgrpo_bench.analysis.results import load_results
from fgrpo_bench.analysis.rows import Comparison
from fgrpo_bench.analysis.stored import analysed
from fgrpo_bench.command.runs import choose_run, run_address
from fgrpo_bench.files.paths import RunPaths


@dataclass(frozen=True, kw_only=True)
class Replication:
    """A comparison in both sweeps."""

    first: Comparison | None
    """In the sweep that is named; None where it has no results."""
    again: Comparison

    @property
    def is_replicated(self) -> bool:
        """Whether both are significant in the same direction."""
        return (
            self.first is not None
            and self.first.verdict == self.again.verdict == SIGNIFICANT
            and self.first.difference * self.again.difference > 0
        )


def first_run(paths: RunPaths, name: str) -> RunPaths:
    """The run that `sweep.replicates` names, of the same experiment unless it names another;
    raises as fgrpo_bench.command.runs.choose_run."""
    experiment = None if "/" in name else paths.experiment
    return choose_run(paths.root, name, experiment=experiment)


def replications(analysis: Analysis) -> tuple[str, list[Replication]] | None:
    """The name of the first run, and every comparison of the question that has results; None for
    a sweep that replicates none. Raises as `first_run`."""
    sweep = analysis.results.sweep
    if sweep is None:
        return None
    name: str | None = sweep.record.declaration["sweep"].get("replicates")
    if name is None:
        return None
    paths = first_run(sweep.paths, name)
    of_first = analysed(load_results(paths))
    first = {(row.column, row.k, row.new, row.old): row for row in of_first.in_question}
    pairs = [
        Replication(first=first.get((row.column, row.k, row.new, row.old)), again=row)
        for row in analysis.in_question
    ]
    return run_address(paths), pairs


def check_replicates(paths: RunPaths, name: str, *, family: Family, seeds: Collection[int]) -> None:
    """ValueError where the run that is planned cannot replicate the one that it names: there is no
    such run, both have a seed in common, or the first did not ask for a comparison in the same way.

    paths: of the run that is planned; seeds: its own.
    """
    try:
        first = load_results(first_run(paths, name))
    except (FileNotFoundError, ValueError) as error:
        raise ValueError(f"sweep.replicates={name}: {error}") from error
    if shared := sorted({point.seed for point in first.points}.intersection(seeds)):
        listed = ", ".join(map(str, shared))
        raise ValueError(
            f"seed {listed} is in both this sweep and {run_address(first.paths)}, which it "
            f"replicates (sweep.replicates={name}): a result is shown again by seeds that it was "
            "not found on; set others in sweep.grid.seed"
        )
    asked = pairs_and_family(first, tuple(cells_of(first).values()))[1]
    is_alike = family.at_equal_pass_at_1 == asked.at_equal_pass_at_1
    missing = sorted(set(family.names).difference(asked.names if is_alike else ()))
    if missing:
        column, k, new, old = missing[0]
        raise ValueError(
            f"{run_address(first.paths)} did not ask for {new} against {old} at k = {k} on {column}"
            f"{' at equal pass@1' * family.at_equal_pass_at_1}, which this sweep would replicate: "
            "declare comparisons of its family in sweep.family, or set sweep.replicates to null"
        )
