"""Bands over all k beside passk-inference, which leaves training seeds out.

On the same counts of one run of each method both are bands over problems: their widths, sets of the
first loss and CPU seconds. Then on planted truths, three runs of each method: how often each holds
the truth over runs at every k. passk-inference has no place for several runs; it gets the mean of
each problem over them.
"""

import json
import time

import numpy as np
from passk_inference.core import compare, simultaneous_band

from fgrpo_bench.analysis.comparisons import Resamples, bands
from fgrpo_bench.analysis.question import Compared
from fgrpo_bench.stats.bands import first_loss
from fgrpo_bench.stats.intervals import REPLICATES
from fgrpo_bench.stats.passk import pass_at_ks
from tests import calibration
from tests.support.planted import KS, METHODS, N, rates, runs, true_differences

PROBLEMS, TIMES, SEEDS = 500, 500, 3
PAIR = Compared(new=("new", 1), old=("old", 1), pair=None)


def same_counts() -> dict[str, object]:
    """One run of each method on the same problems."""
    rng = np.random.default_rng(0)
    base = [rates(rng, PROBLEMS)]
    old, new = (rng.binomial(N, runs(rng, base, n_seeds=1, method=method)[0]) for method in METHODS)
    begun = time.process_time()
    theirs = compare(old[0], N, new[0], N, ks=range(1, KS[-1] + 1), bootstrap=REPLICATES)
    seconds = time.process_time() - begun
    scores = {("old", 1): calibration.judged(old), ("new", 1): calibration.judged(new)}
    begun = time.process_time()
    rows = list(bands(Resamples({"usual": scores}, {}), [PAIR], ("usual",), KS))
    own = time.process_time() - begun
    ks = [row.k for row in rows]
    low, high = np.array([[row.low, row.high] for row in rows]).T
    places = np.array(ks) - 1
    ratio = (high - low) / (np.array(theirs["upper"]) - np.array(theirs["lower"]))[places]
    return {
        "problems": PROBLEMS,
        "least width as a ratio": float(ratio.min()),
        "largest": float(ratio.max()),
        "first loss": first_loss(ks, low, high),
        "theirs": tuple(theirs["first_loss_interval"]),
        "CPU s": own,
        "their CPU s": seconds,
    }


def several_runs() -> dict[str, object]:
    """Share of simulations in which a band holds the truth over runs at every k."""
    rng, truth = np.random.default_rng(1), true_differences()
    held = np.zeros(2)
    for _ in range(TIMES):
        resamples = calibration.simulated(rng, SEEDS)
        rows = list(bands(resamples, [PAIR], ("usual",), KS))
        held[0] += all(row.low <= truth[row.k - 1] <= row.high for row in rows)
        sides = resamples.paired("usual", PAIR.new, PAIR.old)
        ks = tuple(row.k for row in rows)
        new, old = (pass_at_ks(side.n_scored, side.n_correct, ks) for side in sides)
        made = simultaneous_band((new - old).mean(axis=0))
        own = truth[np.array(ks) - 1]
        held[1] += np.all((made["lower"] <= own) & (own <= made["upper"]))
    ours, theirs = held / TIMES
    return {"runs": SEEDS, "simulations": TIMES, "holds": ours, "theirs holds": theirs}


def main() -> None:
    for facts in (same_counts(), several_runs()):
        print(json.dumps(facts))


if __name__ == "__main__":
    main()
