"""What difference a sweep detects with its training seeds, and how many seeds a difference needs.

examples:
    fgrpo-bench power --k 1 256 --difference 0.05 --family 4
    fgrpo-bench power --k 1 256 --difference 0.05 --family 4 --seed-sd 0.02
    fgrpo-bench power --k 1 256 --seeds 5 --family 4 --from groupsize
    fgrpo-bench power --k 256 --problems 500 --n-samples 256 512 1024
    fgrpo-bench power --k 256 --problems 500 --half-width 0.01
    fgrpo-bench power --k 1 256 --problems 500 --half-width 0.01 --design

The first three are about training seeds: with --difference how many are needed so that a true
difference of so much is significant in a family of so many comparisons with 80% power, with --seeds
what difference that many show. How far seeds differ is that of a stored sweep (--from), as given
(--seed-sd), or assumed as in the shipped sweeps of countdown.

The others are about draws: only their noise is counted, for given problems and models, and at its
largest. No number of draws makes up for seeds. With --design the problems' success rates are those
of a Beta distribution, and the draws may stop where enough are correct.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from fgrpo_bench.analysis.stored import stored_comparisons
from fgrpo_bench.command import application
from fgrpo_bench.command.application import Application, Json, Root, print_json, refuse
from fgrpo_bench.command.runs import choose_run, complete_run, default_root, find_runs
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.stats.power import (
    MOST_DRAWS,
    MOST_SEEDS,
    POWER,
    Parts,
    Smallest,
    advice,
    design_advice,
    draws_needed,
    power_with_seeds,
    seeds_needed,
    smallest_effect,
    smallest_range,
)
from fgrpo_bench.stats.staged import PRIOR, fixed_design

MOST = 100_000
"""Of draws, k, problems and comparisons that the command takes: a table has a row a draw."""


@dataclass(frozen=True, kw_only=True)
class SeedVariance:
    """How far training seeds differ, and problems, in the difference of two cells' pass@k."""

    source: str
    """Whose it is, in words, e.g. `as in groupsize countdown v1, 11 pairs of 3 seeds`."""
    seeds: Mapping[int, float]
    """By k, the variance between seeds of a difference's mean over problems; rising k."""
    problems: Mapping[int, float]
    """By k, the variance of that mean that is due to its problems, as many as n_problems."""
    n_problems: int
    degrees: int
    """Of the variance between seeds: pairs x (seeds - 1), more than there are where pairs share a
    cell; 0 where it is assumed."""

    def at(self, k: int, n_problems: Sequence[int] = ()) -> Parts:
        """At any k, in between by log k, and beyond the ends as at the end.

        n_problems: those that are planned, several for the benchmarks of a plain average; none is
        as many as here, and so is a stored average, which is of these benchmarks already.
        """
        seeds, problems = (
            float(np.interp(math.log(k), np.log(list(by_k)), list(by_k.values())))
            for by_k in (self.seeds, self.problems)
        )
        n = self.n_problems
        if len(n_problems) == 1 or (n_problems and not self.degrees):
            # Variances of the benchmarks add up over count^2: that of so many problems together.
            n = round(len(n_problems) ** 2 / sum(1 / size for size in n_problems))
        return Parts(seeds=seeds, problems=problems * self.n_problems / n, n_problems=n)


# Of groupsize countdown v1: the 11 pairs of its trained cells that are asked about, 3 seeds each;
# between seeds at k = 256 as ten seeds of methods-declared showed, 2.0 points by those three.
ASSUMED = SeedVariance(
    source="assumed as in the shipped countdown sweeps",
    seeds={1: 0.0129**2, 16: 0.0299**2, 256: 0.037**2},
    problems={1: 0.0056**2, 16: 0.0063**2, 256: 0.0069**2},
    n_problems=256,
    degrees=0,
)
"""Where no stored sweep tells: a tiny model on arithmetic; another may differ by more."""


