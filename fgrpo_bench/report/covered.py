"""Problems retained, gained and lost against the base model, as a table."""

from __future__ import annotations

import numpy as np

from fgrpo_bench.coverage import Coverage, coverage, least_rate
from fgrpo_bench.report.summary import Cell, Summary
from fgrpo_bench.report.tables import Table, names

FATES = ("retained", "lost", "gained")
"""What can become of a problem that either model reaches."""


def fates(summary: Summary, benchmark: str) -> dict[Cell, tuple[Coverage, ...]]:
    """Coverage at the largest k of every trained cell against the base model of the same seed, a
    seed each; cells and seeds without both are left out."""
    bases = [cell for cell in summary.cells if cell.is_base]
    found: dict[Cell, tuple[Coverage, ...]] = {}
    for cell in summary.cells:
        if cell.is_base or not bases:
            continue
        old, new = summary.scores[benchmark, bases[0]], summary.scores[benchmark, cell]
        seeds = [seed for seed in new.seeds if seed in old.seeds]
        if not seeds:
            continue
        before, after = old.of_seeds(seeds), new.of_seeds(seeds)
        found[cell] = tuple(
            coverage(
                n_old=before.n_scored[i],
                old=before.n_correct[i],
                n_new=after.n_scored[i],
                new=after.n_correct[i],
                k=summary.ks[-1],
            )
            for i in range(len(seeds))
        )
    return found


def coverage_table(summary: Summary, benchmark: str) -> Table:
    """Expected numbers of problems, mean over seeds, and those that are all but certain."""
    rows = []
    for cell, by_seed in fates(summary, benchmark).items():
        sums = {name: mean_count(by_seed, name) for name in (*FATES, "neither")}
        certain = {name: _mean_certain(by_seed, name) for name in ("lost", "gained")}
        rows.append(
            (
                *names(cell),
                *(f"{sums[name]:.1f}" for name in ("retained", "lost", "gained", "neither")),
                *(f"{certain[name]:.1f}" for name in ("lost", "gained")),
                str(len(by_seed)),
            )
        )
    k = summary.ks[-1]
    return Table(
        title=f"{benchmark}: problems within reach at k = {k}, against the base model",
        header=(
            *("method", "N", "gamma", "retained", "lost", "gained", "neither"),
            *("surely lost", "surely gained", "seeds"),
        ),
        rows=tuple(rows),
    )


def coverage_note(k: int) -> str:
    """What the table's words mean."""
    return (
        f"A problem is within reach at k = {k} where one of {k} draws is more likely correct than "
        f"none (a success rate of {least_rate(k):.2g} and more). Numbers are expected counts under "
        "the posterior of each problem's success rate (Jeffreys' prior), mean over seeds; surely: "
        "with a probability of at least 95%."
    )


def mean_count(by_seed: tuple[Coverage, ...], name: str) -> float:
    """Expected number of problems of a fate (a field of Coverage), mean over seeds."""
    return float(np.mean([getattr(one, name).sum() for one in by_seed]))


def _mean_certain(by_seed: tuple[Coverage, ...], name: str) -> float:
    return float(np.mean([(getattr(one, name) >= 0.95).sum() for one in by_seed]))
