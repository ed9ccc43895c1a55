"""How the numbers of a report were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fgrpo_bench.analysis import LEVEL, REPLICATES, Analysis
from fgrpo_bench.analysis.question import NOTHING_CORRECTED
from fgrpo_bench.analysis.results import SweepResults
from fgrpo_bench.analysis.rows import Estimate
from fgrpo_bench.documents.blocks import Notes
from fgrpo_bench.report.footnotes import NAMED, draws_made, engines, listed


def notes(analysis: Analysis) -> Notes:
    """One fact a line."""
    sweep, evaluation = analysis.results.sweep, analysis.results.evaluation
    rows = [row for name in analysis.results.benchmarks for row in analysis.of_column(name)]
    seeds = sorted({seed for row in rows for seed in row.seeds if seed is not None})
    unscored = max((row.unscored for row in rows), default=0.0)
    graders = ", ".join(analysis.graders(analysis.results.benchmarks))
    lines = [
        f"{_estimator(rows)}, temperature {_number(evaluation, 'temperature')}, "
        f"top-p {_number(evaluation, 'top_p')}.",
        f"Training seeds with results: {listed(seeds, NAMED) or 'none'}. All cells of a "
        "seed start from the same base model, so differences are paired over seeds and problems; "
        '"by seed" lists them in rising order of the seeds that both cells have.',
        f"Intervals are of {LEVEL:.0%}. Their width is that of Student's t with the variance of "
        "the mean over crossed seeds and problems (mean squares) and degrees of freedom between "
        "Satterthwaite's and Banerjee's; their shape, how far they reach to either side, is that "
        "of a bootstrap that resamples problems (where these have clusters, the clusters) and "
        f"seeds independently (Owen 2007; {REPLICATES:,} replicates, a fixed seed). Near 0 and "
        "100% they leave room for one problem more than were seen (Fay and Feuer 1997).",
        "An interval without width says that nothing varied in the data, not that the value is "
        "certain.",
    ]
    corrected = (
        "p Holm bounds the chance of any false claim among the comparisons of the question "
        f"({analysis.family}), p BH the expected share of false ones; other comparisons have "
        "neither."
        if analysis.has_family
        else NOTHING_CORRECTED
    )
    if analysis.asked:
        lines.append(
            "p is two-sided, over problems and seeds: 1 less the level of the interval that ends "
            f"at 0. {corrected} p draws takes these models and problems as given and asks about "
            "the draws alone (unbiased variance of pass@k; needs 2k draws). It takes the draws of "
            "both cells as independent; those of one seed share their random numbers, so it is "
            "too large rather than too small."
        )
        design = analysis.results.stopping
        lines += dict.fromkeys(
            f"No p draws: {why}."
            for k in sorted({row.k for row in analysis.asked if row.p_draws is None})
            if design is not None and (why := design.no_variance(k)) is not None
        )
    return Notes(
        lines=(
            *lines,
            f"Grader: {graders or 'none yet'}. Largest share of draws that it could "
            f"not judge in a cell: {unscored:.2%} (left out of n and c).",
            *engines(analysis),
            *([] if sweep is None else _made_by(sweep)),
        )
    )


def _number(evaluation: Mapping[str, Any], name: str) -> str:
    """A setting of the draws, which checkpoints without a sweep may differ in."""
    return f"{evaluation[name]:g}" if name in evaluation else "of each evaluation's own"


def _made_by(sweep: SweepResults) -> tuple[str, str]:
    """What was trained, with which code, and what its costs are of."""
    record = sweep.record
    state = " with uncommitted changes" if record.git_dirty else ""
    versions = ", ".join(f"{name} {n}" for name, n in record.versions.items())
    return (
        f"Model: {sweep.model}. Code: git commit {record.git_commit}{state}; {versions}.",
        "CPU-seconds are those of a stage's last attempt; one that was stopped and continued cost "
        "more.",
    )


def _estimator(rows: Sequence[Estimate]) -> str:
    """What pass@k is computed by, and from how many draws."""
    usual = "1 - C(n - c, k) / C(n, k), with n draws of which c are correct (Chen et al. 2021)"
    if not any(row.designs for row in rows):
        sizes = sorted({row.n_samples for row in rows if row.n_samples is not None})
        return (
            f"pass@k is the mean over problems of {usual}; n = {listed(sizes, NAMED) or 'unknown'}"
        )
    return (
        "pass@k is the mean over problems of 1 - W_k / W, with W the sequences of correct and "
        "wrong draws that end where the problem stopped, and W_k those of them whose first k are "
        "wrong, which is unbiased at every k (Girshick, Mosteller and Savage 1946; of a fixed "
        f"number of draws it is {usual}). {draws_made(rows).removesuffix('.')}"
    )
