"""How many draws are enough: what a planned evaluation can show, before anything runs.

examples:
    python -m fgrpo_bench.stats.power --k 256 --problems 500 --n-samples 256 512 1024
    python -m fgrpo_bench.stats.power --k 256 --problems 500 --half-width 0.01
    python -m fgrpo_bench.stats.power --k 1 256 --problems 500 --half-width 0.01 --design

Only the noise of the draws is counted, for given problems and models, and at its largest: as if
every problem had the success rate at which pass@k is least certain. Training seeds differ beside
it, and no number of draws makes up for seeds. With --design the problems' success rates are those
of a Beta distribution, and the draws may stop where enough are correct (`StagedDesign`).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fgrpo_bench.commandline import Parser
from fgrpo_bench.stats.designs import (
    MOST_FIXED,
    PRIOR,
    beta_rates,
    cheapest_design,
    fewest,
    fewest_draws,
)
from fgrpo_bench.stats.staged import StagedDesign
from fgrpo_bench.stats.variance import draw_moments

LEVEL = 0.95
POWER = 0.8
MOST_DRAWS = 16_384
"""Where `draws_needed` gives up."""
MOST = 100_000
"""Of draws, k and problems that the command takes: a table has a row a draw."""
RATES = np.exp(np.linspace(math.log(1e-6), math.log(0.999), 240))
"""Success rates that are tried; the variance is flat around its largest value."""


Draws = int | StagedDesign
"""Draws of a problem: a fixed number, or a design by which they stop."""


@lru_cache(maxsize=256)
def worst_variance(n_samples: Draws, k: int) -> float:
    """The largest variance of a problem's pass@k over its draws, at whatever success rate.

    0.25 for n = k: a problem's value is 0 or 1 then, a coin flip.
    """
    if isinstance(n_samples, StagedDesign):
        return float(n_samples.draw_moments(k=k, success_rate=RATES)[1].max())
    return float(draw_moments(n_samples=n_samples, k=k, success_rate=RATES)[1].max())


def smallest_effect(
    *,
    n_samples: Draws,
    k: int,
    n_problems: int | Sequence[int],
    level: float = LEVEL,
    power: float = POWER,
) -> float:
    """The difference in pass@k between two models that a two-sided test shows with this power, at
    most; a fraction.

    (z_(1 - alpha/2) + z_power) sqrt(2 v / problems), v the worst variance of a problem.
    n_problems: several are those of the benchmarks of a plain average.
    """
    sizes = [n_problems] if isinstance(n_problems, int) else n_problems
    z = _quantile((1 + level) / 2) + _quantile(power)
    variance = worst_variance(n_samples, k) * sum(1 / size for size in sizes) / len(sizes) ** 2
    return z * math.sqrt(2 * variance)


def half_width(*, n_samples: Draws, k: int, n_problems: int, level: float = LEVEL) -> float:
    """Half the width of an interval for one model's pass@k, at most; a fraction."""
    return _quantile((1 + level) / 2) * math.sqrt(worst_variance(n_samples, k) / n_problems)


def draws_needed(
    *, k: int, n_problems: int, half_width_wanted: float, level: float = LEVEL
) -> int | None:
    """Fewest draws a problem whose interval is surely no wider; None above MOST_DRAWS."""

    def suffices(n_samples: int) -> bool:
        width = half_width(n_samples=n_samples, k=k, n_problems=n_problems, level=level)
        return width <= half_width_wanted

    return fewest(suffices, least=k, most=MOST_DRAWS)


def advice(*, n_samples: Draws, k: int, n_problems: int | Sequence[int]) -> str:
    """One line for a person, e.g. of `sweeps plan`. n_problems: as of `smallest_effect`."""
    effect = smallest_effect(n_samples=n_samples, k=k, n_problems=n_problems)
    draws, most = str(n_samples), n_samples
    if isinstance(n_samples, StagedDesign):
        most = n_samples.stages[-1]
        draws = f"{n_samples.stages[0]} to {most}"
    flip = "; n = k makes each problem a coin flip, draw 2k" if most == k else ""
    of = n_problems if isinstance(n_problems, int) else " + ".join(map(str, n_problems))
    return (
        f"pass@{k} of {of} problems from {draws} draws each: differences of "
        f"{100 * effect:.1f} points and more are shown (95% level, 80% power, the draws' noise at "
        f"its largest; seeds add theirs){flip}"
    )


