"""How often equal paths at other speeds are called different at equal pass@1, how often a lift is
found, and how often intervals hold the truth.

A part of `python -m tests.calibration`. Along a path the log-odds of all problems rise and are
stretched, so that pass@1 rises and pass@256 falls, the faster the further a run has got. Each seed
has a base model of its own, which its cells share; a run has a speed and a stretch of its own, and
each of its problems wanders by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from fgrpo_bench.stats.intervals import DIFFERENCES, IntervalEstimate, conclude, resample
from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.paths import END, MEAN, Gaps, PassCurve, gaps, on_path
from tests.support.planted import Finding, log_odds

Floats = NDArray[np.float64]
N, PROBLEMS, K, CHECKPOINTS = 512, 256, 256, 6
SPEEDS = (1.0, 0.5, 0.25)
SHIFT = 1.5
"""Rise of log-odds of the fastest run."""
BEND = 1.3
"""Stretch of the fastest run, growing with the square of its progress."""
STEEP = {"bend": 2.6, "bend_spread": 0.4}
"""Of runs that unlearn twice as much, each at its own pace."""
LIFTED = 0.69
"""The same of a method that keeps 10 points more of pass@256 at the pass@1 of the other's end."""
SPEED_SPREAD, STRETCH_SPREAD, BASE_SPREAD, OWN_SPREAD = 0.1, 0.1, 0.2, 0.5
"""Standard deviations: of a run's speed and its stretch, of a seed's base model, and of what each
problem wanders along the path of the fastest run."""
REPLICATES = 1_000
"""Resamples of each simulated data set; the product makes ten times as many."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """How the runs of a cell go: how far of the fastest one, and how much they stretch."""

    speed: float = 1.0
    bend: float = BEND
    bend_spread: float = STRETCH_SPREAD
    """Standard deviation between runs."""
    levels_off: bool = False
    """Whether pass@1 stays where it is from half of the run on, while pass@k goes on falling."""


def probabilities(rng: np.random.Generator, base: Floats, run: Runs, n_checkpoints: int) -> Floats:
    """Success rates [seeds, checkpoints, problems], the base model first. base: their log-odds
    under the base models, [seeds, problems]."""
    n_seeds, n_problems = base.shape
    speed = run.speed * np.exp(rng.normal(0, SPEED_SPREAD, (n_seeds, 1, 1)))
    share = np.arange(n_checkpoints + 1)[None, :, None] / n_checkpoints
    progress = speed * share
    rise = speed * np.minimum(share, 0.5) if run.levels_off else progress
    steps = rng.normal(0, 1, (n_seeds, n_checkpoints, n_problems))
    wandered = np.concatenate([np.zeros((n_seeds, 1, n_problems)), steps.cumsum(axis=1)], axis=1)
    own = OWN_SPREAD * np.sqrt(speed / n_checkpoints) * wandered
    bend = run.bend + rng.normal(0, run.bend_spread, (n_seeds, 1, 1))
    stretch = 1 + bend * progress**2
    # around log-odds of -1: what is solved more often than 1 time in 4 gains by the stretch
    return expit(SHIFT * rise + stretch * (base[:, None] + 1.0) - 1.0 + own)


def bases(rng: np.random.Generator, n_seeds: int, n_problems: int) -> Floats:
    """Log-odds of problems under the base models of seeds, [seeds, problems]."""
    common = log_odds(np.clip(rng.beta(0.7, 3.0, n_problems), 1e-4, 1 - 1e-4))
    shift = rng.normal(0, BASE_SPREAD, (n_seeds, 1))
    return common + shift + rng.normal(0, 0.3, (n_seeds, n_problems))


EQUAL = {
    "equal paths, speeds 1 and 1": (Runs(), Runs()),
    "equal paths, speeds 1 and 1/2": (Runs(), Runs(speed=0.5)),
    "equal paths, speeds 1 and 1/4": (Runs(), Runs(speed=0.25)),
    "equal paths, speeds 1/4 and 1": (Runs(speed=0.25), Runs()),
    "steep equal paths, speeds 1 and 1": (Runs(**STEEP), Runs(**STEEP)),
    "steep equal paths, speeds 1 and 1/2": (Runs(**STEEP), Runs(speed=0.5, **STEEP)),
    "steep equal paths, speeds 1/2 and 1": (Runs(speed=0.5, **STEEP), Runs(**STEEP)),
    "equal paths, pass@1 levels off": (Runs(levels_off=True), Runs(levels_off=True, speed=0.97)),
}
"""New and old cell; one path, so that any difference is one of speed."""
LIFTS = {
    "lift of 10 points, speeds 1 and 1": (Runs(bend=LIFTED), Runs()),
    "the same method, speeds 1/2 and 1": (Runs(bend=LIFTED, speed=0.5), Runs()),
}
WHERE = {"at the highest pass@1": END, "mean over the range": MEAN}


@lru_cache
def truth(new: Runs, old: Runs) -> tuple[float, float]:
    """Of the gap at the highest pass@1 that both reach and of its mean over the range: over many
    seeds and problems, whose paths are known at many places."""
    rng = np.random.default_rng(81)
    at_end, over = [], []
    for _ in range(600):
        base, curves = bases(rng, 1, 1_500), []
        for run in (new, old):
            rates = probabilities(rng, base, run, 10 * CHECKPOINTS)[0]
            x, y = rates.mean(axis=1), (1 - (1 - rates) ** K).mean(axis=1)
            kept = on_path(x, np.zeros(len(x)))
            curves.append((x[kept], y[kept]))
        levels = np.linspace(curves[0][0][0], min(x[-1] for x, _ in curves), 101)
        gap = np.subtract(*(np.interp(levels, x, y) for x, y in curves))
        at_end.append(gap[-1])
        over.append(gap[1:].mean() - gap[-1] / 200)
    return float(np.mean(at_end)), float(np.mean(over))


def measured(rng: np.random.Generator, rates: Floats) -> PassCurve:
    """N draws of every problem. rates: [seeds, checkpoints, problems]."""
    correct = rng.binomial(N, rates)
    share = correct / N
    return PassCurve(
        pass_at_1=share,
        pass_at_k=pass_at_k(n_samples=N, n_correct=correct, k=K)[..., None],
        noise=(share * (1 - share)).mean(axis=2) / (N - 1) / rates.shape[2],
    )


def simulated(rng: np.random.Generator, new: Runs, old: Runs, n_seeds: int) -> Gaps:
    """The gaps of one data set."""
    base = bases(rng, n_seeds, PROBLEMS)
    both = [probabilities(rng, base, run, CHECKPOINTS) for run in (new, old)]
    return gaps(*([measured(rng, rates)] for rates in both))


def concluded(found: Gaps) -> list[IntervalEstimate]:
    """At END and MEAN."""
    values = found.parts[0][:, :, [END, MEAN], 0]
    return conclude(resample(values, limits=DIFFERENCES, replicates=REPLICATES))


def study(times: int, names: tuple[str, ...] = (*EQUAL, *LIFTS), n_seeds: int = 5) -> list[Finding]:
    """Size, power and coverage in each of these worlds."""
    out = []
    for name in names:
        new, old = (EQUAL | LIFTS)[name]
        rng = np.random.default_rng([82, sum(map(ord, name)), n_seeds])
        true, met = truth(new, old), 0
        rejected, held = np.zeros(2), np.zeros(2)
        for _ in range(times):
            found = simulated(rng, new, old, n_seeds)
            if not found.meet:
                continue  # such a pair is inconclusive
            met += 1
            for i, estimate in enumerate(concluded(found)):
                assert estimate.low is not None and estimate.high is not None
                rejected[i] += not estimate.low <= 0 <= estimate.high
                held[i] += estimate.low <= true[i] <= estimate.high
        of = f"{name}, {n_seeds} seeds"
        for i, where in enumerate(WHERE):
            size, share = (0.05, "called different") if name in EQUAL else (0.8, "found")
            at = f"{of}, {where}, truth {100 * true[i]:.1f}"
            out += [
                Finding(what=f"{share}, {at}", promised=size, found=rejected[i] / times,
                        times=times),
                Finding(what=f"coverage, {at}", promised=0.95, found=held[i] / max(met, 1),
                        times=times),
            ]  # fmt: skip
    return out


def print_bias(times: int) -> None:
    """Print mean gaps beside the truth, by the monotone cubic and by chords, in points."""
    print("\n| equal paths | where | truth | cubic | chords | Monte Carlo error |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    for name in EQUAL:
        found: list[tuple[Floats, Floats]] = []
        rng = np.random.default_rng([83, sum(map(ord, name))])
        for _ in range(times):
            base = bases(rng, 1, PROBLEMS)
            both = [measured(rng, probabilities(rng, base, r, CHECKPOINTS)) for r in EQUAL[name]]
            made = gaps(*([path] for path in both))
            if made.meet:
                found.append((made.by_seed[0, :2, 0], _by_chords(*both)))
        cubic, chords = np.array(found).transpose(1, 0, 2)
        for i, where in enumerate(WHERE):
            numbers = [truth(*EQUAL[name])[i], cubic[:, i].mean(), chords[:, i].mean()]
            error = cubic[:, i].std() / np.sqrt(len(cubic))
            print(
                f"| {name} | {where} | "
                + " | ".join(f"{100 * number:+.2f}" for number in numbers)
                + f" | {100 * error:.2f} |",
                flush=True,
            )


def _by_chords(*cells: PassCurve) -> Floats:
    """The gap at END and MEAN of one seed were paths straight between checkpoints."""
    curves = []
    for cell in cells:
        x, y = cell.pass_at_1[0].mean(axis=1), cell.pass_at_k[0, :, :, 0].mean(axis=1)
        kept = on_path(x, cell.noise[0])
        curves.append((x[kept], y[kept]))
    levels = np.linspace(max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves), 201)
    gap = np.subtract(*(np.interp(levels, x, y) for x, y in curves))
    return np.array([gap[-1], gap[1:].mean() - gap[-1] / 400])
