"""Which group size is dangerous? Tail-miss probability against N, as a table and a figure.

In: success rates, given or measured by a sweep's base models, and tail shares. Out: words, or with
--weights what each advantage gives a prompt (weights.py). Next: the formulas, in __init__.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fgrpo_bench.command import application
from fgrpo_bench.command.application import (
    Application,
    Json,
    Root,
    print_json,
    refusals,
    refuse,
)
from fgrpo_bench.command.runs import complete_run, default_root
from fgrpo_bench.documents.terminal import aligned
from fgrpo_bench.paper.theory import most_dangerous_group_size, tail_miss_probability

if TYPE_CHECKING:  # the analysis is loaded only for a sweep
    from fgrpo_bench.analysis import Analysis


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Of one benchmark of a sweep."""

    name: str
    """For a file, e.g. groupsize-countdown."""
    title: str
    """For a person."""
    success_rates: NDArray[np.float64]
    """Of the base models by problem, means over seeds, those strictly between 0 and 1;
    [problems]."""
    lost: dict[int, float]
    """By group size at gamma = 0: expected share of the problems within the base model's reach that
    the trained model lost, mean over seeds; of the first algorithm."""


def measure(analysis: Analysis, *, benchmark: str | None = None) -> Measured:
    """Look at a sweep; ValueError where its base models have no results yet.

    benchmark: None is the first.
    """
    import polars as pl

    paths = analysis.results.require_sweep().paths
    benchmark = benchmark or analysis.results.benchmarks[0]
    counts = (
        analysis.problems.filter(cell="base", benchmark=benchmark)
        .drop_nulls("success_rate")
        .group_by("problem_id")
        .agg(pl.col("success_rate").mean())
        .sort("problem_id")
    )
    if not len(counts):
        raise ValueError(
            f"sweep {paths.sweep} has no results of its base models on {benchmark}: let it "
            "run on, or give --success-rate"
        )
    rates = counts["success_rate"].to_numpy()
    rates = rates[(rates > 0) & (rates < 1)]
    if not len(rates):
        raise ValueError(
            f"the base models solve every problem of {benchmark} always or never: no tail to miss"
        )
    return Measured(
        name=f"{paths.sweep}-{paths.experiment}",
        title=f"{benchmark} in {paths.sweep} on {paths.experiment}",
        success_rates=rates,
        lost=_lost(analysis, benchmark),
    )


def _lost(analysis: Analysis, benchmark: str) -> dict[int, float]:
    from fgrpo_bench.analysis.question import line_of_cell

    plain = [cell for cell in analysis.by_cell.values() if cell.focal_gamma == 0]
    covered = {cell: analysis.covered(benchmark, cell, analysis.ks[-1]) for cell in plain}
    first = next((cell for cell in plain if covered[cell] is not None), None)
    return {
        cell.group_size: row.lost_share
        for cell, row in sorted(covered.items(), key=lambda item: item[0].group_size or 0)
        if first is not None and line_of_cell(cell) == line_of_cell(first)
        if cell.group_size is not None and row is not None and row.lost_share is not None
    }


SHARES = (0.05, 0.1, 0.2)
"""Tail shares of the table without arguments."""
LARGEST = 4096
"""The largest group size that is looked at."""
MORE = """\
The tail is a share of the correct answers: with --success-rate 0.3 --tail-share 0.1 it has a mass
of 0.03. A group is dangerous where it teaches (some right, some wrong) and holds none of the tail.
"""
app = Application(str(__doc__), guard=refusals)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    return application.run(app, arguments, "python -m fgrpo_bench.theory")