def design_advice(
    *, ks: Sequence[int], n_problems: int, half_width_wanted: float, beta: tuple[float, float]
) -> str:
    """The design with the fewest expected draws for this half width at every k, in one line.

    beta: parameters of the distribution of the problems' success rates.
    """
    rates = beta_rates(*beta)
    variance = n_problems * (half_width_wanted / _quantile((1 + LEVEL) / 2)) ** 2
    fixed = fewest_draws(ks=ks, rates=rates, variance=variance)
    of = "pass@" + ", ".join(map(str, ks))
    goal = f"{of} +-{100 * half_width_wanted:g} points at 95%, rates as of Beta{beta}: "
    if fixed is None:
        return f"{goal}not even {max(MOST_FIXED, *ks)} draws are enough"
    design = cheapest_design(ks=ks, rates=rates, variance=variance, fixed=fixed)
    if len(design.stages) == 1:
        return f"{goal}{fixed} draws a problem; no design that stops makes fewer"
    stages = ", ".join(map(str, design.stages))
    return (
        f"{goal}stages [{stages}], enough {design.enough}: "
        f"{design.expected_draws(rates).mean():.0f} draws a problem on average, {fixed} if fixed"
    )


def _quantile(p: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


def main(argv: list[str] | None = None) -> int:
    """Print what the draws can show; exit code 0."""
    parser = Parser(
        prog="python -m fgrpo_bench.stats.power",
        description=(__doc__ or "").split("\n", 1)[0],
        epilog=(__doc__ or "").split("\n", 1)[1],
    )
    parser.add_argument("--k", type=_positive, nargs="+", required=True, help="the k of pass@k")
    parser.add_argument("--problems", type=_positive, required=True, help="problems")
    parser.add_argument("--n-samples", type=_positive, nargs="*", default=[], help="draws each")
    parser.add_argument("--half-width", type=float, help="wanted half width, as a fraction")
    parser.add_argument(
        "--design", action="store_true", help="name the cheapest design of that half width"
    )
    parser.add_argument(
        "--beta",
        type=_parameter,
        nargs=2,
        default=PRIOR,
        metavar=("A", "B"),
        help="success rates of the problems for --design (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    if any(n < max(options.k) for n in options.n_samples):
        parser.error(f"--n-samples {min(options.n_samples)} is less than --k {max(options.k)}")
    if options.design and options.half_width is None:
        parser.error("--design needs the --half-width that is wanted, e.g. 0.01")
    if options.half_width is None and not options.n_samples:
        parser.error("nothing was asked: give --n-samples, e.g. 512, or --half-width, e.g. 0.01")
    if tuple(options.beta) != PRIOR and not options.design:
        parser.error(f"--beta {' '.join(map(str, options.beta))} is for --design alone: add it")
    if options.half_width is not None and not 0 < options.half_width < 1:
        parser.error(f"--half-width {options.half_width}: a fraction between 0 and 1, e.g. 0.01")
    for k in options.k:
        for n in options.n_samples:
            print(advice(n_samples=n, k=k, n_problems=options.problems))
    if options.design:
        print(
            design_advice(
                ks=options.k,
                n_problems=options.problems,
                half_width_wanted=options.half_width,
                beta=tuple(options.beta),
            )
        )
    elif options.half_width is not None:
        for k in options.k:
            print(_needed(k, options.problems, options.half_width))
    return 0


def _needed(k: int, n_problems: int, half_width_wanted: float) -> str:
    needed = draws_needed(k=k, n_problems=n_problems, half_width_wanted=half_width_wanted)
    enough = f"{needed} draws" if needed else f"not even {max(MOST_DRAWS, k)} draws"
    return (
        f"pass@{k} +-{100 * half_width_wanted:g} points at 95%: {enough} a problem are surely "
        "enough"
    )


def _parameter(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.01 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0.01 to 100, e.g. 0.5")
    return value


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= MOST:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number from 1 to {MOST:,}")
    return value


if __name__ == "__main__":
    sys.exit(main())
