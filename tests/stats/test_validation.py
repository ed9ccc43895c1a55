"""pass@k of a validation loop is the mean over every subset, and what is no verdict is refused."""

from itertools import combinations

import numpy as np
import pytest

from fgrpo_bench.stats.validation import validation_metrics


@pytest.mark.parametrize(("n", "ks"), [(1, []), (2, [2]), (5, [2, 4, 5]), (8, [2, 4, 8])])
def test_it_is_the_mean_over_all_subsets_at_the_ks_of_verl(n, ks):
    correct = np.random.default_rng(n).random((7, n)) < 0.3
    metrics = validation_metrics(correct)
    assert metrics.pop(f"mean@{n}") == pytest.approx(correct.mean())
    assert metrics == pytest.approx(
        {
            f"pass@{k}": np.mean(
                [[any(row[list(some)]) for some in combinations(range(n), k)] for row in correct]
            )
            for k in ks
        }
    )


@pytest.mark.parametrize(
    ("correct", "said"),
    [
        ([1, 0], r"shape \[2\]: must be \[problems, n\]"),
        ([[]], r"shape \[1, 0\]"),
        ([[1, 0.5]], "correct holds 0.5: must be 0 or 1 for each rollout"),
        ([[1, float("nan")]], "correct holds nan"),
    ],
)
def test_what_is_no_verdict_is_refused(correct, said):
    with pytest.raises(ValueError, match=said):
        validation_metrics(correct)