@app.add(
    "theory",
    "which group size is dangerous: tail-miss probability against N, as a table and a figure",
    "fgrpo-bench theory --success-rate 0.3 --tail-share 0.05 0.1 0.2",
    "fgrpo-bench theory --from-sweep groupsize",
    "fgrpo-bench theory --from-sweep groupsize/countdown-prompts",
    "fgrpo-bench theory --weights",
    "fgrpo-bench theory --weights grpo grpo@1 maxrl pkpo:k=4 --group-size 8 32 --figure",
    more=MORE,
)
def theory(
    context: typer.Context,
    methods: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="METHOD",
            help="of --weights: advantage[:parameter=value,...][@focal_gamma]; none is all",
        ),
    ] = None,
    success_rate: Annotated[
        float | None, typer.Option(help="of the policy on a prompt, in (0, 1)")
    ] = None,
    from_sweep: Annotated[
        str | None,
        typer.Option(
            metavar="SWEEP",
            help="the base models' success rates, problem by problem, of sweep[/experiment[/"
            "version]]",
            autocompletion=complete_run,
        ),
    ] = None,
    with_weights: Annotated[
        bool,
        typer.Option(
            "--weights", help="expected weight of advantages on prompts of each success rate"
        ),
    ] = False,
    group_size: Annotated[list[int] | None, typer.Option(help="of --weights (now: 8)")] = None,
    figure: Annotated[bool, typer.Option("--figure", help="with --weights: draw them")] = False,
    over: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="of --figure: the method that is drawn over group sizes (now: grpo@1)",
        ),
    ] = None,
    tail_share: Annotated[
        list[float] | None, typer.Option(help=f"(now: {' '.join(map(str, SHARES))})")
    ] = None,
    root: Root = None,
    to: Annotated[
        Path | None, typer.Option(help="folder of the figure (now: <root>/theory)")
    ] = None,
    as_json: Json = False,
) -> int:
    root = root or default_root()
    folder = to or root / "theory"
    sources = (success_rate is not None, from_sweep is not None, with_weights)
    if sum(sources) != 1:
        context.fail("give one of --success-rate, --from-sweep and --weights")
    if methods and not with_weights:
        context.fail(f"{methods[0]!r}: methods are for --weights")
    if not with_weights:
        refuse(context, "is of --weights", "group_size", "figure", "over")
    elif not figure:
        refuse(context, "is of --figure", "over", "to", "root")
    if to is not None and from_sweep is None:
        refuse(context, "is not asked with --to", "root")
    if with_weights:
        refuse(context, "is not asked with --weights", "tail_share")
        to_draw = folder if figure else None
        return _weights(methods or (), group_size or [8], over, to_draw, as_json=as_json)
    shares = sorted(set(tail_share or SHARES))
    if not all(0 < share < 1 for share in shares):
        raise ValueError(f"--tail-share {shares}: shares lie between 0 and 1")
    if from_sweep is None:
        rates, measured, name = _rates(success_rate or 0.0), None, f"{success_rate:g}"
    else:
        measured = _measured(from_sweep, root)
        rates, name = measured.success_rates, measured.name
    files = _draw(rates, shares, measured, folder / f"tail-miss-{name}")
    if as_json:
        print_json(numbers(rates, shares, measured) | {"figure": files})
    else:
        print(summary_text(rates, shares, measured), files, sep="\n")
    return 0


def _weights(
    named: Sequence[str],
    group_sizes: Sequence[int],
    over: str | None,
    folder: Path | None,
    *,
    as_json: bool,
) -> int:
    """Tables of the weights. folder: of the figure; None draws none."""
    from fgrpo_bench.documents.terminal import plain_table
    from fgrpo_bench.paper.theory.weights import METHODS, OVER, RATES, Method, draw, weight_table

    if min(group_sizes) < 2:
        raise ValueError(f"--group-size {min(group_sizes)}: a group has at least 2 rollouts")
    methods = [Method.parse(text) for text in named or METHODS]
    files = (
        None
        if folder is None
        else draw(methods, group_sizes, Method.parse(over or OVER), folder / "weights")
    )
    if as_json:
        weights = [
            {"method": method.label, "group_size": size, "relative": method.relative(size, RATES)}
            for size in group_sizes
            for method in methods
        ]
        print_json({"success_rates": RATES, "weights": weights, "figure": files})
        return 0
    for group_size in group_sizes:
        print("\n".join(plain_table(weight_table(methods, group_size))), end="\n\n")
    if files is not None:
        print(files)
    return 0


def mean_tail_miss(
    group_sizes: np.ndarray, success_rates: np.ndarray, tail_share: float
) -> np.ndarray:
    """Tail-miss probability averaged over problems, [group sizes].

    success_rates: [problems].
    """
    mu = np.asarray(success_rates, dtype=float)[None, :]
    values = tail_miss_probability(np.asarray(group_sizes)[:, None], mu, tail_share * mu)
    return np.asarray(values.mean(axis=1))


