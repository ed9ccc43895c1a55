"""Our cells beside the published ones."""

from __future__ import annotations

from fgrpo_bench.report.published import BENCHMARKS, MODELS, lookup
from fgrpo_bench.report.shape import Table, percent
from fgrpo_bench.report.summary import Summary
from fgrpo_bench.report.tables import names
from fgrpo_bench.report.verdict import points

KS = (1, 256)
"""The k of the paper's main tables."""


def against_paper(summary: Summary) -> list[Table]:
    """A table a benchmark: ours, the paper's and the difference at k = 1 and 256.

    Raises ValueError where the paper has no figures of this model or of any benchmark.
    """
    model = summary.results.model
    if model not in MODELS:
        raise ValueError(
            f"the paper has no figures of model {model!r}; it has {', '.join(MODELS)}: leave out "
            "--compare-paper, or report a sweep of one of those"
        )
    shared = [name for name in summary.results.benchmarks if name in BENCHMARKS]
    ks = [k for k in KS if k in summary.ks]
    if not shared or not ks:
        raise ValueError(
            f"the paper has pass@{KS[0]} and pass@{KS[1]} on {', '.join(BENCHMARKS)}; this sweep "
            f"has k in {list(summary.ks)} on {', '.join(summary.results.benchmarks)}"
        )
    return [_table(summary, model, benchmark, ks) for benchmark in shared]


def _table(summary: Summary, model: str, benchmark: str, ks: list[int]) -> Table:
    rows = []
    for cell in summary.cells:
        row = list(names(cell))
        for k in ks:
            ours = summary.scores[benchmark, cell].estimates[summary.ks.index(k)].mean
            theirs = lookup(
                model=model,
                algorithm=cell.algorithm,
                focal_gamma=cell.focal_gamma,
                group_size=cell.group_size,
                benchmark=benchmark,
                k=k,
            )
            difference = None if ours is None or theirs is None else ours - theirs
            row += [percent(ours), percent(theirs), points(difference)]
        rows.append(tuple(row))
    return Table(
        title=f"{benchmark}: ours beside arXiv 2602.06717, {MODELS[model]}, in percent",
        header=(
            *("method", "N", "gamma"),
            *(f"{what} @{k}" for k in ks for what in ("ours", "paper", "difference")),
        ),
        rows=tuple(rows),
    )