def pooled_seed_variance(
    comparisons: pl.DataFrame, column: str, source: str
) -> SeedVariance | None:
    """Of a stored sweep's comparisons on a column; None where no two seeds were compared.

    Pooled over all pairs of trained cells that a question asks for, where there are none over those
    with the base models; `standard_error` squared is the sum of both parts.
    """
    rows = comparisons.filter(
        (pl.col("column") == column)
        & pl.col("group").is_not_null()
        & pl.col("standard_error").is_not_null()
        & (pl.col("seeds").list.len() > 1)
    )
    trained = rows.filter(pl.col("old") != "base")
    rows = trained if len(trained) else rows
    if not len(rows):
        return None
    seeds, problems = dict[int, float](), dict[int, float]()
    for k in sorted(rows["k"].unique()):
        at_k = rows.filter(pl.col("k") == k)
        counts = at_k["seeds"].list.len().to_numpy()
        variances = np.array([np.var(values, ddof=1) for values in at_k["by_seed"].to_list()])
        seeds[k] = float(np.average(variances, weights=counts - 1))
        # What a standard error holds beyond its seeds is due to problems; an estimate below 0 is 0.
        rest = at_k["standard_error"].to_numpy() ** 2 - variances / counts
        problems[k] = float(np.maximum(rest, 0).mean())
    n_pairs, most = len(at_k), int(counts.max())
    return SeedVariance(
        source=f"as in {source}, {n_pairs} pair{'s' if n_pairs > 1 else ''} of {most} seeds",
        seeds=seeds,
        problems=problems,
        n_problems=int(at_k["n_problems"].max()),  # type: ignore[arg-type]
        degrees=int((counts - 1).sum()),
    )


def stored_seed_variances(paths: RunPaths, columns: Sequence[str] = ()) -> dict[str, SeedVariance]:
    """Of a run's stored analysis, by column; without those of which it does not tell. columns: none
    is its first."""
    comparisons = stored_comparisons(paths)
    if comparisons is None or not len(comparisons):
        return {}
    source = f"{paths.sweep} {paths.experiment} {paths.version}"
    of_columns = columns or [comparisons["column"][0]]
    spreads = {column: pooled_seed_variance(comparisons, column, source) for column in of_columns}
    return {column: spread for column, spread in spreads.items() if spread is not None}


def seed_variances_for(planned: RunPaths, columns: Sequence[str]) -> dict[str, SeedVariance]:
    """What a planned run goes by, by column: its own stored analysis, else that of its experiment
    under the same root with the most degrees of freedom, else ASSUMED."""
    runs = find_runs(planned.root, experiment=planned.experiment)
    stored = {run: stored_seed_variances(run, columns) for run in runs}

    def best(column: str) -> SeedVariance:
        if column in (of_run := stored.get(planned, {})):
            return of_run[column]
        others = [spreads[column] for spreads in stored.values() if column in spreads]
        return max(others, key=lambda spread: spread.degrees, default=ASSUMED)

    return {column: best(column) for column in columns}


@dataclass(frozen=True, kw_only=True)
class DetectableEffect:
    """What a family of comparisons on a column shows with POWER."""

    column: str
    ks: tuple[int, ...]
    n_seeds: int
    """As planned."""
    more: int
    """A larger number of seeds that is looked at beside it."""
    family: int
    """Comparisons that are corrected together; 1 where each stands alone."""
    source: str
    planned: tuple[Smallest, ...]
    """The smallest difference at each k; none with a single seed, which says nothing about
    others."""
    with_more: tuple[Smallest, ...]
    """The same with more seeds."""

    def __str__(self) -> str:
        """In a line for a person."""
        corrected = f"family of {self.family}" if self.family > 1 else "each comparison alone"
        head = f"{corrected} (k = {', '.join(map(str, self.ks))}; {self.column}): "
        spread = f"spread of seeds {self.source}"
        more = _and([str(smallest) for smallest in self.with_more])
        if self.n_seeds < 2:
            return (
                f"{head}one training seed says nothing about other training runs (intervals are "
                f"over problems only); {self.more} seeds would show {self._at_ks(self.with_more)} "
                f"with {POWER:.0%} power ({spread})"
            )
        return (
            f"{head}{POWER:.0%} power for {self._at_ks(self.planned)} ({self.n_seeds} seeds; "
            f"{spread}); {self.more} seeds would show {more}"
        )

    def _at_ks(self, differences: Sequence[Smallest]) -> str:
        points = [str(smallest) for smallest in differences]
        points[0] = f"{points[0]} points"
        ends = zip(points, self.ks, strict=True)
        return "differences of " + _and([f"{value} at k = {k}" for value, k in ends])