def peak(success_rates: np.ndarray, tail_share: float) -> int:
    """The N at which the tail is missed most often, on average over problems."""
    if len(success_rates) == 1:
        rate = float(success_rates[0])
        return most_dangerous_group_size(rate, tail_share * rate)
    sizes = np.arange(2, LARGEST + 1)
    return int(sizes[mean_tail_miss(sizes, success_rates, tail_share).argmax()])


GROUP_SIZES = 2 ** np.arange(1, 13)
"""Of the table."""


def numbers(
    rates: np.ndarray, shares: Sequence[float], measured: Measured | None
) -> dict[str, Any]:
    """The table and the answer for a program: of each tail share the probabilities at
    `group_sizes`, and the group size at which it is missed most often."""
    missed = [
        {
            "tail_share": share,
            "tail_miss": mean_tail_miss(GROUP_SIZES, rates, share),
            "missed_most_at": peak(rates, share),
        }
        for share in shares
    ]
    return {
        "success_rates": rates,
        "group_sizes": GROUP_SIZES,
        "tails": missed,
        "lost": {} if measured is None else measured.lost,
    }


def summary_text(rates: np.ndarray, shares: Sequence[float], measured: Measured | None) -> str:
    """The table and the answer."""
    sizes = GROUP_SIZES
    columns = [mean_tail_miss(sizes, rates, share) for share in shares]
    header = ["N", *(f"tail {share:g}" for share in shares)]
    lost = {} if measured is None else measured.lost
    if lost:
        header.append("measured: lost")
    rows = [header]
    for i, size in enumerate(sizes):
        row = [str(size), *(f"{column[i]:.4f}" for column in columns)]
        if lost:
            row.append(f"{lost[int(size)]:.1%}" if int(size) in lost else "-")
        rows.append(row)
    lines = aligned(rows, n_labels=0)
    answers = [
        f"tail of {share:g} of the correct answers: missed most often at N = {peak(rates, share)}"
        for share in shares
    ]
    about = (
        f"Probability that a group teaches and holds none of the tail, success rate {rates[0]:g}"
        if measured is None
        else f"The same, mean over {len(rates)} problems of {measured.title}; lost: share of the "
        "problems that the base model reaches at the largest k and GRPO without focal weight does "
        "not"
    )
    return "\n".join([about, "", *lines, "", *answers])


def _rates(rate: float) -> np.ndarray:
    if not 0 < rate < 1:
        raise ValueError(f"--success-rate {rate}: must lie between 0 and 1")
    return np.array([rate])


def _measured(sweep: str, root: Path) -> Measured:
    from fgrpo_bench.analysis import load

    return measure(load(sweep, root=root))


def _draw(
    rates: np.ndarray, shares: Sequence[float], measured: Measured | None, path: Path
) -> Path:
    from matplotlib.figure import Figure

    from fgrpo_bench.documents.colors import ALGORITHMS
    from fgrpo_bench.documents.style import PAGE, in_math, save

    def figure() -> Figure:
        fig = Figure(figsize=(PAGE, 2.8), layout="constrained")
        axes = fig.subplots()
        sizes = np.unique(np.geomspace(2, LARGEST, 400).astype(int))
        for share, color in zip(shares, ALGORITHMS * len(shares), strict=False):
            axes.plot(sizes, 100 * mean_tail_miss(sizes, rates, share), color=color,
                      label=f"tail of {share:g}")  # fmt: skip
            at = peak(rates, share)
            height = 100 * mean_tail_miss(np.array([at]), rates, share)[0]
            axes.plot([at], [height], marker="o", color=color)
            axes.annotate(in_math(f"N={at}"), (at, height), textcoords="offset points",
                          xytext=(0, 6), ha="center", color=color)  # fmt: skip
        if measured is not None and measured.lost:
            axes.plot(list(measured.lost), [100 * v for v in measured.lost.values()], ls="--",
                      marker="s", color="#555555", label="measured: problems lost")  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_xticks([2**i for i in range(1, 13)], [str(2**i) for i in range(1, 13)])
        axes.set_xlabel(in_math("group size N"))
        axes.set_ylabel("tail missed by an active group (%)")
        axes.margins(y=0.14)
        axes.set_ylim(bottom=0)
        axes.legend()
        return fig

    return save(figure, path)[0]


if __name__ == "__main__":
    sys.exit(main())
