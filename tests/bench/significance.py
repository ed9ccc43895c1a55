"""The significance test for 500 problems and 50,000 iterations, against naive resampling.

Naive: as the definition reads, each iteration shuffles every problem's draws of both models, keeps
m of them and computes pass@k; timed on few iterations and scaled.
"""

import json
import time

import numpy as np

from fgrpo_bench.stats.passk import pass_at_k_table
from fgrpo_bench.stats.subsampling import ITERATIONS, SUBSAMPLE, subsampling_test
from fgrpo_bench.stats.variance import subsample_moments

PROBLEMS, N, K, NAIVE_ITERATIONS = 500, 1_024, 128, 40


def naive(old: np.ndarray, new: np.ndarray, iterations: int) -> np.ndarray:
    """Differences in pass@k of subsamples. old, new: whether a draw is right, [problems, n]."""
    rng, table = np.random.default_rng(0), pass_at_k_table(SUBSAMPLE, K)

    def mean(draws: np.ndarray) -> float:
        kept = (rng.choice(row, SUBSAMPLE, replace=False) for row in draws)
        return float(np.mean([table[int(row.sum())] for row in kept]))

    return np.array([mean(new) - mean(old) for _ in range(iterations)])


def main() -> None:
    rng = np.random.default_rng(1)
    rates = rng.beta(0.4, 1.2, PROBLEMS)
    old, new = (rng.random((PROBLEMS, N)) < rate[:, None] for rate in (rates, 1.02 * rates))
    begun = time.process_time()
    resampled = naive(old, new, NAIVE_ITERATIONS)
    slow = (time.process_time() - begun) * ITERATIONS / NAIVE_ITERATIONS
    counts = {"old": old.sum(axis=1), "new": new.sum(axis=1)}
    facts = {"naive CPU s (scaled)": slow}
    for method in ("moments", "monte_carlo"):
        subsample_moments.cache_clear()  # as in a process that tests one pair of cells
        begun = time.process_time()
        made = subsampling_test(**counts, n_samples=N, k=K, method=method)
        seconds = time.process_time() - begun
        facts |= {f"{method} CPU s": seconds, f"{method} ratio": slow / seconds,
                  f"{method} sd": made.sd, f"{method} p": made.p_value}  # fmt: skip
        if method == "moments":
            begun = time.process_time()
            subsampling_test(**counts, n_samples=N, k=K)
            seconds = time.process_time() - begun
            facts |= {"next pair CPU s": seconds, "next pair ratio": slow / seconds}
    print(json.dumps(facts | {"naive sd": float(resampled.std(ddof=1))}))


if __name__ == "__main__":
    main()