def detectable_effect(
    *,
    column: str,
    ks: Sequence[int],
    n_seeds: int,
    family: int,
    spread: SeedVariance,
    n_problems: Sequence[int],
) -> DetectableEffect:
    """Of a planned sweep. ks: the smallest and the largest of the family; n_problems: as of
    `Spread.at`."""
    # Half as many again, and at least two: one more hardly moves what is detected.
    more = max(n_seeds + 2, n_seeds * 3 // 2)

    def smallest(n_seeds: int) -> tuple[Smallest, ...]:
        return tuple(
            smallest_range(
                n_seeds=n_seeds,
                parts=spread.at(k, n_problems),
                family=family,
                degrees=spread.degrees,
            )
            for k in ks
        )

    return DetectableEffect(
        column=column,
        ks=tuple(ks),
        n_seeds=n_seeds,
        more=more,
        family=family,
        source=spread.source,
        planned=smallest(n_seeds) if n_seeds > 1 else (),
        with_more=smallest(more),
    )


def _and(phrases: Sequence[str]) -> str:
    *most, last = phrases
    return f"{', '.join(most)} and {last}" if most else last


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _parameter(text: str) -> float:
    value = _number(text)
    if not 0.01 <= value <= 100:
        raise typer.BadParameter(f"{text}: must be a number from 0.01 to 100, e.g. 0.5")
    return value


def _fraction(text: str) -> float:
    value = _number(text)
    if not 0 < value < 1:
        raise typer.BadParameter(
            f"{text}: must be a fraction between 0 and 1, e.g. 0.05 for 5 points"
        )
    return value


def _positive(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 1 <= value <= MOST:
        raise typer.BadParameter(f"{text}: must be a whole number from 1 to {MOST:,}")
    return value


def _seeds(text: str) -> int:
    value = int(text) if text.isdecimal() else 0
    if not 2 <= value <= MOST_SEEDS:
        raise typer.BadParameter(
            f"{text}: must be a whole number from 2 to {MOST_SEEDS:,}; one training seed says "
            "nothing about other training runs"
        )
    return value


_DOC = str(__doc__).partition("\n")
app = Application(_DOC[0])


def main(argv: Sequence[str] | None = None) -> int:
    """Print what seeds or draws can show; exit code 0, 2 for what makes no sense."""
    return application.run(app, argv, "python -m fgrpo_bench.analysis.power")


@app.add("power", "how many seeds and draws are enough, before a run", more=_DOC[2])
def power(
    context: typer.Context,
    k: Annotated[list[int], typer.Option(parser=_positive, metavar="K", help="the k of pass@k")],
    problems: Annotated[
        int | None,
        typer.Option(parser=_positive, metavar="N", help="problems (seeds: as many as in --from)"),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(parser=_fraction, metavar="FRACTION", help="of seeds: true difference"),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(parser=_seeds, metavar="N", help="of seeds: how many are planned"),
    ] = None,
    family: Annotated[
        int | None,
        typer.Option(
            parser=_positive,
            metavar="N",
            help="of seeds: comparisons that are corrected together (default: 1)",
        ),
    ] = None,
    seed_sd: Annotated[
        float | None,
        typer.Option(
            parser=_fraction,
            metavar="FRACTION",
            help="of seeds: standard deviation between seeds",
        ),
    ] = None,
    stored: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="SWEEP",
            help="of seeds: a sweep that was analysed, sweep[/experiment[/version]]",
            autocompletion=complete_run,
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="of --from: benchmark or average (default: its first)")
    ] = None,
    root: Root = None,
    n_samples: Annotated[
        list[int] | None,
        typer.Option(parser=_positive, metavar="N", help="of draws: how many a problem"),
    ] = None,
    half_width: Annotated[
        float | None,
        typer.Option(
            parser=_fraction, metavar="FRACTION", help="of draws: the half width that is wanted"
        ),
    ] = None,
    design: Annotated[
        bool,
        typer.Option("--design", help="of draws: name the cheapest design of that half width"),
    ] = False,
    beta: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="A B",
            help="of --design: success rates of the problems "
            f"(default: {' '.join(map(str, PRIOR))})",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    options = PowerOptions(
        k=k,
        problems=problems,
        difference=difference,
        seeds=seeds,
        family=family or 1,
        seed_sd=seed_sd,
        stored=stored,
        column=column,
        root=root or default_root(),
        n_samples=n_samples or [],
        half_width=half_width,
        design=design,
        beta=PRIOR if beta is None else (_parameter(beta[0]), _parameter(beta[1])),
    )
    _check(context, options)
    answers = list[PowerAnswer]()
    if difference is not None or seeds is not None:
        try:
            spread = _spread(options)
        except (FileNotFoundError, ValueError) as error:
            context.fail(str(error))
        answers += [_seeds_answer(options, spread, at_k) for at_k in k]
    answers += [
        _draws_answer(at_k, _given_problems(problems), n) for at_k in k for n in options.n_samples
    ]
    if half_width is not None and design:
        text = design_advice(
            ks=k,
            n_problems=_given_problems(problems),
            target_half_width=half_width,
            beta=options.beta,
        )
        answers.append(PowerAnswer(text=text, numbers={"ks": k, "half_width": half_width}))
    elif half_width is not None:
        answers += [
            _draws_for_half_width(at_k, _given_problems(problems), half_width) for at_k in k
        ]
    if as_json:
        print_json([answer.numbers | {"words": answer.text} for answer in answers])
    else:
        print(*(answer.text for answer in answers), sep="\n")
    return 0


@dataclass(frozen=True, kw_only=True)
class PowerAnswer:
    """What seeds or draws can show at one k, as a line and as numbers."""

    text: str
    numbers: dict[str, Any]
    """By names of the command's options; fractions. None: not even the most there may be."""


def _given_problems(problems: int | None) -> int:
    assert problems is not None, "_check has refused this"
    return problems


@dataclass(frozen=True, kw_only=True)
class PowerOptions:
    """What the command was given; None where an option was not."""

    k: list[int]
    problems: int | None
    difference: float | None
    seeds: int | None
    family: int
    seed_sd: float | None
    stored: str | None
    column: str | None
    root: Path
    n_samples: list[int]
    half_width: float | None
    design: bool
    beta: tuple[float, float]


def _check(context: typer.Context, options: PowerOptions) -> None:
    """Refuses what no single option shows to be wrong."""
    of_draws = bool(options.n_samples) or options.half_width is not None
    of_seeds = options.difference is not None or options.seeds is not None
    if any(n < max(options.k) for n in options.n_samples):
        context.fail(f"--n-samples {min(options.n_samples)} is less than --k {max(options.k)}")
    if options.design and options.half_width is None:
        context.fail("--design needs the --half-width that is wanted, e.g. 0.01")
    if not of_seeds:
        refuse(context, "is for --difference or --seeds alone", "seed_sd", "stored", "family")
    if not of_draws and not of_seeds:
        context.fail(
            "nothing was asked: give --difference, e.g. 0.05, or --seeds, e.g. 3, or --n-samples, "
            "e.g. 512, or --half-width, e.g. 0.01"
        )
    if of_draws and options.problems is None:
        context.fail(
            "what --n-samples and --half-width show depends on how many problems there are: "
            "add --problems, e.g. 500"
        )
    if not options.design:
        refuse(context, "is for --design alone", "beta")
    if options.stored is not None and options.seed_sd is not None:
        context.fail("--seed-sd beside --from: both say how far seeds are apart; give one")
    if options.stored is None:
        refuse(context, "is of --from", "column", "root")
    if of_seeds and options.problems == 1:
        context.fail("--problems 1: an interval over problems needs at least 2")


def _spread(options: PowerOptions) -> SeedVariance:
    """That the command is asked to go by; FileNotFoundError and ValueError where a stored sweep
    does not tell it."""
    if options.seed_sd is not None:
        points = f"{100 * options.seed_sd:g} points"
        return SeedVariance(
            source=f"{points} as given, problems {ASSUMED.source}",
            seeds={1: options.seed_sd**2},
            problems=ASSUMED.problems,
            n_problems=ASSUMED.n_problems,
            degrees=0,
        )
    if options.stored is None:
        return ASSUMED
    paths = choose_run(options.root, options.stored)
    spreads = list(
        stored_seed_variances(paths, [options.column] if options.column else ()).values()
    )
    if not spreads:
        column = f" of two seeds on {options.column}" if options.column else " of two seeds"
        raise ValueError(
            f"--from {options.stored}: no stored analysis has comparisons{column}: run "
            f"`fgrpo-bench analysis {options.stored}` first, or name another sweep or give "
            "--seed-sd"
        )
    return spreads[0]


def _seeds_answer(options: PowerOptions, spread: SeedVariance, k: int) -> PowerAnswer:
    sizes = () if options.problems is None else (options.problems,)
    parts, family = spread.at(k, sizes), options.family
    asked = f"k = {k}, " + (f"family of {family}: " if family > 1 else "a comparison alone: ")
    rests_on = f"(spread of seeds {spread.source}; {parts.n_problems} problems)"
    numbers: dict[str, Any] = {
        "k": k,
        "family": family,
        "problems": parts.n_problems,
        "spread": spread.source,
    }
    numbers |= {"seeds": options.seeds, "difference": options.difference, "power": POWER}
    if options.seeds is None:
        assert options.difference is not None, "one of the two is given"
        needed = seeds_needed(options.difference, parts=parts, family=family)
        seeds = f"not even {MOST_SEEDS:,} seeds show" if needed is None else f"{needed} seeds show"
        text = (
            f"{asked}{seeds} a difference of {100 * options.difference:g} points with {POWER:.0%} "
            f"power {rests_on}"
        )
        return PowerAnswer(text=text, numbers=numbers | {"seeds": needed})
    if options.difference is None:
        shown = smallest_range(
            n_seeds=options.seeds, parts=parts, family=family, degrees=spread.degrees
        )
        text = (
            f"{asked}{options.seeds} seeds show differences of {shown} points with "
            f"{POWER:.0%} power {rests_on}"
        )
        ends = {"difference": shown.difference, "difference_range": shown.ends}
        return PowerAnswer(text=text, numbers=numbers | ends)
    power = power_with_seeds(options.difference, n_seeds=options.seeds, parts=parts, family=family)
    text = (
        f"{asked}{options.seeds} seeds show a difference of {100 * options.difference:g} points "
        f"with {power:.0%} power {rests_on}"
    )
    return PowerAnswer(text=text, numbers=numbers | {"power": power})


def _draws_answer(k: int, n_problems: int, n_samples: int) -> PowerAnswer:
    design, numbers = fixed_design(n_samples), {"k": k, "problems": n_problems}
    shown = smallest_effect(design=design, k=k, n_problems=n_problems)
    return PowerAnswer(
        text=advice(design=design, k=k, n_problems=n_problems),
        numbers=numbers | {"n_samples": n_samples, "difference": shown, "power": POWER},
    )


def _draws_for_half_width(k: int, n_problems: int, target_half_width: float) -> PowerAnswer:
    needed = draws_needed(k=k, n_problems=n_problems, target_half_width=target_half_width)
    enough = f"{needed} draws" if needed else f"not even {max(MOST_DRAWS, k)} draws"
    text = (
        f"pass@{k} +-{100 * target_half_width:g} points at 95%: {enough} a problem are surely "
        "enough"
    )
    numbers = {"k": k, "problems": n_problems, "half_width": target_half_width}
    return PowerAnswer(text=text, numbers=numbers | {"n_samples": needed})


if __name__ == "__main__":
    sys.exit(main())
