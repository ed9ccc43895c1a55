"""What a planned evaluation can show, against simulation and against a denser search."""

import numpy as np
import pytest

from fgrpo_bench.stats.passk import pass_at_k
from fgrpo_bench.stats.power import (
    advice,
    draws_needed,
    half_width,
    main,
    smallest_effect,
    worst_variance,
)
from fgrpo_bench.stats.variance import draw_moments


@pytest.mark.parametrize(("n", "k"), [(16, 1), (64, 64), (512, 256), (256, 8)])
def test_the_worst_variance_is_the_worst_of_a_dense_search(n, k):
    rates = np.linspace(1e-5, 0.9999, 6_000)
    dense = draw_moments(n_samples=n, k=k, success_rate=rates)[1].max()
    assert worst_variance(n, k) == pytest.approx(dense, rel=5e-3)


def test_where_n_is_k_a_problem_is_a_coin_flip():
    assert worst_variance(256, 256) == pytest.approx(0.25, rel=1e-3)
    assert "coin flip, draw 2k" in advice(n_samples=256, k=256, n_problems=30)
    assert "coin flip" not in advice(n_samples=512, k=256, n_problems=30)


def test_the_smallest_effect_is_found_with_the_promised_power():
    n, k, problems = 64, 8, 200
    rates = np.exp(np.linspace(np.log(1e-4), np.log(0.9), 400))
    worst = rates[draw_moments(n_samples=n, k=k, success_rate=rates)[1].argmax()]
    rng = np.random.default_rng(0)
    draws = pass_at_k(n_samples=n, n_correct=rng.binomial(n, worst, (4_000, problems)), k=k)
    sd = 2**0.5 * draws.mean(axis=1).std()
    effect = smallest_effect(n_samples=n, k=k, n_problems=problems)
    assert effect == pytest.approx((1.959964 + 0.841621) * sd, rel=0.05)


def test_the_draws_needed_are_the_fewest():
    needed = draws_needed(k=8, n_problems=100, half_width_wanted=0.05)
    assert half_width(n_samples=needed, k=8, n_problems=100) <= 0.05
    assert half_width(n_samples=needed - 1, k=8, n_problems=100) > 0.05
    assert draws_needed(k=8, n_problems=100, half_width_wanted=0.5) == 8
    assert draws_needed(k=256, n_problems=30, half_width_wanted=1e-4) is None


def test_the_command_says_what_draws_show_and_refuses_what_makes_no_sense(capsys):
    assert (
        main(["--k", "8", "--problems", "100", "--n-samples", "8", "16", "--half-width", "0.1"])
        == 0
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[2].startswith("pass@8 +-10 points at 95%: ")
    for wrong in (
        ["--n-samples", "4"],
        ["--half-width", "2"],
        ["--problems", "0"],
        [*("--k", "1" + 11 * "0")],
    ):
        with pytest.raises(SystemExit):
            main(["--k", "8", "--problems", "9", *wrong])


def test_the_average_of_benchmarks_is_as_sure_as_its_parts_together():
    shared = {"n_samples": 256, "k": 64}
    one = smallest_effect(**shared, n_problems=100)
    assert smallest_effect(**shared, n_problems=[100]) == one
    assert smallest_effect(**shared, n_problems=[100] * 4) == pytest.approx(one / 2)
    small = smallest_effect(**shared, n_problems=30)
    both = smallest_effect(**shared, n_problems=[30, 100])
    assert both == pytest.approx((one**2 + small**2) ** 0.5 / 2)
    said = advice(**shared, n_problems=[30, 100])
    assert said.startswith("pass@64 of 30 + 100 problems from 256 draws each")
