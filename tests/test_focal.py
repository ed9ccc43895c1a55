"""The focal weight passes any number type through."""

import numpy as np
import torch

from fgrpo_bench import focal_weight


def test_it_is_one_minus_the_success_rate_to_the_power_gamma():
    assert focal_weight(0.75, 0.5) == 0.5
    assert focal_weight(0.75, 2) == 0.0625
    assert focal_weight(1.0, 1.0) == 0.0


def test_gamma_zero_is_exactly_one_even_for_a_solved_group():
    rates = np.array([0.0, 0.3, 1.0])
    np.testing.assert_array_equal(focal_weight(rates, 0.0), np.ones(3))


def test_tensors_stay_tensors_and_keep_their_gradient():
    rates = torch.tensor([0.0, 0.5], requires_grad=True)
    weights = focal_weight(rates, 2.0)
    weights.sum().backward()
    assert weights.tolist() == [1.0, 0.25]
    assert rates.grad is not None and rates.grad.tolist() == [-2.0, -1.0]
