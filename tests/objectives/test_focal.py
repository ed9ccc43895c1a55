"""The focal weight passes any number type through."""

import numpy as np
import pytest
import torch

from fgrpo_bench import focal_weight
from fgrpo_bench.objectives.focal import low_lr_multiplier


def test_it_is_one_minus_the_success_rate_to_the_power_gamma():
    assert focal_weight(0.75, 0.5) == 0.5
    assert focal_weight(0.75, 2) == 0.0625
    assert focal_weight(1.0, 1.0) == 0.0
    # exactly one for gamma 0, even for a solved group
    np.testing.assert_array_equal(focal_weight(np.array([0.0, 0.3, 1.0]), 0.0), np.ones(3))


def test_tensors_stay_tensors_and_keep_their_gradient():
    rates = torch.tensor([0.0, 0.5], requires_grad=True)
    weights = focal_weight(rates, 2.0)
    weights.sum().backward()
    assert weights.tolist() == [1.0, 0.25]
    assert rates.grad is not None and rates.grad.tolist() == [-2.0, -1.0]


def test_the_low_lr_multiplier_is_the_papers_ratio_of_expectations():
    rates = (np.arange(1_000_000) + 0.5) / 1_000_000  # uniform on [0, 1], by midpoints
    spread = np.sqrt(rates * (1 - rates))
    for gamma in (0.0, 0.5, 1.0, 2.0, 3.7):
        brute_force = ((1 - rates) ** gamma * spread).mean() / spread.mean()
        assert low_lr_multiplier(gamma) == pytest.approx(brute_force, rel=1e-6)
    assert 1e-6 * low_lr_multiplier(0.5) == pytest.approx(6.8e-7, abs=0.5e-8)  # the paper's
