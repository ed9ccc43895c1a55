"""pass@k beside verl's best@k on the same draws: the table of docs/reference/integrations.md."""

from pathlib import Path

import numpy as np
import pytest
from verl.trainer.ppo.metric_utils import process_validation_metrics

from fgrpo_bench.stats.validation import validation_metrics

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "integrations.md"
N_PROBLEMS, N = 40, 16
RATES = ((np.arange(N_PROBLEMS) + 0.5) / N_PROBLEMS) ** 3
"""Success rates, half of them below 1/8."""


def by_verl(correct):
    """Its metrics of draws [problems, n]."""
    uids = [f"p{problem}" for problem in range(len(correct)) for _ in correct[problem]]
    scores = np.asarray(correct, dtype=float).ravel().tolist()
    return process_validation_metrics(["data"] * len(uids), uids, {"acc": scores})["data"]["acc"]


def test_the_page_has_both_on_the_same_draws():
    draws = np.random.default_rng(0).random((N_PROBLEMS, N)) < RATES[:, None]
    ours, theirs = validation_metrics(draws), by_verl(draws)
    assert ours["mean@16"] == theirs["mean@16"]
    rows = [
        f"| {k} | {np.mean(1 - (1 - RATES) ** k):.3f} | {ours[f'pass@{k}']:.3f} | "
        f"{theirs[f'best@{k}/mean']:.3f} |"
        for k in (2, 4, 8, 16)
    ]
    assert "\n".join(rows) in PAGE.read_text(encoding="utf-8"), "\n".join(rows)


def test_a_right_rollout_that_is_there_is_found():
    assert validation_metrics([[1, 0, 0, 0]])["pass@4"] == 1
    assert by_verl([[1, 0, 0, 0]])["best@4/mean"] == pytest.approx(1 - 0.75**4, abs=0.03)
