"""Which group size is dangerous? Tail-miss probability against N, as a table and a figure."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fgrpo_bench.commandline import Parser
from fgrpo_bench.documents.terminal import aligned
from fgrpo_bench.runs import add_run_options
from fgrpo_bench.theory import most_dangerous_group_size, tail_miss_probability

if TYPE_CHECKING:
    from fgrpo_bench.theory.measured import Measured

SHARES = (0.05, 0.1, 0.2)
LARGEST = 4096
EXAMPLES = """\
The tail is a share of the correct answers: with --success-rate 0.3 --tail-share 0.1 it has a mass
of 0.03. A group is dangerous where it teaches (some right, some wrong) and holds none of the tail.

examples:
  python -m fgrpo_bench.theory --success-rate 0.3 --tail-share 0.05 0.1 0.2
  python -m fgrpo_bench.theory --from-sweep groupsize
  python -m fgrpo_bench.theory --from-sweep groupsize --experiment countdown-prompts
  python -m fgrpo_bench.theory --weights
  python -m fgrpo_bench.theory --weights grpo grpo@1 maxrl pkpo:k=4 --group-size 8 32 --figure
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 with a line on standard error."""
    parser = Parser(
        prog="python -m fgrpo_bench.theory",
        description=__doc__,
        epilog=EXAMPLES,
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--success-rate", type=float, help="of the policy on a prompt, in (0, 1)")
    source.add_argument("--from-sweep", help="the base models' success rates, problem by problem")
    source.add_argument(
        "--weights",
        nargs="*",
        metavar="METHOD",
        help="expected weight of advantages on prompts of each success rate, of all or of those "
        "named: advantage[:parameter=value,...][@focal_gamma]",
    )
    parser.add_argument("--group-size", type=int, nargs="+", default=[8], help="of --weights")
    parser.add_argument("--figure", action="store_true", help="with --weights: draw them")
    parser.add_argument(
        "--over",
        metavar="METHOD",
        help="of --figure: the method that is drawn over group sizes (now: grpo@1)",
    )
    parser.add_argument("--tail-share", type=float, nargs="+", default=list(SHARES))
    add_run_options(parser)
    parser.add_argument("--to", type=Path, help="folder of the figure (now: <root>/theory)")
    options = parser.parse_args(arguments)
    try:
        if options.weights is not None:
            return _weights(options)
        shares = sorted(set(options.tail_share))
        if not all(0 < share < 1 for share in shares):
            raise ValueError(f"--tail-share {options.tail_share}: shares lie between 0 and 1")
        if options.from_sweep is None:
            rates, measured, name = _rates(options.success_rate), None, f"{options.success_rate:g}"
        else:
            measured = _measured(options)
            rates, name = measured.success_rates, measured.name
        print(words(rates, shares, measured))
        folder = options.to or options.root / "theory"
        print(_draw(rates, shares, measured, folder / f"tail-miss-{name}"))
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _weights(options: argparse.Namespace) -> int:
    from fgrpo_bench.documents.terminal import plain_table
    from fgrpo_bench.theory.weights import METHODS, OVER, Method, draw, weight_table

    if min(options.group_size) < 2:
        raise ValueError(f"--group-size {min(options.group_size)}: a group has at least 2 rollouts")
    methods = [Method.parse(text) for text in options.weights or METHODS]
    for group_size in options.group_size:
        print("\n".join(plain_table(weight_table(methods, group_size))), end="\n\n")
    if options.figure:
        folder = options.to or options.root / "theory"
        over = Method.parse(options.over or OVER)
        print(draw(methods, options.group_size, over, folder / "weights"))
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


def words(rates: np.ndarray, shares: Sequence[float], measured: Measured | None) -> str:
    """The table and the answer."""
    sizes = 2 ** np.arange(1, 13)
    columns = [mean_tail_miss(sizes, rates, share) for share in shares]
    header = ["N", *(f"tail {share:g}" for share in shares)]
    lost = {} if measured is None else measured.lost
    if lost:
        header.append("measured: lost")
    rows = [
        [str(size), *(f"{column[i]:.4f}" for column in columns)]
        + ([f"{lost[int(size)]:.1%}" if int(size) in lost else "-"] if lost else [])
        for i, size in enumerate(sizes)
    ]
    lines = aligned([header, *rows], n_words=0)
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


def _measured(options: argparse.Namespace) -> Measured:
    from fgrpo_bench.analysis import load
    from fgrpo_bench.theory.measured import measure

    return measure(
        load(
            options.from_sweep,
            experiment=options.experiment,
            version=options.version,
            root=options.root,
        )
    )


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
